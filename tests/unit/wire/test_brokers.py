# SPDX-License-Identifier: Apache-2.0
"""Connections to the brokers of a cluster: refused logins, bootstrap addresses, adoption."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from sparkmirror.errors import ConnectionLostError, LossKind
from sparkmirror.model import Secret
from sparkmirror.security.settings import (
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
)
from sparkmirror.wire.brokers import Brokers
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.wire_requests import Outcome, run_until
from support.data.metadata_responses import metadata
from support.manual_clock import WIRE, ManualClock
from support.peers.secure_broker import AUTHENTICATE, SecureBroker

WRONG = "wr0ng-word"
SETTINGS = ConnectionSettings("b", (), "test", 60.0, 60.0)


def security(password: str) -> SecuritySettings:
    login = SaslSettings(SaslMechanism.PLAIN, "me", Secret(password))
    return SecuritySettings(SecurityProtocol.SASL_PLAINTEXT, sasl=login)


class Clients:
    """Brokers as several clients of the process see them, on one loop."""

    def __init__(self, stack: ExitStack) -> None:
        self.loop = EventLoop()
        stack.callback(self.loop.close)
        self._stack = stack

    def open(self, password: str, *peers: SecureBroker) -> Brokers:
        """What a new client has; its cluster consists of these peers."""
        servers = tuple(str(one.address) for one in peers)
        made = Brokers(
            self.loop, replace(SETTINGS, bootstrap_servers=servers, security=security(password))
        )
        self._stack.callback(made.close, "the test is over")
        made.learn(metadata({n: one.address for n, one in enumerate(peers, 1)}).brokers)
        return made

    def connect(self, brokers: Brokers, node: int = 1) -> BrokerConnection:
        """Open the connection to a broker and use it; ConnectionLostError if that fails."""
        connection = brokers.connection(node)
        outcome = Outcome()
        outcome.send(connection, [b"x"])
        run_until(self.loop, lambda: outcome.is_over)
        if outcome.failures:
            raise outcome.failures[0]
        return connection

    def refused(self, brokers: Brokers, node: int = 1) -> str:
        """Why a broker does not let a client in."""
        with pytest.raises(ConnectionLostError) as caught:
            self.connect(brokers, node)
        assert caught.value.kind is LossKind.REFUSED
        return caught.value.reason


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    return ManualClock(monkeypatch, *WIRE)


@pytest.fixture
def clients() -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(stack)


@pytest.fixture
def peer() -> Iterator[SecureBroker]:
    """A broker that knows another password."""
    with SecureBroker(login=b"\0me\0right") as made:
        yield made


def test_a_refused_login_is_not_repeated_at_once(
    peer: SecureBroker, clock: ManualClock, clients: Clients
) -> None:
    """The pause grows; meanwhile every caller gets the reason."""
    brokers = clients.open(WRONG, peer)
    for _ in range(20):
        assert "refused the login" in clients.refused(brokers)
    assert peer.seen.count(AUTHENTICATE) == 1
    clock.advance(1.0)
    clients.refused(brokers)
    clock.advance(1.9)
    clients.refused(brokers)
    assert peer.seen.count(AUTHENTICATE) == 2


def test_a_login_that_is_accepted_at_last_ends_the_pauses(
    peer: SecureBroker, clock: ManualClock, clients: Clients
) -> None:
    brokers = clients.open(WRONG, peer)
    clients.refused(brokers)
    peer.login = f"\0me\0{WRONG}".encode()
    clock.advance(1.0)
    clients.connect(brokers)
    clients.connect(clients.open(WRONG, peer))
    assert peer.logins == 2


def test_no_other_client_of_the_process_repeats_a_refused_login(
    peer: SecureBroker, clock: ManualClock, clients: Clients
) -> None:
    clients.refused(clients.open(WRONG, peer))
    other = clients.open(WRONG, peer)
    clients.refused(other)
    assert peer.seen.count(AUTHENTICATE) == 1
    clock.advance(1.0)
    clients.refused(other)
    clients.refused(clients.open(WRONG, peer))
    assert peer.seen.count(AUTHENTICATE) == 2


def test_another_password_is_tried_at_once(peer: SecureBroker, clients: Clients) -> None:
    clients.refused(clients.open(WRONG, peer))
    clients.connect(clients.open("right", peer))
    assert peer.logins == 1


def test_an_open_connection_stays_when_the_password_changes(
    peer: SecureBroker, clients: Clients
) -> None:
    first, second = (clients.open("right", peer) for _ in range(2))
    clients.connect(first)
    peer.login = b"\0me\0another"
    clients.refused(second)
    clients.connect(first)
    assert first.next_node() == 1
    assert peer.seen.count(AUTHENTICATE) == 2


def test_a_broker_that_refuses_does_not_keep_us_from_the_others(
    peer: SecureBroker, clients: Clients
) -> None:
    """One has an expired certificate, or does not know the password yet."""
    with SecureBroker(login=f"\0me\0{WRONG}".encode()) as other:
        brokers = clients.open(WRONG, peer, other)
        clients.refused(brokers, 1)
        assert {brokers.next_node() for _ in range(3)} == {2}
        assert {brokers.bootstrap_connection().address for _ in range(3)} == {other.address}


def test_a_password_that_a_broker_repeats_is_not_shown(
    peer: SecureBroker, clients: Clients
) -> None:
    reason = clients.refused(clients.open(WRONG, peer))
    assert "[hidden]" in reason
    assert "of yours" in reason
    assert "\n" not in reason
    assert WRONG not in reason


def test_a_bootstrap_connection_is_kept_if_a_broker_advertises_its_address(
    clients: Clients,
) -> None:
    """Else it is closed: requests go to advertised addresses only."""
    with SecureBroker() as peer, SecureBroker() as other:
        for advertised, is_kept in ((peer, True), (other, False)):
            brokers = Brokers(
                clients.loop, replace(SETTINGS, bootstrap_servers=(str(peer.address),))
            )
            bootstrap = brokers.bootstrap_connection()
            brokers.learn(metadata({7: advertised.address}).brokers)
            assert bootstrap.closed is not is_kept
            assert (brokers.connection(7) is bootstrap) is is_kept
            brokers.close("the test is over")


def test_brokers_that_left_the_cluster_are_not_chosen(clients: Clients) -> None:
    with SecureBroker() as peer, SecureBroker() as other:
        brokers = clients.open("", peer, other)
        brokers.learn(metadata({2: other.address}).brokers)
        assert {brokers.next_node() for _ in range(3)} == {2}
        assert brokers.addresses == {2: other.address}
