# SPDX-License-Identifier: Apache-2.0
"""Small topics of a scripted cluster: appended to, read to the end, read on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparkmirror.errors import BrokerError
from sparkmirror.kafka import cluster_client
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_log import TopicLog, build_record_batch
from sparkmirror.kafka.topic_tail import TopicTail
from sparkmirror.kafka.topic_writer import TopicWriter
from sparkmirror.model import TopicPartition
from sparkmirror.wire import connection
from sparkmirror.wire.settings import ConnectionSettings
from support.manual_clock import WIRE
from support.mirrors.scripted_mirror import VirtualLoop, VirtualTime
from support.peers.scripted_cluster import FETCH, LIST_OFFSETS, METADATA, PRODUCE, ScriptedCluster

BATCH = build_record_batch([(b"k", b"v")])


class Scripted:
    """A writer to topic t with two partitions, in virtual time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = ScriptedCluster("a", ["t"], partitions=2)
        modules = ("broker_session", "cluster_client", "topic_writer", "topic_log", "topic_tail")
        clock = VirtualTime(monkeypatch, *WIRE, *(f"sparkmirror.kafka.{one}" for one in modules))
        monkeypatch.setattr(ClusterClient, "pause", lambda _self, seconds: clock.advance(seconds))
        monkeypatch.setattr(connection, "open_socket", self._connect)
        host, port = self.cluster.address
        settings = ConnectionSettings("a", (f"{host}:{port}",), "test", 30.0, 10.0)
        self.loop = VirtualLoop(clock)
        self.cluster.attach(self.loop)
        self.client = ClusterClient(settings, make_loop=lambda: self.loop)
        self.writer = TopicWriter(self.client, "t")

    def _connect(self, _settings: ConnectionSettings, addresses: list[Any]) -> Any:
        addresses.pop(0)
        return self.cluster.connect()

    def ends(self) -> list[int]:
        return [self.cluster.log("t", index).end for index in range(2)]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    made = Scripted(monkeypatch)
    yield made
    made.client.close()
    for line in made.cluster._lines:
        line._socket.close()


def test_leaders_are_requested_once(scripted: Scripted) -> None:
    for _ in range(3):
        scripted.writer.append({0: BATCH, 1: BATCH})
    assert scripted.ends() == [3, 3]
    assert scripted.cluster.requests[PRODUCE] == 3
    assert scripted.cluster.requests[METADATA] == 2  # bootstrap, leaders


def test_a_partition_that_fails_is_written_again_alone(scripted: Scripted) -> None:
    scripted.writer.append({0: BATCH, 1: BATCH})
    lost = scripted.cluster.logs.pop(TopicPartition("t", 1))

    def restore(key: int, _request: object) -> None:
        if key == PRODUCE:
            scripted.cluster.logs[TopicPartition("t", 1)] = lost

    scripted.cluster.after_request = restore
    scripted.writer.append({0: BATCH, 1: BATCH})
    assert scripted.ends() == [2, 2]


def test_a_topic_that_does_not_exist_is_an_error_in_the_end(scripted: Scripted) -> None:
    writer = TopicWriter(scripted.client, "missing")
    with pytest.raises(BrokerError, match="missing") as caught:
        writer.append({0: BATCH})
    assert caught.value.code == cluster_client.UNKNOWN_TOPIC_OR_PARTITION


def test_a_log_is_read_to_its_end(scripted: Scripted) -> None:
    with TopicLog(scripted.client.connection, "t", client=scripted.client) as log:
        log.append({0: [(b"a", b"1"), (b"b", None)], 1: [(b"c", b"3")]})
        found = {(one.partition, one.offset): (one.key, one.value) for one in log.read_to_end()}
    assert found == {(0, 0): (b"a", b"1"), (0, 1): (b"b", None), (1, 0): (b"c", b"3")}


def test_a_tail_reads_on_and_notices_another_topic(scripted: Scripted) -> None:
    replaced: list[bool] = []
    tail = TopicTail(scripted.client, "t", lambda: replaced.append(True))
    for value in (b"1", b"2"):
        offsets = tail.append({0: build_record_batch([(b"k", value)])})
        reach = {tp: offset + 1 for tp, offset in offsets.items()}
        assert [one.value for one in tail.read_new(reach, 10.0)] == [value]
    before = scripted.cluster.requests.copy()
    assert list(tail.read_new({}, 10.0)) == []
    assert scripted.cluster.requests - before == {FETCH: 1, LIST_OFFSETS: 1}
    scripted.cluster.create("t", 2)
    tail.append({1: BATCH})
    assert [one.value for one in tail.read_new({}, 10.0)] == [b"v"]
    assert replaced
