# SPDX-License-Identifier: Apache-2.0
"""Several brokers and several tasks: leaders are found, and followed when they move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import admin, create_topics, duplicates, end_offsets, read_topic
from support.clients.load_generator import Load
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 6
PER_SECOND = 500


@pytest.fixture
def three_brokers(tmp_path: Path, kafka_version: str) -> Iterator[LocalCluster]:
    """A target whose topics have three replicas."""
    with LocalCluster("many", tmp_path / "many", brokers=3, version=kafka_version) as cluster:
        yield cluster
        cluster.kill()  # quicker than an orderly end, and the data is not wanted


@pytest.mark.thorough
def test_leaders_are_followed_when_a_broker_dies(
    source_cluster: LocalCluster, three_brokers: LocalCluster, tmp_path: Path
) -> None:
    """Three tasks write to three brokers; one of them dies for good, nothing is lost or twice."""
    alias, topic = unique_name("few"), unique_name("led")
    create_topics(source_cluster, {topic: PARTITIONS})
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "many": three_brokers},
        f"{alias}->many.enabled = true",
        f"{alias}->many.topics = {topic}",
        f"{alias}->many.tasks.max = 3",
        "replication.factor = 3",
    )
    remote = f"{alias}.{topic}"
    with MirrorProcess(file) as mirror:
        with Load(source_cluster, topic, per_second=PER_SECOND, partitions=PARTITIONS):
            eventually(
                lambda: sum(end_offsets(three_brokers, remote).values()) > PER_SECOND,
                PATIENCE_SECONDS,
                "records flow",
            )
            leaders = (
                admin(three_brokers).list_topics(remote, timeout=PATIENCE_SECONDS).topics[remote]
            )
            assert len({part.leader for part in leaders.partitions.values()}) == 3
            before = len(mirror.log)
            three_brokers.brokers[0].kill()
            for text in ("CONNECTION_LOST", "all problems are resolved"):
                eventually(lambda: text in mirror.log[before:], PATIENCE_SECONDS, text)  # noqa: B023 - called at once
        originals = read_topic(source_cluster, topic)
        total = sum(map(len, originals.values()))
        eventually(
            lambda: sum(map(len, read_topic(three_brokers, remote).values())) >= total,
            PATIENCE_SECONDS,
            "everything is there",
        )
        assert mirror.is_running
    copies = read_topic(three_brokers, remote)
    twice = sum(duplicates(originals[index], copies[index]) for index in originals)
    measured(f"{total} records past a dead leader, {twice} arrived more than once")
    assert twice == 0
