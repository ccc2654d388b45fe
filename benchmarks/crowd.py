# SPDX-License-Identifier: Apache-2.0
"""Many partitions with one record each: time until all are copied, and cost while idle."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.catch_up import Ends, insist, running
from benchmarks.contenders import Contender
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.model import ProducerState
from sparkmirror.spark.split_planner import plan_splits
from sparkmirror.task.messages import PartitionStart, split_from_json, split_to_json
from support.clients.librdkafka import Cluster, create_topics, numbered, produce_many

_PER_TOPIC = 100
_LOOK_SECONDS = 0.25
_PATIENCE_SECONDS = 600.0
_SETTLE_SECONDS = 5.0
_PLANS = 9


@dataclass(frozen=True, slots=True)
class Crowd:
    """The results for one number of partitions."""

    partitions: int
    all_flow_seconds: float  # from the start of the command
    idle_share: float  # of a core, of the whole process tree
    peak_memory: int


def topics_of(partitions: int) -> dict[str, int]:
    """Return topics with this number of partitions in total."""
    return {f"crowd-{partitions}-{n}": _PER_TOPIC for n in range(partitions // _PER_TOPIC)}


def fill(source: LocalCluster, partitions: int) -> None:
    """Write one record to every partition."""
    names = topics_of(partitions)
    create_topics(source, names)
    one_each = numbered(_PER_TOPIC, _PER_TOPIC)
    produce_many(source, [(topic, *one) for topic in names for one in one_each])


def planning_seconds(partitions: int) -> float:
    """Measure planning: create a plan, serialize it, and parse it as a task does."""
    starts = [
        PartitionStart(topic, index, f"source.{topic}", 0, producer=ProducerState(1, 0, 0))
        for topic, count in topics_of(partitions).items()
        for index in range(count)
    ]
    took = []
    for _ in range(_PLANS):
        began = time.perf_counter()
        for split in plan_splits(starts, 1):
            split_from_json(json.loads(json.dumps(split_to_json(split))))
        took.append(time.perf_counter() - began)
    return median(took)


def crowd(
    contender: Contender,
    partitions: int,
    clusters: tuple[Cluster, LocalCluster],
    directory: Path,
    *,
    idle_seconds: float,
) -> Crowd:
    """Start, wait until every partition has its record, then measure the idle process."""
    names = topics_of(partitions)
    began = time.monotonic()
    with running(contender, names, clusters, directory) as (tree, alias):
        ends = Ends(clusters[1], {f"{alias}.{name}": count for name, count in names.items()})
        while len(ends.filled()) < partitions:
            if time.monotonic() > began + _PATIENCE_SECONDS:
                message = f"{contender.name}: not all of {partitions} partitions flow"
                raise TimeoutError(message)
            insist(contender, tree, directory)
            time.sleep(_LOOK_SECONDS)
        took = time.monotonic() - began
        tree.look_at_memory()
        time.sleep(_SETTLE_SECONDS)
        before, from_now = tree.cpu_seconds(), time.monotonic()
        time.sleep(idle_seconds)
        share = (tree.cpu_seconds() - before) / (time.monotonic() - from_now)
        tree.look_at_memory()
        return Crowd(partitions, took, share, tree.peak_memory)
