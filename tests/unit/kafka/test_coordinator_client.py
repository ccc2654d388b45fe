# SPDX-License-Identifier: Apache-2.0
"""A member and the coordinator of its group, on a scripted cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sparkmirror.errors import BrokerError, UnreachableError
from sparkmirror.kafka.coordinator_client import (
    REBALANCE_IN_PROGRESS,
    CoordinatorClient,
    JoinParameters,
)
from sparkmirror.wire import connection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings
from support.peers.scripted_cluster import NODE, DelayedResponse, ScriptedCluster
from support.peers.scripted_group import FIND_COORDINATOR, HEARTBEAT, JOIN, ScriptedGroup

HOW = JoinParameters("connect", {"sessioned": b"metadata"}, 10_000, 60_000)
NOT_COORDINATOR = 16


class Scripted:
    """A client whose loop also runs the cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = ScriptedCluster("a", [])
        self.group = ScriptedGroup(NODE, self.cluster.address)
        self.cluster.add_group(self.group)
        monkeypatch.setattr(connection, "open_socket", self._connect)
        host, port = self.cluster.address
        settings = ConnectionSettings("a", (f"{host}:{port}",), "test")
        self.client = CoordinatorClient(settings, "g")
        self.client._client._make_loop = self._make_loop

    def _make_loop(self) -> EventLoop:
        self.close_lines()
        loop = EventLoop()
        self.cluster._loop = loop
        return loop

    def _connect(self, _settings: ConnectionSettings, addresses: list[Any]) -> Any:
        addresses.pop(0)
        return self.cluster.connect()

    def close_lines(self) -> None:
        for line in self.cluster._lines:  # their loop is closed already
            line._socket.close()
        self.cluster._lines.clear()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    made = Scripted(monkeypatch)
    yield made
    made.client.close()
    made.close_lines()


def test_a_member_joins_syncs_beats_and_leaves(scripted: Scripted) -> None:
    """The coordinator is looked for once."""
    names: list[str] = []
    joined = scripted.client.join("", HOW, names.append)
    assert (joined.generation, joined.member_id, joined.is_leader) == (1, "member-1", True)
    assert joined.members == {"member-1": b"metadata"}
    assert names == ["member-1", "member-1"]
    assert scripted.client.sync(joined, HOW, {"member-1": b"tasks"}) == b"tasks"
    assert scripted.client.heartbeat("member-1", 1) == 0
    scripted.group.codes[HEARTBEAT] = REBALANCE_IN_PROGRESS
    assert scripted.client.heartbeat("member-1", 1) == REBALANCE_IN_PROGRESS
    scripted.client.leave("member-1")
    assert scripted.cluster.requests[FIND_COORDINATOR] == 1


def test_a_coordinator_that_moved_is_looked_for_again(scripted: Scripted) -> None:
    scripted.client.heartbeat("member-1", 1)
    scripted.group.codes[HEARTBEAT] = NOT_COORDINATOR
    with pytest.raises(BrokerError) as caught:
        scripted.client.heartbeat("member-1", 1)
    assert caught.value.code == NOT_COORDINATOR
    assert scripted.client.heartbeat("member-1", 1) == 0
    assert scripted.cluster.requests[FIND_COORDINATOR] == 2


def test_a_join_that_waits_ends_when_the_client_is_closed(scripted: Scripted) -> None:
    """Though it may wait for all members for a minute."""
    serve = scripted.cluster.serve

    def waiting(key: int, request: Any, version: int) -> Any:
        answer = serve(key, request, version)
        if key == JOIN:
            return DelayedResponse(1000.0, lambda: answer, ends_early=False)
        return answer

    scripted.cluster.serve = waiting  # type: ignore[method-assign]
    threading.Timer(0.2, scripted.client.close).start()
    with pytest.raises(UnreachableError, match="was closed"):
        scripted.client.join("", HOW, lambda _name: None)
