# SPDX-License-Identifier: Apache-2.0
"""Run `make test` repeatedly, every other time beside busy processes; list all failed tests.

Not part of CI. Logs and results are in build/soak/<run>. Exit code 0: no test failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from run_tests import KEPT, ROOT, cpu_score, duration, read_results

SOAK = ROOT / "build" / "soak"


def _spin() -> None:
    while True:
        pass


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Run this many CPU-bound processes at normal priority."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for one in processes:
        one.start()
    try:
        yield
    finally:
        for one in processes:
            one.kill()
            one.join()


def _make_test(log: BinaryIO) -> int:
    """Run `make test` and return its exit code; stops its processes on Ctrl-C and SIGTERM."""
    with subprocess.Popen(
        ["make", "test"], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, process_group=0
    ) as process:
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def one_run(number: int, beside: int) -> tuple[bool, list[str]]:
    """Run `make test` once. Returns whether it passed, and the failed tests."""
    folder = SOAK / f"{number:02d}"
    folder.mkdir(parents=True)
    began = time.monotonic()
    with busy(beside), (folder / "make-test.log").open("wb") as log:
        code = _make_test(log)
    took = time.monotonic() - began
    red = []
    for results in sorted(KEPT.glob("*.xml")):
        red += [one.test for one in read_results(results)[2]]
    for file in KEPT.glob("*.*"):
        shutil.copy(file, folder)
    if code and KEPT.is_dir():
        shutil.move(KEPT, folder / "test")
    load = f"beside {beside} busy processes" if beside else "alone"
    print(
        f"run {number:>2} {load:<24} {'red' if code else 'green':<6} {duration(took)}", flush=True
    )
    for test in red:
        print(f"       {test}", flush=True)
    return code == 0, red


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how often (default 10)")
    parser.add_argument("--busy", type=int, default=6, help="busy processes in every other run")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    shutil.rmtree(SOAK, ignore_errors=True)
    print(f"CPU score {cpu_score():.1f}", flush=True)
    green, ever_red = 0, Counter[str]()
    for number in range(1, asked.runs + 1):
        is_green, red = one_run(number, asked.busy if number % 2 == 0 else 0)
        green += is_green
        ever_red.update(red)
    print(f"\n{green} of {asked.runs} runs were green")
    for test, times in ever_red.most_common():
        print(f"red {times} times: {test}")
    return 0 if green == asked.runs else 1


if __name__ == "__main__":
    sys.exit(main())
