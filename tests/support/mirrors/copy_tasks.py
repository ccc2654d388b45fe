# SPDX-License-Identifier: Apache-2.0
"""Copy tasks without Spark between real brokers, each on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.task.copy_task import CopyTask
from sparkmirror.task.messages import (
    PartitionStart,
    Progress,
    Receipt,
    Split,
    TaskSettings,
    TransactionStart,
)
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from support.clients.librdkafka import create_topics, end_offsets
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS

PARTITIONS = 2
_EPOCH_SECONDS = 10 * PATIENCE_SECONDS  # it ends when the test does


class FakeControlChannel:
    """A control channel that keeps a task running until the test ends it."""

    silence_seconds = 0.0

    def __init__(self) -> None:
        self.end_requested = False
        self.reports: list[Progress] = []

    def report(self, progress: Progress) -> None:
        self.reports.append(progress)


class TaskFlow:
    """A topic, its copy, and the pair at which every task of a test begins."""

    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        config: dict[str, str] | None = None,
        *,
        partitions: int = PARTITIONS,
    ) -> None:
        self.source, self.target = source, target
        self.partitions = partitions
        self.topic = unique_name("take-over")
        self.remote = f"a.{self.topic}"
        create_topics(source, {self.topic: partitions})
        self.offsets = unique_name("take-over-offsets")
        create_topics(target, {self.remote: partitions}, config)
        create_topics(target, {self.offsets: 1})
        with ClusterAdmin(self.connection(target)) as admin:
            self.producer = admin.init_producer_id()
        self.failures: list[BaseException] = []

    @staticmethod
    def connection(cluster: LocalCluster) -> ConnectionSettings:
        """As the configuration would give it."""
        return ConnectionSettings(cluster.name, (cluster.bootstrap_servers,), "take-over")

    def split(
        self, stop_at: dict[int, int] | None = None, transaction: TransactionStart | None = None
    ) -> Split:
        """All partitions from the beginning, on an empty target."""
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
                for index in range(self.partitions)
            ),
            transaction,
        )

    @property
    def changes(self) -> Mapping[str, object]:
        """What a kind of flow has differently in its tasks' settings."""
        return {}

    def copy(self, split: Split, driver: FakeControlChannel) -> list[Receipt]:
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
            epoch_seconds=_EPOCH_SECONDS,
            lease_seconds=5.0,
            ledger_topic=f"{self.offsets}-ledger",
            dead_letters_topic=f"{self.offsets}-dead-letters",
        )
        settings = replace(settings, **self.changes)  # type: ignore[arg-type] # names of its fields
        loop = EventLoop()
        try:
            return CopyTask(split, settings, driver, loop).run()
        finally:
            loop.close()

    @contextmanager
    def task(self, split: Split | None = None) -> Iterator[FakeControlChannel]:
        """Run a task until the block ends."""
        driver = FakeControlChannel()

        def run() -> None:
            try:
                self.copy(split or self.split(), driver)
            except BaseException as error:  # noqa: BLE001 - the test fails with it
                self.failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield driver
        finally:
            driver.end_requested = True
            thread.join()

    def finish(self) -> list[Receipt]:
        """Run one more task from the same positions up to the current end of the source."""
        assert not self.failures
        return self.copy(self.split(end_offsets(self.source, self.topic)), FakeControlChannel())

    def copied(self) -> int:
        """How many records there are on the target."""
        return sum(end_offsets(self.target, self.remote).values())
