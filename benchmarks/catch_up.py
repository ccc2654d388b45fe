# SPDX-License-Identifier: Apache-2.0
"""One contender copies one data set from the beginning; samples its progress 20 times a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.contenders import Contender
from benchmarks.data_sets import DataSet
from benchmarks.process_tree import ProcessTree
from benchmarks.secured import Way
from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import Cluster, admin, delete_topic
from support.mirrors.mirror_file import mirror_file
from support.unique_names import unique_name

_LOOK_SECONDS = 0.05
_MEMORY_SECONDS = 0.5
_PATIENCE_SECONDS = 900.0
_ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The result of one run. Rates count from the first record on the target to the last."""

    records: int  # that arrived after the first look that showed any
    start_seconds: float  # of the command, to the first record
    copy_seconds: float
    start_cpu: float
    copy_cpu: float
    peak_memory: int

    @property
    def records_per_second(self) -> float:
        return self.records / self.copy_seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU-seconds of the whole process tree for a million records."""
        return self.copy_cpu / self.records * 1e6


class Ends:
    """Counts the records of some topics repeatedly with one client."""

    def __init__(self, cluster: Cluster, partitions: dict[str, int]) -> None:
        self._admin: AdminClient = admin(cluster)
        self._missing = set(partitions)
        self._wanted = {
            TopicPartition(topic, index): OffsetSpec.latest()
            for topic, count in partitions.items()
            for index in range(count)
        }

    def filled(self) -> dict[tuple[str, int], int]:
        """Return the record count of every partition that has records."""
        if self._missing:  # to ask for one that is not there would wait, or make it
            there = self._admin.list_topics(timeout=_ANSWER_SECONDS).topics
            self._missing -= there.keys()
        if self._missing:
            return {}
        answers = self._admin.list_offsets(
            self._wanted,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        found = {}
        for tp, future in answers.items():
            try:
                end = future.result(_ANSWER_SECONDS).offset
            except KafkaException:
                continue  # not made yet
            if end > 0:
                found[tp.topic, tp.partition] = end
        return found

    def total(self) -> int:
        return sum(self.filled().values())


@contextmanager
def running(
    contender: Contender,
    data: dict[str, int],
    clusters: tuple[Cluster, LocalCluster],
    directory: Path,
    *lines: str,
    way: Way | None = None,
) -> Iterator[tuple[ProcessTree, str]]:
    """Start a contender with a flow of these topics; yields the alias that prefixes its copies.

    Deletes the copies afterwards, because they use memory, and the offset syncs, which the next
    contender would read. With a `way` the contender uses it; the benchmark itself uses the plain
    listeners.
    """
    source, target = clusters
    alias = unique_name("s")
    folder = directory / alias
    folder.mkdir(parents=True)
    partitions = sum(data.values())
    file = mirror_file(
        folder,
        {alias: way.source, "target": way.target} if way else {alias: source, "target": target},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {','.join(data)}",
        *contender.lines(alias, partitions),
        *(way.lines if way else ()),
        *lines,
    )
    try:
        with contender.running(file) as tree:
            yield tree, alias
    finally:
        for cluster, begins in ((target, f"{alias}."), (source, "mm2-offset-syncs.")):
            there = admin(cluster).list_topics(timeout=_ANSWER_SECONDS).topics
            for topic in [one for one in there if one.startswith(begins)]:
                delete_topic(cluster, topic)


def insist(contender: Contender, tree: ProcessTree, directory: Path) -> None:
    """Raise if the contender has exited."""
    if tree.has_ended:
        message = f"{contender.name} ended by itself; its log is in {directory}"
        raise RuntimeError(message)


def catch_up(
    contender: Contender,
    data_set: DataSet,
    clusters: tuple[Cluster, LocalCluster],
    directory: Path,
    way: Way | None = None,
) -> CatchUp:
    """Copy everything once. Raises if the copy is incomplete in time or has too many records."""
    began = time.monotonic()
    with running(contender, data_set.topics(), clusters, directory, way=way) as (tree, alias):
        ends = Ends(clusters[1], {f"{alias}.{data_set.topic}": data_set.topics()[data_set.topic]})
        first = looked = start_cpu = 0.0
        copied = there_at_first = 0
        while copied < data_set.records:
            time.sleep(_LOOK_SECONDS)
            copied = ends.total()
            now = time.monotonic()
            if not first:
                start_cpu = tree.cpu_seconds()
                first, there_at_first = (now, copied) if copied else (0.0, 0)
            if now - looked > _MEMORY_SECONDS:
                looked = now
                tree.look_at_memory()
            insist(contender, tree, directory)
            if now > began + _PATIENCE_SECONDS:
                message = f"{contender.name}: only {copied} of {data_set.records} records arrived"
                raise TimeoutError(message)
        last, cpu = time.monotonic(), tree.cpu_seconds()
        tree.look_at_memory()
        time.sleep(_MEMORY_SECONDS)
        if ends.total() != data_set.records:
            message = f"{contender.name}: {ends.total()} records of {data_set.records}"
            raise RuntimeError(message)
        if there_at_first == data_set.records:
            message = f"{contender.name}: everything was there at the first look; raise SCALE"
            raise RuntimeError(message)
        return CatchUp(
            data_set.records - there_at_first,
            first - began,
            last - first,
            start_cpu,
            cpu - start_cpu,
            tree.peak_memory,
        )
