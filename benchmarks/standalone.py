# SPDX-License-Identifier: Apache-2.0
"""A bounded run (`--once`) with local Spark and on a standalone Spark cluster, in turns.

Counts the processes that work for the run: the command, its JVM, executors and Python processes.
The cluster's own daemons are not part of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.catch_up import Ends, running
from benchmarks.contenders import Contender, once_with_tasks
from benchmarks.data_sets import DataSet
from benchmarks.results import Figure
from sparkmirror.devcluster.cluster import LocalCluster
from support.clusters.spark_cluster import SparkCluster

LOCAL, STANDALONE = "local Spark", "standalone Spark cluster"
_TASKS = 4
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class BoundedRun:
    """The result of one run, from the command's start to its end."""

    records: int  # between the first look that showed any and the last record
    start_seconds: float
    copy_cpu: float
    total_cpu: float
    total_seconds: float

    def figures(self) -> dict[Figure, float]:
        """Return the figures of the report."""
        return {
            Figure.CPU: self.copy_cpu / self.records * 1e6,
            Figure.START: self.start_seconds,
            Figure.TOTAL_CPU: self.total_cpu,
            Figure.TOTAL: self.total_seconds,
        }


def contenders(spark: SparkCluster) -> Sequence[Contender]:
    """Return both; they differ only in the lines about Spark."""
    return (
        once_with_tasks(LOCAL, _TASKS),
        once_with_tasks(
            STANDALONE, _TASKS, f"spark.master = {spark.url}", "spark.driver.host = 127.0.0.1"
        ),
    )


def bounded_run(
    contender: Contender,
    data_set: DataSet,
    clusters: tuple[LocalCluster, LocalCluster],
    directory: Path,
    spark: SparkCluster,
) -> BoundedRun:
    """Copy everything once and wait for the end of the command. Raises if the copy is not whole."""
    began = time.monotonic()
    with running(contender, data_set.topics(), clusters, directory) as (tree, alias):
        tree.elsewhere = spark.processes
        ends = Ends(clusters[1], {f"{alias}.{data_set.topic}": data_set.partitions})
        first = last = 0.0
        cpu_at_first = cpu_at_last = 0.0
        copied = at_first = 0
        while not tree.has_ended:
            time.sleep(_LOOK_SECONDS)
            cpu = tree.cpu_seconds()
            now = time.monotonic()
            if not last:
                copied = ends.total()
            if copied and not first:
                first, cpu_at_first, at_first = now, cpu, copied
            if copied >= data_set.records and not last:
                last, cpu_at_last = now, cpu
            if now > began + _PATIENCE_SECONDS:
                message = f"{contender.name}: {copied} of {data_set.records} records arrived"
                raise TimeoutError(message)
        found = ends.total()
        if found != data_set.records or at_first == found:
            message = f"{contender.name}: {found} records of {data_set.records}, first {at_first}"
            raise RuntimeError(message)
        return BoundedRun(
            found - at_first,
            first - began,
            cpu_at_last - cpu_at_first,
            tree.cpu_seconds(),
            time.monotonic() - began,
        )
