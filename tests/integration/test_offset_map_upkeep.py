# SPDX-License-Identifier: Apache-2.0
"""The offset map's topic in trouble: made anew, without rights, full; and what is deleted of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sparkmirror.connectors.offset_map_cleaner import OffsetMapCleaner
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.map_chunk import ChunkKey, MapChunk, MappedRun
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import (
    Record,
    compare_topics,
    create_topics,
    delete_topic,
    numbered,
    produce,
    topic_partitions,
)
from support.clusters.topic_histories import delete_before
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def client(target_cluster: LocalCluster) -> Iterator[ClusterClient]:
    """A line to the cluster that the map lies on."""
    settings = ConnectionSettings("target", (target_cluster.bootstrap_servers,), "test")
    with closing(ClusterClient(settings)) as client:
        yield client


def chunk(first: int, target: int, length: int = 10) -> MapChunk:
    """A chunk with one run."""
    end = first + length
    return MapChunk(first, target, end, target + length, (MappedRun(first, target, length),))


def write(cluster: LocalCluster, topic: str, tp: TopicPartition, *chunks: MapChunk) -> None:
    """As a task would."""
    records = [Record(ChunkKey(tp, one.first).pack(), one.value()) for one in chunks]
    produce(cluster, topic, [(0, record) for record in records])


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["default", "exactly-once"])
def test_a_map_that_is_gone_holds_nothing_up(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, mode: str
) -> None:
    """Records and positions continue, the status says it, and the next start makes it again."""
    alias, topic = unique_name("nomap"), unique_name("gone")
    create_topics(source_cluster, {topic: 1})
    produce(source_cluster, topic, numbered(100))
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        "target.offset.flush.interval.ms = 500",
        *(["target.exactly.once.source.support = enabled"] if mode == "exactly-once" else []),
    )
    map_topic = f"mm2-offset-map.{alias}.internal"

    def arrived(records: int) -> None:
        eventually(
            lambda: (
                topic_partitions(target_cluster, f"{alias}.{topic}")
                and compare_topics(source_cluster, topic, target_cluster, f"{alias}.{topic}")
                == records
            ),
            PATIENCE_SECONDS,
            f"{records} records are there",
        )

    with MirrorProcess(file) as mirror:
        arrived(100)
        delete_topic(target_cluster, map_topic)
        eventually(
            lambda: not topic_partitions(target_cluster, map_topic), PATIENCE_SECONDS, "it is gone"
        )
        produce(source_cluster, topic, numbered(100, first=100))
        arrived(200)
        mirror.await_log(f"{map_topic}-0 cannot be written", PATIENCE_SECONDS)
        produce(source_cluster, topic, numbered(100, first=200))
        arrived(300)
        code, _took = mirror.terminate()
        assert code == 0
    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(PATIENCE_SECONDS) == 0
        assert "compared" not in mirror.log
    arrived(300)
    assert topic_partitions(target_cluster, map_topic) == 1


def test_a_map_that_was_recreated_is_read_again(
    target_cluster: LocalCluster, client: ClusterClient
) -> None:
    """What the old one said counts for nothing."""
    topic, tp = unique_name("mm2-offset-map"), TopicPartition("t", 0)
    create_topics(target_cluster, {topic: 1}, COMPACTED)
    write(target_cluster, topic, tp, chunk(0, 0), chunk(10, 10), chunk(20, 20))
    offsets = MapTopic(client, topic)
    offsets.refresh()
    assert offsets.to_target(tp, 25) == Translation(25, Fit.EXACT)
    delete_topic(target_cluster, topic)
    eventually(lambda: not topic_partitions(target_cluster, topic), PATIENCE_SECONDS, "it is gone")
    create_topics(target_cluster, {topic: 1}, COMPACTED)
    write(target_cluster, topic, tp, chunk(20, 7))
    offsets.refresh()
    assert offsets.to_target(tp, 25) == Translation(12, Fit.EXACT)
    assert offsets.maps[tp].firsts == [20]


def test_chunks_that_do_not_fit_into_memory_are_read_where_they_lie(
    target_cluster: LocalCluster, client: ClusterClient
) -> None:
    """A cache of nothing at all gives the same answers."""
    topic, tp = unique_name("mm2-offset-map"), TopicPartition("t", 0)
    create_topics(target_cluster, {topic: 1}, COMPACTED)
    write(target_cluster, topic, tp, *(chunk(n * 10, n * 20) for n in range(50)))
    offsets = MapTopic(client, topic, cache_bytes=0)
    offsets.refresh()
    for offset in range(0, 500, 7):
        expected = offset // 10 * 20 + offset % 10
        assert offsets.to_target(tp, offset) == Translation(expected, Fit.EXACT)
    write(target_cluster, topic, tp, chunk(490, 5_000))  # not read yet: the old one still counts
    assert offsets.to_target(tp, 495) == Translation(985, Fit.EXACT)


def test_the_cleaner_deletes_unneeded_chunks_and_reports_what_is_lost(
    source_cluster: LocalCluster, target_cluster: LocalCluster, client: ClusterClient
) -> None:
    """What the source outlived, what was replaced, and the oldest above the cap."""
    source_topic, topic = unique_name("kept"), unique_name("mm2-offset-map")
    tp = TopicPartition(source_topic, 0)
    create_topics(source_cluster, {source_topic: 1})
    create_topics(target_cluster, {topic: 1}, COMPACTED)
    produce(source_cluster, source_topic, numbered(100))
    write(target_cluster, topic, tp, *(chunk(n * 10, n * 10) for n in range(10)))
    said: dict[str, str] = {}
    offsets = MapTopic(client, topic)
    settings = ConnectionSettings("source", (source_cluster.bootstrap_servers,), "test")
    with ClusterAdmin(settings) as source:
        keeper = OffsetMapCleaner(offsets, source, said.__setitem__, max_chunks=8)
        offsets.refresh()
        assert keeper.clean() == 2
        assert offsets.maps[tp].firsts == [*range(20, 100, 10)]
        assert "before source offset 20" in said[f"map {tp}"]
        delete_before(source_cluster, source_topic, 1, 55)
        assert keeper.clean() == 3
        assert offsets.maps[tp].firsts == [50, 60, 70, 80, 90]
        assert said[f"map {tp}"] == ""
        write(target_cluster, topic, tp, chunk(65, 65))
        offsets.refresh()
        assert keeper.clean() == 0  # not before it has been so for a while
        offsets.refresh()
        assert keeper.clean() == 3
    again = MapTopic(client, topic)
    again.refresh()
    assert again.maps[tp].firsts == [50, 60, 65]


def test_the_cleaner_survives_a_recreated_map(
    source_cluster: LocalCluster, target_cluster: LocalCluster, client: ClusterClient
) -> None:
    """What it remembers of the old one is of no partition that the new one knows."""
    topic = unique_name("mm2-offset-map.anew")
    tp = TopicPartition(unique_name("renewed"), 0)
    create_topics(target_cluster, {topic: 1}, COMPACTED)
    write(target_cluster, topic, tp, *(chunk(n * 10, n * 10) for n in range(10)))
    write(target_cluster, topic, tp, chunk(65, 65))
    offsets = MapTopic(client, topic)
    settings = ConnectionSettings("source", (source_cluster.bootstrap_servers,), "test")
    with ClusterAdmin(settings) as source:
        keeper = OffsetMapCleaner(offsets, source, lambda *_: None, max_chunks=4)
        offsets.refresh()
        assert keeper.clean() > 0
        delete_topic(target_cluster, topic)
        create_topics(target_cluster, {topic: 1}, COMPACTED)
        eventually(lambda: _is_empty(offsets), PATIENCE_SECONDS, "a new map")
        keeper.clean()
        write(target_cluster, topic, tp, chunk(5, 5))
        offsets.refresh()
        keeper.clean()
        assert offsets.maps[tp].firsts == [5]


def _is_empty(offsets: MapTopic) -> bool:
    offsets.refresh()
    return not offsets.maps
