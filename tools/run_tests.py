# SPDX-License-Identifier: Apache-2.0
"""Run make targets with tests in sequence; store their logs and print a summary.

Used by `make test` and `make test-all`. A failed part does not stop the next one. Everything stays
in build/test until the next run:

    build/test/<part>.log   the output of the part
    build/test/<part>.xml   test results and durations (JUnit)
    build/test/<part>/      temporary directories: logs of brokers and mirrors of failed tests
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "test"
SCORE = KEPT / "cpu-score"
OPTIONS = {  # of a part, to repeat it
    "thorough": ("--thorough",),
    "cluster": ("--thorough",),
    "brokers": ("--thorough",),
    "integration-older": ("--kafka=3.9.2",),
}
_MOST_LISTED = 20
_LOOPS = 200_000
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed, and the first line of the reason."""

    test: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """The result of one make target."""

    name: str
    code: int
    seconds: float
    tests: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> int:
        return self.tests - self.skipped - len(self.failures)


def cpu_score() -> float:
    """Measure millions of iterations per second of a Python loop on one core; best of several."""
    best = 0.0
    for _ in range(_TRIES):
        began = time.perf_counter()
        total = 0
        for turn in range(_LOOPS):
            total += turn * turn
        best = max(best, _LOOPS / (time.perf_counter() - began) / 1e6)
    return best


def node_id(classname: str, name: str, root: Path = ROOT) -> str:
    """Convert the two names of a JUnit file to a pytest node id.

    A file that cannot be imported has no class name; then the name is the file.
    """
    if not classname:
        return str(Path(*name.split(".")).with_suffix(".py")) if name else "a test without a name"
    parts = classname.split(".")
    for end in range(len(parts), 0, -1):
        file = Path(*parts[:end]).with_suffix(".py")
        if (root / file).is_file():
            return "::".join([str(file), *parts[end:], name])
    return f"{classname}::{name}"


def read_results(file: Path) -> tuple[int, int, tuple[Failure, ...]]:
    """Return the number of tests in a JUnit file, the skipped ones and the failures."""
    if not file.is_file():
        return 0, 0, ()
    tests, skipped, failures = 0, 0, {}
    for case in ET.parse(file).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
        tests += 1
        skipped += case.find("skipped") is not None
        found = case.find("failure")
        found = case.find("error") if found is None else found
        if found is not None:
            test = node_id(case.get("classname", ""), case.get("name", ""))
            reason = (found.get("message") or "").strip().splitlines() or ["no reason given"]
            failures[test] = Failure(test, reason[0])
    return tests, skipped, tuple(failures.values())


def run_part(target: str) -> Part:
    """Run one make target, optionally with variables; output goes to the screen and a log."""
    name, *_variables = target.split()
    results = KEPT / f"{name}.xml"
    options = shlex.join([f"--junitxml={results}", f"--basetemp={KEPT / name}"])
    began = time.monotonic()
    print(f"\n=== make {target}", flush=True)
    with (KEPT / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            ["make", "--no-print-directory", *target.split()],
            cwd=ROOT,
            env={**os.environ, "PYTEST_ADDOPTS": options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        while chunk := process.stdout.read1():
            log.write(chunk)
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
        code = process.wait()
    return Part(name, code, time.monotonic() - began, *read_results(results))


def duration(seconds: float) -> str:
    """Format seconds as minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def summary(parts: list[Part], scores: tuple[float, float]) -> str:
    """Return a table of the parts, and instructions for failures."""
    lines = ["", f"{'part':<14}{'result':<9}{'tests':>7}  time"]
    lines += [
        f"{part.name:<14}{'failed' if part.code else 'ok':<9}{part.tests or '':>7}  "
        f"{duration(part.seconds)}"
        for part in parts
    ]
    total = sum(part.seconds for part in parts)
    lines.append(
        f"{'total':<30}  {duration(total)}; CPU score {scores[0]:.1f} at the start, "
        f"{scores[1]:.1f} at the end (one core, higher is faster)"
    )
    failed = [part for part in parts if part.code]
    if failed:
        lines += ["", *what_to_do(failed)]
    count = sum(len(part.failures) for part in parts)
    lines += ["", f"{sum(part.passed for part in parts)} passed, {count} failed"]
    return "\n".join(lines)


def what_to_do(failed: list[Part]) -> list[str]:
    """List failed tests, the command that repeats one, and the logs."""
    failures = [one for part in failed for one in part.failures]
    lines = [f"FAILED {one.test}\n       {one.reason}" for one in failures[:_MOST_LISTED]]
    if len(failures) > _MOST_LISTED:
        lines.append(f"... and {len(failures) - _MOST_LISTED} more")
    lines += [
        f"make {part.name} ended with code {part.code} without a failed test: read its output"
        for part in failed
        if not part.failures
    ]
    for part in failed:
        if part.failures:
            lines.append(f"Repeat one:  .venv/bin/python -m pytest {repeating(part)}")
        log, folder = KEPT / f"{part.name}.log", KEPT / part.name
        lines.append(f"Output of make {part.name}:  {log.relative_to(ROOT)}")
        if folder.is_dir():
            lines.append(
                f"Logs of its brokers and mirrors:  {folder.relative_to(ROOT)}/ "
                "(kept until the next run)"
            )
    return lines


def repeating(part: Part) -> str:
    """Return the pytest arguments that repeat a failed test.

    On brokers that is its whole file: later tests of a scenario depend on earlier ones.
    """
    test = part.failures[0].test
    words = test if part.name == "unit" else test.partition("::")[0]
    return shlex.join([*OPTIONS.get(part.name, ()), words])


def main(targets: list[str]) -> int:
    """Run the parts; the exit code is 0 only if all of them passed."""
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    before = cpu_score()
    SCORE.write_text(f"{before:.1f}")
    parts = [run_part(target) for target in targets]
    print(summary(parts, (before, cpu_score())), flush=True)
    return 1 if any(part.code for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
