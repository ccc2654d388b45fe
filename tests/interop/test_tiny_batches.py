# SPDX-License-Identifier: Apache-2.0
"""A topic of one-record batches is caught up at least as fast as by Java MirrorMaker 2.

Both copy the same topic between the same brokers, in turn. Java's is tuned as its users do it:
a task for each partition, large fetches, large batches that wait for company; ours runs as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException

from sparkmirror import class_archive
from sparkmirror.local.cluster import LocalCluster, start_all
from support.figures import measured
from support.java_mirror import JavaMirror
from support.mirror_file import mirror_file
from support.mirror_process import MirrorProcess
from support.raw_producer import produce_batches
from support.record_batches import Record, encode
from support.seen import ends, places
from support.witness import compare_topics, create_topics, topic_partitions

TOPIC, PARTITIONS, RECORDS = "tiny-batches", 4, 200_000
ROUNDS = 3
PATIENCE_SECONDS = 180.0
LOOK_SECONDS = 0.05
ONE_BROKER = tuple(
    f"{name}.replication.factor = 1"
    for name in (
        "offset-syncs.topic",
        "checkpoints.topic",
        "heartbeats.topic",
        "offset.storage",
        "status.storage",
        "config.storage",
    )
)


class CatchUp(NamedTuple):
    """Records a second, from the first one on the target to the last, and from the start on."""

    copying: float
    from_start: float


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[dict[str, LocalCluster]]:
    """A source with the topic, and a target; brokers with full compilation, as in production."""
    directory = tmp_path_factory.mktemp("tiny")
    found = {
        name: LocalCluster(name, directory / name, version=kafka_version, jvm_options=())
        for name in ("source", "target")
    }
    start_all(found.values())
    try:
        create_topics(found["source"], {TOPIC: PARTITIONS})
        numbers = range(0, RECORDS, PARTITIONS)
        produce_batches(found["source"], TOPIC, map(one_for_each_partition, numbers))
        yield found
    finally:
        for cluster in found.values():
            cluster.stop()


def one_for_each_partition(first: int) -> dict[int, bytearray]:
    """A record batch of one record of about 100 bytes for each partition."""
    now = time.time_ns() // 1_000_000
    return {
        index: encode([Record(0, now, b"%d" % (first + index), b"%90d" % (first + index))])
        for index in range(PARTITIONS)
    }


def java_lines(alias: str) -> tuple[str, ...]:
    """Large batches and fetches, and a task for each partition."""
    return (
        f"tasks.max = {PARTITIONS}",
        "replication.factor = 1",
        *ONE_BROKER,
        "target.producer.batch.size = 524288",
        "target.producer.linger.ms = 50",
        "target.producer.compression.type = lz4",
        "target.producer.buffer.memory = 134217728",
        "target.producer.max.request.size = 4194304",
        f"{alias}.consumer.fetch.max.bytes = 52428800",
        f"{alias}.consumer.max.partition.fetch.bytes = 10485760",
        f"{alias}.consumer.max.poll.records = 20000",
    )


def arrived(target: LocalCluster, remote: str) -> int:
    """How many records the target has; none while the topic is being made."""
    if not topic_partitions(target, remote):
        return 0
    try:
        return sum(ends(target, places({remote: PARTITIONS})).values())
    except KafkaException:
        return 0


def catch_up(target: LocalCluster, remote: str, mirror: AbstractContextManager[object]) -> CatchUp:
    """Watch a program that has just been started until everything has arrived."""
    began = time.monotonic()
    first = (began, 0)
    with mirror:
        while True:
            copied, now = arrived(target, remote), time.monotonic()
            if copied and not first[1]:
                first = (now, copied)
            if copied >= RECORDS:
                break
            assert now < began + PATIENCE_SECONDS, f"only {copied} records in {remote}"
            time.sleep(LOOK_SECONDS)
    # Of what was there at the first look nobody knows how long it took.
    took, counted = max(now - first[0], LOOK_SECONDS), RECORDS - first[1] or RECORDS
    return CatchUp(counted / took, RECORDS / (now - began))


@pytest.mark.timeout(900)
def test_tiny_batches_are_caught_up_at_least_as_fast_as_by_java(
    clusters: dict[str, LocalCluster], tmp_path: Path
) -> None:
    """200,000 record batches of one record, three rounds in turn, medians."""
    class_archive.build()
    source, target = clusters["source"], clusters["target"]
    results: dict[str, list[CatchUp]] = {"java": [], "ours": []}
    for number in range(ROUNDS):
        for who, start in (("java", JavaMirror), ("ours", MirrorProcess)):
            alias = f"{who}{number}"
            (tmp_path / alias).mkdir()
            file = mirror_file(
                tmp_path / alias,
                {alias: source, "target": target},
                f"{alias}->target.enabled = true",
                f"{alias}->target.topics = {TOPIC}",
                *(java_lines(alias) if who == "java" else ()),
            )
            found = catch_up(target, f"{alias}.{TOPIC}", start(file))
            results[who].append(found)
            measured(
                f"{alias}: {found.copying:,.0f} records/s from the first to the last, "
                f"{found.from_start:,.0f} from the start of the process"
            )
        assert compare_topics(source, TOPIC, target, f"ours{number}.{TOPIC}") == RECORDS
    for name in CatchUp._fields:
        java, ours = (median(getattr(one, name) for one in results[who]) for who in results)
        measured(f"{name}: java {java:,.0f}, ours {ours:,.0f} records/s, ratio {ours / java:.1f}")
        assert ours >= java
