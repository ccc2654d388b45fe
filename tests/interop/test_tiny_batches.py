# SPDX-License-Identifier: Apache-2.0
"""A topic of one-record batches is caught up at least as fast as by Java MirrorMaker 2.

Both copy the same topic between the same brokers, in turn. Java's is tuned as its users do it:
a task for each partition, large fetches, large batches that wait for company; ours runs as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from benchmarks.contenders import tuned_lines
from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.spark import class_archive
from support.clients.consumed_records import ends, partitions_of
from support.clients.librdkafka import create_topics, read_topic
from support.clients.raw_producer import produce_batches
from support.clusters.log_segments import logged_batches
from support.data.record_batches import Record, encode
from support.measurements import measured
from support.mirrors.java_mirror_maker import JavaMirror
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess

TOPIC, PARTITIONS, RECORDS = "tiny-batches", 4, 200_000
ROUNDS = 3
PATIENCE_SECONDS = 180.0
LOOK_SECONDS = 0.05
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


class CatchUp(NamedTuple):
    """Records a second, from the first one on the target to the last, and from the start on."""

    copying: float
    from_start: float
    per_cpu_second: float  # of the copier alone, from the first to the last


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


def cpu_seconds(mirror: JavaMirror | MirrorProcess) -> float:
    """What the copying processes have used so far: Java's JVM, or our Python worker."""
    copiers = mirror.copiers() if isinstance(mirror, JavaMirror) else mirror.python_workers()
    used = [one.cpu_times() for one in copiers]
    return sum(times.user + times.system for times in used)


def catch_up(target: LocalCluster, remote: str, mirror: JavaMirror | MirrorProcess) -> CatchUp:
    """Watch a program that has just been started until everything has arrived.

    When it arrived says the broker, which stamps record batches with its own time.
    """
    began = time.time()
    copied, cpu_before = 0, 0.0
    with mirror:
        while copied < RECORDS:
            if not copied:
                cpu_before = cpu_seconds(mirror)
            time.sleep(LOOK_SECONDS)
            copied = sum(ends(target, partitions_of({remote: PARTITIONS})).values())
            assert time.time() < began + PATIENCE_SECONDS, f"only {copied} records in {remote}"
        cpu = cpu_seconds(mirror) - cpu_before
    appended = [
        batch.max_timestamp / 1000
        for index in range(PARTITIONS)
        for batch in logged_batches(target, remote, index)
    ]
    first, last = min(appended), max(appended)
    return CatchUp(RECORDS / (last - first), RECORDS / (last - began), RECORDS / cpu)


@pytest.mark.timeout(900)
def test_tiny_batches_are_caught_up_at_least_as_fast_as_by_java(
    clusters: dict[str, LocalCluster], tmp_path: Path
) -> None:
    """200,000 record batches of one record, three rounds in turn, medians."""
    class_archive.build_and_wait()
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
                *(tuned_lines(alias, PARTITIONS) if who == "java" else ()),
            )
            create_topics(target, {f"{alias}.{TOPIC}": PARTITIONS}, APPEND_TIME)
            found = catch_up(target, f"{alias}.{TOPIC}", start(file))
            results[who].append(found)
            measured(
                f"{alias}: {found.copying:,.0f} records/s from the first to the last, "
                f"{found.from_start:,.0f} from the start of the process, "
                f"{found.per_cpu_second:,.0f} per CPU-second of the copier"
            )
        originals, copies = read_topic(source, TOPIC), read_topic(target, f"ours{number}.{TOPIC}")
        for index, records in originals.items():
            values = [record.value for record in records]
            assert [record.value for record in copies[index]] == values
    for name in CatchUp._fields:
        java, ours = (median(getattr(one, name) for one in results[who]) for who in results)
        measured(
            f"{name}: java {java:,.0f}, ours {ours:,.0f} records/s, ours / java {ours / java:.1f}"
        )
        assert ours >= java
