# SPDX-License-Identifier: Apache-2.0
"""What a task knows of a cluster: connections to its brokers, and whom it asks for what."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sparkmirror.errors import UnreachableError
from sparkmirror.model import Secret, TopicPartition
from sparkmirror.security.settings import (
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
)
from sparkmirror.wire import brokers
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.wire_requests import run_until
from support.data.metadata_responses import metadata, partition, topic
from support.manual_clock import WIRE, ManualClock
from support.peers.fake_cluster import FakeConnection, FakeLoop, Request
from support.peers.secure_broker import AUTHENTICATE, SecureBroker

LOOPBACK = "127.0.0.1"
BROKERS = {node: Address(f"b{node}", 9092) for node in (1, 2, 3)}
SETTINGS = ConnectionSettings("b", (str(BROKERS[1]),), "test", 60.0, 60.0)
UNKNOWN_TOPIC = 3


class Scripted:
    """A cluster whose connections are fakes, by address; the seed goes to broker 1."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connections: dict[Address, FakeConnection] = {}
        monkeypatch.setattr(brokers, "BrokerConnection", self._open)
        self.loop = FakeLoop()
        self.cluster = Cluster(self.loop, SETTINGS)  # type: ignore[arg-type]

    def _open(
        self,
        _loop: EventLoop,
        _settings: ConnectionSettings,
        address: Address,
        *_rest: object,
        **_options: object,
    ) -> object:
        made = self.connections.setdefault(address, FakeConnection(12))
        made.address = address
        return made

    def asked(self) -> tuple[Address, Request]:
        """The one request that waits, and at which broker."""
        self.loop.advance(1.0)
        ((address, request),) = [
            (address, one.waiting.popleft())
            for address, one in self.connections.items()
            if one.waiting
        ]
        return address, request

    def names(self, *topics: SimpleNamespace) -> list[str]:
        """Answer the one request that waits; returns the topics that it named."""
        _address, request = self.asked()
        request.reply(metadata(BROKERS, *topics))
        return [one.name for one in request.content.topics]

    @property
    def is_silent(self) -> bool:
        """Whether nothing is asked."""
        self.loop.advance(60.0)
        return not any(one.waiting for one in self.connections.values())


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A cluster that knows topic t, led by broker 1, and has a connection to it."""
    found = Scripted(monkeypatch)
    found.cluster.track_topics(["t"])
    assert found.names(topic("t", partition(0, 1))) == ["t"]
    return found


def test_what_is_known_is_not_asked_again(scripted: Scripted) -> None:
    """However often it is wanted."""
    scripted.cluster.track_topics(["t"])
    assert scripted.is_silent


def test_only_new_topics_are_requested(scripted: Scripted) -> None:
    """One request for all that were wanted at once."""
    scripted.cluster.track_topics(["t", "u"])
    scripted.cluster.track_topics(["v"])
    assert scripted.names(topic("u", partition(0, 1)), topic("v", partition(0, 1))) == ["u", "v"]
    assert scripted.is_silent


def test_a_topic_wanted_again_while_it_is_requested_is_queried_once(scripted: Scripted) -> None:
    """The answer that is under way will do."""
    scripted.cluster.track_topics(["u"])
    _address, request = scripted.asked()
    scripted.cluster.track_topics(["u"])
    request.reply(metadata(BROKERS, topic("u", partition(0, 1))))
    assert scripted.is_silent


def test_a_topic_that_was_not_found_is_queried_again_when_wanted(scripted: Scripted) -> None:
    """It may have been created meanwhile."""
    scripted.cluster.track_topics(["u"])
    scripted.names(topic("u", error=UNKNOWN_TOPIC))
    assert scripted.cluster.has_metadata(TopicPartition("u", 0))
    scripted.cluster.track_topics(["u"])
    assert scripted.names(topic("u", partition(0, 1))) == ["u"]


def test_a_refresh_requests_all_or_the_named_topics(scripted: Scripted) -> None:
    """All win where both are due."""
    scripted.cluster.track_topics(["u"])
    scripted.names(topic("u", partition(0, 1)))
    scripted.cluster.refresh_metadata(topics=["u"])
    assert scripted.names() == ["u"]
    scripted.cluster.refresh_metadata(topics=["u"])
    scripted.cluster.refresh_metadata()
    assert scripted.names() == ["t", "u"]


def test_what_was_not_answered_is_queried_again(scripted: Scripted) -> None:
    """By the same names; a request for brokers only has none."""
    scripted.cluster.refresh_metadata(topics=["u"])
    _address, request = scripted.asked()
    request.fail(UnreachableError("lost", cluster="b"))
    assert scripted.names() == ["u"]


def test_a_broker_with_stale_metadata_is_not_the_only_one_asked(scripted: Scripted) -> None:
    """Even if it is the only one that there is a connection to."""
    stale = topic("t", partition(0, 1))
    at = []
    for _ in range(6):
        scripted.cluster.refresh_metadata()
        address, request = scripted.asked()
        at.append(address)
        request.reply(metadata(BROKERS, stale))
    assert set(at) == set(BROKERS.values())


def test_connected_brokers_are_queried_in_turn(scripted: Scripted) -> None:
    """Further ones are left alone while the answers say something new."""
    scripted.cluster.connection(2)
    at = []
    for epoch in range(1, 5):
        scripted.cluster.refresh_metadata()
        address, request = scripted.asked()
        at.append(address)
        request.reply(metadata(BROKERS, topic("t", partition(0, 1, epoch))))
    assert at == [BROKERS[1], BROKERS[2], BROKERS[1], BROKERS[2]]


def test_every_connection_to_a_broker_that_moved_is_closed() -> None:
    """Also those of further lanes; the next ones go to its new address."""
    with ExitStack() as stack:
        old, new = (
            Address(LOOPBACK, stack.enter_context(made).getsockname()[1])
            for made in (socket.create_server((LOOPBACK, 0)) for _ in range(2))
        )
        loop = EventLoop()
        stack.callback(loop.close)
        cluster = Cluster(loop, replace(SETTINGS, bootstrap_servers=(str(old),)))
        stack.callback(cluster.close)
        cluster._on_metadata(metadata({1: old}))
        before = [cluster.connection(1, lane) for lane in range(3)]
        assert len(set(map(id, before))) == 3
        assert cluster.connection(1, 2) is before[2]

        cluster._on_metadata(metadata({1: new}))

        assert all(one.closed for one in before)
        assert {cluster.connection(1, lane).address for lane in range(3)} == {new}


def test_a_broker_that_refuses_us_is_not_asked_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trouble is told meanwhile, to whoever wants a connection and in the status."""
    clock = ManualClock(monkeypatch, *WIRE, "sparkmirror.wire.cluster")
    login = SaslSettings(SaslMechanism.PLAIN, "me", Secret("wrong"))
    security = SecuritySettings(SecurityProtocol.SASL_PLAINTEXT, sasl=login)
    loop = EventLoop()
    with ExitStack() as stack:
        stack.callback(loop.close)
        peer = stack.enter_context(SecureBroker(login=b"\0me\0right"))
        cluster = Cluster(
            loop,
            replace(SETTINGS, bootstrap_servers=(str(peer.address),), security=security),
        )
        stack.callback(cluster.close)
        cluster._brokers.learn(metadata({1: peer.address}).brokers)
        cluster.track_topics(["t"])
        run_until(loop, lambda: cluster.error is not None)
        for _ in range(9):  # a tenth of a second short of the pause
            with pytest.raises(UnreachableError, match=r"sasl\.jaas\.config"):
                cluster.connection(1)
            loop.run_once(0.01)
            clock.advance(0.1)
        assert peer.seen.count(AUTHENTICATE) == 1
        clock.advance(1.0)
        run_until(loop, lambda: peer.seen.count(AUTHENTICATE) == 2)
        assert "sasl.jaas.config" in str(cluster.error)
