# SPDX-License-Identifier: Apache-2.0
"""`make chaos`: runs scenarios and prints a verdict; exit code 0 only if all checks passed."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chaos.plan import ANYWHERE, STANDALONE, Kind
from chaos.run import Run
from chaos.scenario import Mode, Scenario, SparkMaster
from chaos.table import verdict_lines
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from support.clusters.small_disk import enter_namespace

_LARGEST_SEED = 1_000_000
_INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # everything is ended in order
    small_disks = enter_namespace("chaos", sys.argv[1:])
    good = True
    for scenario in _scenarios(options):
        directory = Path(tempfile.mkdtemp(prefix="sparkmirror-chaos-"))
        _say(f"chaos: {scenario}; logs in {directory}")
        run = Run(
            directory,
            scenario,
            version=options.kafka,
            say=_say,
            small_disks=small_disks,
            kinds=options.kinds,
        )
        try:
            report = run.play()
        except KeyboardInterrupt:
            shutil.rmtree(directory)
            _say("interrupted; everything has been ended")
            return _INTERRUPTED
        _say("")
        for line in verdict_lines(report):
            _say(line)
        if report.is_good and not options.keep:
            shutil.rmtree(directory)
        good = good and report.is_good
        outcome = "GOOD" if report.is_good else f"BAD; again with: {_again(scenario, options)}"
        _say(f"chaos: {scenario}: {outcome}\n")
    return 0 if good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make chaos", description="Faults drawn from a seed while records flow."
    )
    parser.add_argument("--seed", type=int, default=random.randrange(_LARGEST_SEED))
    parser.add_argument(
        "--faults",
        type=int,
        help="per scenario (one of each kind)",
    )
    parser.add_argument(
        "--mode", choices=[*(mode.value for mode in Mode), "both"], default=Mode.DEFAULT.value
    )
    parser.add_argument("--flows", choices=["1", "2", "both"], default="both")
    parser.add_argument("--rate", type=int, default=600, help="records per second (600)")
    parser.add_argument("--executors", type=int, default=2, help="of Spark (2); 1 starts sooner")
    parser.add_argument("--partitions", type=int, default=4, help="of each source (4)")
    parser.add_argument(
        "--kinds",
        type=lambda text: [Kind(word) for word in text.split(",")],
        help=f"only these, comma-separated: {', '.join(kind.value for kind in Kind)}",
    )
    parser.add_argument(
        "--spark",
        choices=[one.value for one in SparkMaster],
        default=SparkMaster.LOCAL_CLUSTER.value,
        help="standalone: a master and workers as processes, which are killed as well",
    )
    parser.add_argument("--kafka", default=DEFAULT_KAFKA, help=f"version ({DEFAULT_KAFKA})")
    parser.add_argument("--keep", action="store_true", help="keep the logs of a good run, too")
    options = parser.parse_args()
    options.spark = SparkMaster(options.spark)
    options.all_kinds = _all_kinds(options.spark)
    options.kinds = options.kinds or options.all_kinds
    options.faults = options.faults or len(options.all_kinds)
    return options


def _all_kinds(spark: SparkMaster) -> tuple[Kind, ...]:
    return (*ANYWHERE, *STANDALONE) if spark is SparkMaster.STANDALONE else ANYWHERE


def _scenarios(options: argparse.Namespace) -> Iterator[Scenario]:
    modes = list(Mode) if options.mode == "both" else [Mode(options.mode)]
    flows = [1, 2] if options.flows == "both" else [int(options.flows)]
    for mode in modes:
        for number in flows:
            yield Scenario(
                seed=options.seed,
                faults=options.faults,
                mode=mode,
                flows=number,
                partitions=options.partitions,
                per_second=options.rate,
                executors=options.executors,
                spark=options.spark,
            )


def _again(scenario: Scenario, options: argparse.Namespace) -> str:
    words = ["make chaos", f"SEED={scenario.seed}", f"FAULTS={scenario.faults}"]
    words += [f"MODE={scenario.mode.value}", f"FLOWS={scenario.flows}"]
    if options.spark is not SparkMaster.LOCAL_CLUSTER:
        words.append(f"SPARK={options.spark.value}")
    if tuple(options.kinds) != options.all_kinds:
        words.append(f"KINDS={','.join(kind.value for kind in options.kinds)}")
    return " ".join(words)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
