# SPDX-License-Identifier: Apache-2.0
"""A task's memory stays under its bound, whatever piles up in front of the target.

The bound is `task.buffer.bytes` of payload. Beside it a task needs what it needs when idle and
`BESIDE`: a record batch that exceeds the bound alone, the objects that know the record
batches, and what the allocator does not give back. Idle is measured after a hand-over from one
epoch to the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat

import psutil
import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.kafka_tools import KafkaTools
from support.clients.librdkafka import (
    Record,
    await_copy,
    compare_topics,
    create_topics,
    numbered,
    produce,
    topic_partitions,
)
from support.clients.raw_producer import produce_batches
from support.data.record_batches import Record as BatchRecord
from support.data.record_batches import encode
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.process_memory import MIB, MemoryWatch, resident
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

ALIAS = "memory"
BUFFER = 32 * MIB
BESIDE = 32 * MIB
STOPPED_SECONDS = 60
PARTITIONS = 32  # each may hold 2 MiB: together more than the buffer
PER_SECOND = 10_000  # of 1 KB: the backlog is a multiple of the buffer
LARGE_BATCHES = 120
TINY_PARTITIONS, TINY_BATCHES = 20, 10_000  # in each partition
TOPICS = {"memory-stopped": PARTITIONS, "memory-large": 1, "memory-tiny": TINY_PARTITIONS}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[LocalCluster]:
    """A target that may be stopped."""
    directory = tmp_path_factory.mktemp("stopped")
    with LocalCluster("stopped", directory, version=kafka_version) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Mirror:
    """A running flow, its only worker and what that has in memory while nothing happens."""

    process: MirrorProcess
    worker: psutil.Process
    idle: int

    def check(self, watch: MemoryWatch, what: str) -> None:
        """Print, and compare with the bound; the worker must be the one that was watched."""
        bound = self.idle + BUFFER + BESIDE
        measured(
            f"{what}: {self.idle / MIB:.0f} MiB idle, {watch}; the bound is {bound / MIB:.0f} MiB"
        )
        assert self.process.python_workers() == [self.worker]
        assert watch.peak <= bound


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mirror]:
    """One flow with one task and a small buffer."""
    create_topics(source_cluster, TOPICS)
    file = mirror_file(
        tmp_path_factory.mktemp("memory"),
        {ALIAS: source_cluster, "stopped": target},
        f"{ALIAS}->stopped.enabled = true",
        "topics = memory-.*",
        f"task.buffer.bytes = {BUFFER}",
        "stopped.session.timeout.ms = 300000",  # the target is away, and nobody else takes over
    )
    with MirrorProcess(file) as running:
        running.await_log(f"{ALIAS}->stopped: RUNNING", PATIENCE_SECONDS)
        create_topics(source_cluster, {"memory-new": 1})  # ends the first epoch
        for topic, partitions in (TOPICS | {"memory-new": 1}).items():
            produce(source_cluster, topic, numbered(partitions, partitions))
            await_arrival(source_cluster, topic, target)
        [worker] = running.python_workers()
        yield Mirror(running, worker, resident(worker))
        running.show_log()


def await_arrival(source: LocalCluster, topic: str, target: LocalCluster) -> None:
    """Wait until all is copied."""

    def is_made() -> bool:
        return topic_partitions(target, f"{ALIAS}.{topic}") > 0

    eventually(is_made, PATIENCE_SECONDS, f"{topic} is made on the target")
    await_copy(source, topic, target, f"{ALIAS}.{topic}", PATIENCE_SECONDS)


@contextmanager
def suspended(cluster: LocalCluster) -> Iterator[None]:
    """SIGSTOP: connections stay open and nothing answers."""
    cluster.brokers[0].suspend()
    try:
        yield
    finally:
        cluster.brokers[0].resume()


def test_memory_stays_bounded_while_the_target_is_stopped(
    mirror: Mirror,
    source_cluster: LocalCluster,
    target: LocalCluster,
) -> None:
    """SIGSTOP under 10 MB/s; afterwards everything arrives, once."""
    topic = "memory-stopped"
    tools = KafkaTools(source_cluster.bootstrap_servers)
    with ThreadPoolExecutor(1) as pool, MemoryWatch(mirror.worker) as watch:
        loaded = pool.submit(
            tools.load,
            topic,
            records=STOPPED_SECONDS * PER_SECOND,
            record_size=1000,
            records_per_second=PER_SECOND,
        )
        with suspended(target):
            time.sleep(STOPPED_SECONDS)
        assert loaded.result().records == STOPPED_SECONDS * PER_SECOND
        await_arrival(source_cluster, topic, target)
    assert STOPPED_SECONDS * PER_SECOND * 1000 > 4 * BUFFER
    assert watch.peak > mirror.idle + BUFFER // 2, "nothing piled up: this proves nothing"
    mirror.check(watch, f"target stopped for {STOPPED_SECONDS} s")
    copied = compare_topics(source_cluster, topic, target, f"{ALIAS}.{topic}")
    assert copied == STOPPED_SECONDS * PER_SECOND + PARTITIONS


def test_memory_stays_bounded_with_batches_of_a_megabyte(
    mirror: Mirror, source_cluster: LocalCluster, target: LocalCluster
) -> None:
    """One partition with 120 MB in such record batches, caught up in one go."""
    topic = "memory-large"
    noise = random.Random(7).randbytes(2_000_000)
    records = [
        (0, Record(b"%d" % n, noise[n * 1000 : n * 1000 + 1_000_000])) for n in range(LARGE_BATCHES)
    ]
    with MemoryWatch(mirror.worker) as watch:
        produce(source_cluster, topic, records, message_max_bytes=1_048_000)
        await_arrival(source_cluster, topic, target)
    mirror.check(watch, f"{LARGE_BATCHES} record batches of 1 MB")
    copied = compare_topics(source_cluster, topic, target, f"{ALIAS}.{topic}")
    assert copied == LARGE_BATCHES + 1


def test_memory_stays_bounded_with_tiny_batches(
    mirror: Mirror, source_cluster: LocalCluster, target: LocalCluster
) -> None:
    """200,000 record batches of one record wait for a target that is stopped."""
    topic = "memory-tiny"
    batch = encode([BatchRecord(0, time.time_ns() // 1_000_000, b"key", b"." * 100)])
    request = dict.fromkeys(range(TINY_PARTITIONS), bytes(batch))
    with MemoryWatch(mirror.worker) as watch:
        with suspended(target):
            produce_batches(source_cluster, topic, repeat(request, TINY_BATCHES))
            time.sleep(2)  # the last ones are read
        await_arrival(source_cluster, topic, target)
    mirror.check(watch, f"{TINY_PARTITIONS * TINY_BATCHES} record batches of one record")
