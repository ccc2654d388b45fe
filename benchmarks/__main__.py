# SPDX-License-Identifier: Apache-2.0
"""`make bench`: runs the benchmarks; prints tables, writes a report page and plots."""

from __future__ import annotations

import argparse
import datetime as dt
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks import machine, report
from benchmarks.questions import QUESTIONS, Stage
from benchmarks.results import Results
from sparkmirror.spark import class_archive

_FOLDER = Path(__file__).resolve().parent / "results"
_LARGEST_SEED = 1_000_000
_INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    """Run the benchmarks. Returns 0 if all of them could be measured."""
    options = _options()
    console = Console()
    names = options.only or [one.name for one in QUESTIONS if one.is_quick or not options.quick]
    chosen = [one for one in QUESTIONS if one.name in names]
    unknown = set(names) - {one.name for one in chosen}
    if unknown:
        console.print(f"there is no question {', '.join(sorted(unknown))}")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rounds = options.rounds or (2 if options.quick else 3)
    scale = options.scale or (0.3 if options.quick else 1.0)
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-"))
    results = Results()
    order = random.Random(options.seed)
    began = time.monotonic()
    class_archive.build_and_wait()
    good = True
    try:
        for question in chosen:
            stage = Stage(
                directory / question.name,
                rounds,
                scale,
                order,
                lambda text: console.print(
                    f"{time.monotonic() - began:7.0f} s  {text}", soft_wrap=True
                ),
                is_quick=options.quick,
            )
            try:
                question.ask(stage, results)
            except Exception as error:  # noqa: BLE001 - the other questions took an hour
                good = False
                results.notes.append(
                    f"{question.name} could not be measured: {type(error).__name__}: {error}"
                )
                console.print(f"[red]{results.notes[-1]}[/] (logs in {directory})")
    except KeyboardInterrupt:
        console.print("interrupted; everything has been ended, nothing is written")
        return _INTERRUPTED
    facts = machine.description() | {
        "rounds": f"{rounds} (latency and idle partitions: at most 2)",
        "scale": f"{scale:g} of the full data sets",
        "seed": str(options.seed),
        "duration": f"{(time.monotonic() - began) / 60:.0f} minutes",
        "questions": ", ".join(one.name for one in chosen),
    }
    today = dt.datetime.now(dt.UTC).date()
    report.show(console, results)
    page = report.write(options.into, f"{today}-{machine.commit()}", facts, results)
    console.print(f"written: {page}")
    if good:
        shutil.rmtree(directory)
    return 0 if good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description="Sparkmirror and Java MirrorMaker 2, side by side."
    )
    parser.add_argument("--quick", action="store_true", help="the main questions, fewer records")
    parser.add_argument("--rounds", type=int, help="turns of each contender (3; quick: 2)")
    parser.add_argument("--scale", type=float, help="of the data sets (1; quick: 0.3)")
    parser.add_argument("--seed", type=int, default=random.randrange(_LARGEST_SEED))
    parser.add_argument("--into", type=Path, default=_FOLDER, help="where the page goes")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        help=f"comma-separated: {', '.join(one.name for one in QUESTIONS)}",
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
