# SPDX-License-Identifier: Apache-2.0
"""What a consumer on either cluster may rely on while a mirror runs: all news, none twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.consumer_groups import consumer
from support.clients.librdkafka import create_topics, end_offsets, numbered, produce
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

PARTITIONS = 3
ROUND = 300


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A topic that a running mirror copies."""

    alias: str
    topic: str
    source: LocalCluster
    target: LocalCluster

    @property
    def remote(self) -> str:
        """The topic's name on the target."""
        return f"{self.alias}.{self.topic}"

    def send(self, turn: int) -> list[bytes]:
        """Write some records to the source: their values, sorted."""
        records = numbered(ROUND, PARTITIONS, first=turn * ROUND)
        produce(self.source, self.topic, records)
        return sorted(record.value or b"" for _, record in records)

    def copied(self) -> int:
        """How many records are on the target."""
        return sum(end_offsets(self.target, self.remote).values())


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, str]]:
    """A mirror that also syncs groups, for all topics of this module: its alias, their prefix."""
    alias, prefix = unique_name("seed"), unique_name("news")
    file = mirror_file(
        tmp_path_factory.mktemp("seed"),
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {prefix}.*",
        f"{alias}->target.groups = {prefix}.*",
        f"{alias}->target.sync.group.offsets.enabled = true",
        "sync.group.offsets.interval.seconds = 1",
        "emit.checkpoints.interval.seconds = 1",
        "refresh.topics.interval.seconds = 1",
        "refresh.groups.interval.seconds = 1",
    )
    with MirrorProcess(file) as running:
        running.await_log(f"{alias}->target: RUNNING", PATIENCE_SECONDS)
        yield alias, prefix


@pytest.fixture
def mirrored(
    mirror: tuple[str, str], source_cluster: LocalCluster, target_cluster: LocalCluster
) -> Mirrored:
    """A topic of a test's own, with records that were there before anybody consumed."""
    alias, prefix = mirror
    found = Mirrored(alias, unique_name(prefix), source_cluster, target_cluster)
    create_topics(source_cluster, {found.topic: PARTITIONS})
    old = found.send(0)
    eventually(lambda: found.copied() == len(old), PATIENCE_SECONDS, "the topic is mirrored")
    return found


def received(member: Consumer, count: int) -> list[bytes]:
    """The values of so many records, committed; fewer if no more come."""
    messages = member.consume(count, timeout=PATIENCE_SECONDS)
    assert all(message.error() is None for message in messages)
    member.commit(asynchronous=False)
    return sorted(message.value() or b"" for message in messages)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_consumer_keeps_receiving_what_is_produced(mirrored: Mirrored, side: str) -> None:
    """On either cluster, round after round, nothing missing and nothing twice."""
    cluster = mirrored.source if side == "source" else mirrored.target
    topic = mirrored.topic if side == "source" else mirrored.remote
    with closing(consumer(cluster, f"{mirrored.topic}-{side}")) as member:
        member.subscribe([topic])
        assert len(received(member, ROUND)) == ROUND  # what was there
        for turn in (1, 2, 3):
            assert mirrored.send(turn) == received(member, ROUND)


def test_a_consumer_that_was_away_gets_what_was_sent_meanwhile(mirrored: Mirrored) -> None:
    """It stops on the target and starts again: exactly the records of that time, then the next."""
    group = f"{mirrored.topic}-away"
    with closing(consumer(mirrored.target, group)) as member:
        member.subscribe([mirrored.remote])
        assert len(received(member, ROUND)) == ROUND
        assert mirrored.send(1) == received(member, ROUND)
    missed = mirrored.send(2)
    eventually(lambda: mirrored.copied() == 3 * ROUND, PATIENCE_SECONDS, "it is mirrored meanwhile")
    with closing(consumer(mirrored.target, group)) as member:
        member.subscribe([mirrored.remote])
        assert missed == received(member, ROUND)
        assert mirrored.send(3) == received(member, ROUND)
