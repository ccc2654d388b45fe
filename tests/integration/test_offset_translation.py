# SPDX-License-Identifier: Apache-2.0
"""Any offset of the source is translated to the very record, on topics with every kind of gap."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic, removable_chunks
from sparkmirror.offsets.offset_map import Fit
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import create_topics, numbered, produce
from support.clients.offset_translations import PartitionRecords, partition_records
from support.clusters.topic_histories import (
    await_markers,
    delete_before,
    end_transaction,
    speed_up_log_cleaner,
    transactional,
    write_compacted,
    write_part,
)
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS

ASKED = 1_000
EXPIRED = 700
TURNS = 50  # transactions before each run
TOPICS = {"plain": 1, "transactional": 1, "compacted": 2, "expired": 1}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "600000",
}


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What two runs of one flow left."""

    alias: str
    source: LocalCluster
    target: LocalCluster
    prefix: str
    source_records: dict[tuple[str, int], PartitionRecords]
    target_records: dict[tuple[str, int], PartitionRecords]

    @contextmanager
    def map_topic(self) -> Iterator[MapTopic]:
        """The offset map as it lies on the target."""
        connection = ConnectionSettings("target", (self.target.bootstrap_servers,), "test")
        with closing(ClusterClient(connection)) as client:
            offsets = MapTopic(client, f"mm2-offset-map.{self.alias}.internal")
            offsets.refresh()
            yield offsets


def _transactions(cluster: LocalCluster, topic: str, turns: range) -> None:
    """A gap per commit, some with aborted records in it."""
    producer = transactional(cluster, f"{topic}-{turns.start}")
    for turn in turns:
        producer.begin_transaction()
        write_part(producer, topic, 0, 100 * turn, 1 + turn % 7)
        end_transaction(producer, commits=turn % 5 != 0)
    await_markers(cluster, topic)


@pytest.fixture(
    scope="module",
    params=["default", pytest.param("exactly-once", marks=pytest.mark.thorough)],
)
def mirrored(
    request: pytest.FixtureRequest,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mirrored:
    """Two bounded runs, so that a map is gone on with; records come before and between."""
    alias, prefix = unique_name("map"), unique_name(request.param)
    names = {kind: f"{prefix}-{kind}" for kind in TOPICS}
    source, target = source_cluster, target_cluster
    speed_up_log_cleaner(source)
    create_topics(source, {names[k]: TOPICS[k] for k in ("plain", "transactional", "expired")})
    create_topics(source, {names["compacted"]: TOPICS["compacted"]}, COMPACTED)
    write_compacted(source, names["compacted"], ["lz4", "none"], tombstones=range(0))
    produce(source, names["expired"], numbered(1_000))
    delete_before(source, names["expired"], 1, EXPIRED)
    is_exact = request.param == "exactly-once"
    file = mirror_file(
        tmp_path_factory.mktemp("translation"),
        {alias: source, "target": target},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {prefix}-.*",
        f"target.exactly.once.source.support = {'enabled' if is_exact else 'disabled'}",
        "emit.heartbeats.enabled = false",
        "emit.checkpoints.enabled = false",
        "sync.topic.acls.enabled = false",
    )
    for turn in range(2):
        produce(source, names["plain"], numbered(2_000, first=2_000 * turn))
        _transactions(source, names["transactional"], range(TURNS * turn, TURNS * turn + TURNS))
        produce(source, names["expired"], numbered(500, first=1_000 + 500 * turn))
        with MirrorProcess(file, "--once") as mirror:
            assert mirror.wait(PATIENCE_SECONDS) == 0
    places = [(names[kind], n) for kind, count in TOPICS.items() for n in range(count)]
    return Mirrored(
        alias,
        source,
        target,
        prefix,
        partition_records(source, *places),
        partition_records(target, *[(f"{alias}.{topic}", n) for topic, n in places]),
    )


@pytest.mark.parametrize("kind", [*TOPICS])
def test_the_record_at_the_translated_offset_is_the_one_at_the_source_offset(
    mirrored: Mirrored, kind: str
) -> None:
    """A thousand of a thousand, and back again."""
    topic = f"{mirrored.prefix}-{kind}"
    remote = f"{mirrored.alias}.{topic}"
    chance = random.Random(kind)
    with mirrored.map_topic() as offsets:
        for partition in range(TOPICS[kind]):
            tp = TopicPartition(topic, partition)
            here = mirrored.source_records[topic, partition]
            there = mirrored.target_records[remote, partition]
            assert len(here.offsets) == len(there.offsets) > 0
            asked = chance.choices(range(here.offsets[0], here.offsets[-1] + 2), k=ASKED)
            for offset in asked:
                found = offsets.to_target(tp, offset)
                assert found is not None
                assert found.fit is Fit.EXACT
                assert there.at(found.offset) == here.at(offset)
                if offset in here.offsets:
                    assert found.offset in there.offsets
                    back = offsets.to_source(tp, found.offset)
                    assert back == (offset, Fit.EXACT)


def test_what_the_source_has_outlived_can_be_deleted(mirrored: Mirrored) -> None:
    """Of an expired topic the map keeps what the source still has."""
    topic = f"{mirrored.prefix}-transactional"
    tp = TopicPartition(topic, 0)
    here = mirrored.source_records[topic, 0]
    there = mirrored.target_records[f"{mirrored.alias}.{topic}", 0]
    with mirrored.map_topic() as offsets:
        chunks = len(offsets.maps[tp])
        assert chunks > 1
        last = here.offsets[-1]
        offsets.delete(removable_chunks({tp: offsets.maps[tp]}, {tp: last}, 1_000))
        assert len(offsets.maps[tp]) == 1
    with mirrored.map_topic() as offsets:
        assert len(offsets.maps[tp]) == 1
        found = offsets.to_target(tp, last)
        assert found is not None
        assert there.at(found.offset) == here.at(last)
        first = offsets.to_target(tp, here.offsets[0])
        assert first is not None
        assert first.fit is Fit.BEFORE
