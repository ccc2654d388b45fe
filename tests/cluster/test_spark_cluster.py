# SPDX-License-Identifier: Apache-2.0
"""Flows on a standalone Spark cluster whose workers and master come and go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import create_topics, duplicates, end_offsets, read_topic
from support.clients.load_generator import Load
from support.clusters.spark_cluster import SparkCluster
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 8
PER_SECOND = 200
STALL_SECONDS = 20.0  # of one partition, after a loss that Spark knows of


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkCluster]:
    """A master and two workers with two cores each."""
    with SparkCluster(tmp_path / "spark") as cluster:
        cluster.add_worker()
        cluster.add_worker()
        yield cluster


@dataclass
class ClusterFlow:
    """A flow of one topic and its process."""

    source: LocalCluster
    target: LocalCluster
    alias: str
    topic: str
    mirror: MirrorProcess

    def await_tasks(self, count: int) -> None:
        """Wait until the flow copies with this many tasks."""
        self.mirror.await_log(f"Spark can run {count} concurrent tasks", PATIENCE_SECONDS)

    def await_every_partition(self) -> float:
        """Wait until each partition has got further records; how long the slowest one took."""
        began = time.monotonic()
        remote = f"{self.alias}.{self.topic}"
        before = end_offsets(self.target, remote)

        def has_moved() -> bool:
            now = end_offsets(self.target, remote)
            return len(now) == PARTITIONS and all(now[p] > before.get(p, 0) for p in now)

        eventually(has_moved, PATIENCE_SECONDS, "every partition moves")
        return time.monotonic() - began

    def assert_equal(self) -> None:
        """Each record of the source is on the target, once."""
        originals = read_topic(self.source, self.topic)
        remote = f"{self.alias}.{self.topic}"
        wanted = sum(len(records) for records in originals.values())
        eventually(
            lambda: sum(end_offsets(self.target, remote).values()) >= wanted,
            PATIENCE_SECONDS,
            "all records arrive",
        )
        copies = read_topic(self.target, remote)
        assert {p: len(r) for p, r in copies.items()} == {p: len(r) for p, r in originals.items()}
        assert sum(duplicates(originals[p], copies[p]) for p in originals) == 0
        measured(f"{self.topic}: {wanted} records, each once")


@pytest.fixture
def flow(
    spark: SparkCluster,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
) -> Iterator[ClusterFlow]:
    """Eight partitions, `tasks.max` of eight."""
    alias, topic = unique_name("a"), unique_name("orders")
    create_topics(source_cluster, {topic: PARTITIONS})
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "b": target_cluster},
        f"spark.master = {spark.url}",
        "spark.executor.memory = 512m",
        "spark.driver.host = 127.0.0.1",
        f"{alias}->b.enabled = true",
        f"{alias}->b.topics = {topic}",
        f"{alias}->b.tasks.max = {PARTITIONS}",
        "emit.heartbeats.enabled = false",
        "emit.checkpoints.enabled = false",
        "sync.topic.acls.enabled = false",
    )
    with MirrorProcess(file) as mirror:
        yield ClusterFlow(source_cluster, target_cluster, alias, topic, mirror)


def test_every_slot_is_used_while_workers_leave_and_join(
    flow: ClusterFlow, spark: SparkCluster
) -> None:
    """The flow is planned again with the slots that are there."""
    with Load(flow.source, flow.topic, per_second=PER_SECOND, partitions=PARTITIONS):
        flow.await_tasks(4)
        flow.await_every_partition()
        spark.kill_worker(spark.workers[0])
        flow.await_tasks(2)
        assert flow.await_every_partition() < STALL_SECONDS
        spark.add_worker(cores=4)
        flow.await_tasks(6)
        assert flow.await_every_partition() < STALL_SECONDS
    flow.assert_equal()


def test_a_master_that_forgot_the_application_gets_a_new_one(
    flow: ClusterFlow, spark: SparkCluster
) -> None:
    """A master without recovery mode takes the executors away and never assigns others."""
    with Load(flow.source, flow.topic, per_second=PER_SECOND, partitions=PARTITIONS):
        flow.await_tasks(4)
        flow.await_every_partition()
        spark.master.kill()
        spark.start_master()
        flow.mirror.await_log("Replacing the SparkContext", PATIENCE_SECONDS)
        flow.await_every_partition()
    flow.assert_equal()
