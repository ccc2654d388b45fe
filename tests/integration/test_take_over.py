# SPDX-License-Identifier: Apache-2.0
"""Compare-and-append on real brokers: however many writers a flow has, each record arrives once.

Copy tasks without Spark, each on a thread of its own, all for the same split and as the same
producer: a predecessor that does not know it has been replaced is just another of these.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sparkmirror.config.settings import ConnectionSettings, FetchSettings, ProduceSettings
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.local.cluster import LocalCluster
from sparkmirror.model import ProducerState
from sparkmirror.pipeline.contract import (
    END,
    OtherWriter,
    PartitionStart,
    Progress,
    Receipt,
    Split,
    TaskSettings,
)
from sparkmirror.pipeline.copy import CopyTask
from sparkmirror.wire.loop import Loop
from support.load import Load
from support.names import unique_name
from support.waiting import eventually
from support.witness import (
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
)

PARTITIONS = 2
PATIENCE_SECONDS = 60.0


class Driver:
    """What a task hears of its driver: to go on, or to end."""

    silence_seconds = 0.0

    def __init__(self) -> None:
        self.end_requested = False
        self.reports: list[Progress] = []

    def report(self, progress: Progress) -> None:
        """Keep it."""
        self.reports.append(progress)


class Flow:
    """A topic, its copy, and the pair at which every task of the test begins."""

    def __init__(self, source: LocalCluster, target: LocalCluster) -> None:
        self.source, self.target = source, target
        self.topic = unique_name("take-over")
        self.remote = f"a.{self.topic}"
        create_topics(source, {self.topic: PARTITIONS})
        self.offsets = unique_name("take-over-offsets")
        create_topics(target, {self.remote: PARTITIONS, self.offsets: 1})
        with ClusterAdmin(self.connection(target)) as admin:
            self.producer = admin.new_producer()
        self.failures: list[BaseException] = []

    @staticmethod
    def connection(cluster: LocalCluster) -> ConnectionSettings:
        """As the configuration would give it."""
        return ConnectionSettings(cluster.name, (cluster.bootstrap_servers,), "take-over")

    def split(self, stop_at: dict[int, int] | None = None) -> Split:
        """Both partitions from the beginning, on an empty target."""
        return Split(
            0,
            tuple(
                PartitionStart(
                    self.topic,
                    index,
                    self.remote,
                    0,
                    producer=self.producer,
                    stop_at=stop_at[index] if stop_at else None,
                )
                for index in range(PARTITIONS)
            ),
        )

    def copy(self, split: Split, driver: Driver) -> list[Receipt]:
        """One task, until it ends."""
        settings = TaskSettings(
            flow="a->b",
            connector="MirrorSourceConnector",
            source_alias="a",
            consumer=self.connection(self.source),
            producer=self.connection(self.target),
            fetch=FetchSettings(),
            produce=ProduceSettings(),
            offsets_topic=self.offsets,
            offsets_partitions=1,
            flush_seconds=1.0,
            buffer_bytes=16 << 20,
            epoch_seconds=PATIENCE_SECONDS,
            lease_seconds=5.0,
        )
        loop = Loop()
        try:
            return CopyTask(split, settings, driver, loop).run()
        finally:
            loop.close()

    @contextmanager
    def task(self) -> Iterator[Driver]:
        """A task that goes on until the block ends."""
        driver = Driver()

        def run() -> None:
            try:
                self.copy(self.split(), driver)
            except BaseException as error:  # noqa: BLE001 - the test fails with it
                self.failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        yield driver
        driver.end_requested = True
        thread.join()

    def finish(self) -> list[Receipt]:
        """One more task from the same old pair, up to the present end of the source."""
        assert not self.failures
        return self.copy(self.split(end_offsets(self.source, self.topic)), Driver())

    def copied(self) -> int:
        """How many records there are on the target."""
        return sum(end_offsets(self.target, self.remote).values())


@pytest.fixture
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Flow:
    """Between the clusters that all tests share."""
    return Flow(source_cluster, target_cluster)


def test_three_tasks_at_once_copy_each_record_once(flow: Flow) -> None:
    """They contend for every sequence; whoever loses compares and goes on behind the winner."""
    load = Load(flow.source, flow.topic, per_second=1000, partitions=PARTITIONS)
    with load, flow.task() as one, flow.task(), flow.task():
        eventually(lambda: flow.copied() > 5000, PATIENCE_SECONDS, "records arrive")
    flow.finish()
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) > 5000
    assert one.reports


def test_a_successor_sees_what_a_task_wrote_that_never_said_so(flow: Flow) -> None:
    """Nothing was stored since the pair: all of it is compared, the rest is copied."""
    produce(flow.source, flow.topic, numbered(20_000, PARTITIONS), compression_type="lz4")
    with flow.task():
        eventually(lambda: flow.copied() >= 20_000, PATIENCE_SECONDS, "records arrive")
    produce(flow.source, flow.topic, numbered(1_000, PARTITIONS, first=20_000))

    receipts = flow.finish()

    ends = [one for one in receipts if one.kind == END]
    assert sum(one.records for one in ends) == 1_000
    assert all(one.is_clean for one in ends)
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) == 21_000


def test_another_writer_is_seen_and_stepped_over(flow: Flow) -> None:
    """A stranger writes into the remote topic: its producer is named, our records come once."""
    produce(flow.source, flow.topic, numbered(500, PARTITIONS))
    with flow.task() as driver:
        eventually(lambda: flow.copied() >= 500, PATIENCE_SECONDS, "records arrive")
        produce(flow.target, flow.remote, numbered(10, PARTITIONS, first=9_000))
        produce(flow.source, flow.topic, numbered(100, PARTITIONS, first=500))
        eventually(lambda: flow.copied() >= 610, PATIENCE_SECONDS, "more records arrive")

        def seen() -> set[OtherWriter]:
            return {one for report in driver.reports for one in report.other_writers}

        eventually(lambda: len(seen()) == PARTITIONS, PATIENCE_SECONDS, "the stranger is seen")
    assert all(one.topic == flow.remote for one in seen())
    assert flow.producer.producer_id not in {one.producer_id for one in seen()}

    flow.finish()

    assert flow.copied() == 610


def test_a_pair_of_another_producer_starts_no_comparison(flow: Flow) -> None:
    """A stored producer that the target does not know any more writes on as a fresh one."""
    produce(flow.source, flow.topic, numbered(200, PARTITIONS))
    flow.producer = ProducerState(flow.producer.producer_id + 1000, 0, 77)
    began = time.monotonic()
    flow.finish()
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) == 200
