# SPDX-License-Identifier: Apache-2.0
"""A task's memory stays under its bound, whatever piles up in front of the target.

The bound is `task.buffer.bytes` of payload. Beside it a task needs what it needs when idle and
`BESIDE`: record batches just received and just sent (the largest may exceed the bound by itself),
copies made while a connection is given up, and what the allocator does not give back.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat

import pytest

from sparkmirror.local.cluster import LocalCluster
from sparkmirror.local.tools import KafkaTools
from support.figures import measured
from support.memory import MIB, MemoryWatch
from support.mirror_file import mirror_file
from support.mirror_process import MirrorProcess
from support.raw_producer import produce_batches
from support.record_batches import Record as BatchRecord
from support.record_batches import encode
from support.witness import (
    PATIENCE_SECONDS,
    Record,
    await_copy,
    compare_topics,
    create_topics,
    numbered,
    produce,
)

ALIAS = "memory"
BUFFER = 32 * MIB
BESIDE = 24 * MIB
CAUGHT_UP_SECONDS = 90.0
STOPPED_SECONDS, THOROUGH_SECONDS = 15, 60
PARTITIONS = 32  # each may hold 2 MiB: together more than the buffer
PER_SECOND = 10_000  # of 1 KB: the backlog is a multiple of the buffer
LARGE_BATCHES = 120
TINY_PARTITIONS, TINY_BATCHES = 20, 10_000  # in each partition


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[LocalCluster]:
    """A target that may be stopped."""
    directory = tmp_path_factory.mktemp("stopped")
    with LocalCluster("stopped", directory, version=kafka_version) as running:
        yield running


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorProcess]:
    """One flow with one task and a small buffer."""
    create_topics(source_cluster, {"memory-stopped": PARTITIONS})
    file = mirror_file(
        tmp_path_factory.mktemp("memory"),
        {ALIAS: source_cluster, "stopped": target},
        f"{ALIAS}->stopped.enabled = true",
        "topics = memory-.*",
        f"task.buffer.bytes = {BUFFER}",
    )
    produce(source_cluster, "memory-stopped", numbered(PARTITIONS, PARTITIONS))
    with MirrorProcess(file) as running:
        running.await_log(f"{ALIAS}->stopped: RUNNING", PATIENCE_SECONDS)
        await_copy(
            source_cluster, "memory-stopped", target, f"{ALIAS}.memory-stopped", PATIENCE_SECONDS
        )
        yield running
        running.show_log()


@contextmanager
def suspended(cluster: LocalCluster) -> Iterator[None]:
    """SIGSTOP: connections stay open and nothing answers."""
    cluster.brokers[0].suspend()
    try:
        yield
    finally:
        cluster.brokers[0].resume()


def check(watch: MemoryWatch, what: str) -> None:
    """Print and compare with the bound."""
    measured(f"{what}: {watch}; the bound allows {(watch.first + BUFFER + BESIDE) / MIB:.0f} MiB")
    assert watch.peak <= watch.first + BUFFER + BESIDE


def test_memory_stays_bounded_while_the_target_is_stopped(
    mirror: MirrorProcess,
    source_cluster: LocalCluster,
    target: LocalCluster,
    *,
    is_thorough: bool,
) -> None:
    """SIGSTOP under 10 MB/s; afterwards everything arrives, once."""
    topic, seconds = "memory-stopped", THOROUGH_SECONDS if is_thorough else STOPPED_SECONDS
    [worker] = mirror.python_workers()
    tools = KafkaTools(source_cluster.bootstrap_servers)
    with ThreadPoolExecutor(1) as pool, MemoryWatch(worker) as watch:
        loaded = pool.submit(
            tools.load,
            topic,
            records=seconds * PER_SECOND,
            record_size=1000,
            records_per_second=PER_SECOND,
        )
        with suspended(target):
            time.sleep(seconds)
        assert loaded.result().records == seconds * PER_SECOND
        await_copy(source_cluster, topic, target, f"{ALIAS}.{topic}", CAUGHT_UP_SECONDS)
    assert seconds * PER_SECOND * 1000 > 4 * BUFFER
    assert watch.peak > watch.first + BUFFER // 2, "nothing piled up: this proves nothing"
    check(watch, f"target stopped for {seconds} s")
    assert mirror.python_workers() == [worker]
    assert compare_topics(source_cluster, topic, target, f"{ALIAS}.{topic}") > 0


def test_memory_stays_bounded_with_batches_of_a_megabyte(
    mirror: MirrorProcess, source_cluster: LocalCluster, target: LocalCluster
) -> None:
    """One partition with 120 MB in such record batches, caught up in one go."""
    topic = "memory-large"
    create_topics(source_cluster, {topic: 1})
    noise = random.Random(7).randbytes(2_000_000)
    records = [
        (0, Record(b"%d" % n, noise[n * 1000 : n * 1000 + 1_000_000])) for n in range(LARGE_BATCHES)
    ]
    [worker] = mirror.python_workers()
    with MemoryWatch(worker) as watch:
        produce(source_cluster, topic, records, message_max_bytes=1_048_000)
        await_copy(source_cluster, topic, target, f"{ALIAS}.{topic}", CAUGHT_UP_SECONDS)
    check(watch, f"{LARGE_BATCHES} record batches of 1 MB")
    assert mirror.python_workers() == [worker]
    assert compare_topics(source_cluster, topic, target, f"{ALIAS}.{topic}") == LARGE_BATCHES


def test_memory_stays_bounded_with_tiny_batches(
    mirror: MirrorProcess, source_cluster: LocalCluster, target: LocalCluster
) -> None:
    """200,000 record batches of one record wait for a target that is stopped."""
    topic = "memory-tiny"
    create_topics(source_cluster, {topic: TINY_PARTITIONS})
    produce(source_cluster, topic, numbered(TINY_PARTITIONS, TINY_PARTITIONS))
    await_copy(source_cluster, topic, target, f"{ALIAS}.{topic}", CAUGHT_UP_SECONDS)
    batch = encode([BatchRecord(0, time.time_ns() // 1_000_000, b"key", b"." * 100)])
    request = dict.fromkeys(range(TINY_PARTITIONS), bytes(batch))
    [worker] = mirror.python_workers()
    with MemoryWatch(worker) as watch:
        with suspended(target):
            produce_batches(source_cluster, topic, repeat(request, TINY_BATCHES))
            time.sleep(2)  # the last ones are read
        await_copy(source_cluster, topic, target, f"{ALIAS}.{topic}", CAUGHT_UP_SECONDS)
    check(watch, f"{TINY_PARTITIONS * TINY_BATCHES} record batches of one record")
    assert mirror.python_workers() == [worker]
