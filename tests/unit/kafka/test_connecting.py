# SPDX-License-Identifier: Apache-2.0
"""kafka-python's connections and a broker that does not let us in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.errors import KafkaProtocolError, SaslAuthenticationFailedError
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from sparkmirror.kafka.connection_manager import ConnectionManager
from sparkmirror.kafka.error_mapping import authentication_error
from sparkmirror.kafka.sasl_adapter import SaslAdapter
from sparkmirror.model import Secret
from sparkmirror.security.settings import (
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
)
from sparkmirror.wire.settings import ConnectionSettings
from support.manual_clock import ManualClock
from support.peers.secure_broker import API_VERSIONS, AUTHENTICATE, SecureBroker

RIGHT = b"\0me\0right"
WRONG = "wr0ng-word"
NODE = "bootstrap-0"
SASL = SaslSettings(SaslMechanism.PLAIN, "me", Secret(WRONG))
RIGHT_SASL = SaslSettings(SaslMechanism.PLAIN, "me", Secret("right"))


@pytest.fixture
def peer() -> Iterator[SecureBroker]:
    """A broker that knows another password."""
    with SecureBroker(login=RIGHT) as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock of the pauses between logins."""
    return ManualClock(monkeypatch, "sparkmirror.kafka.connection_manager")


@pytest.fixture
def manager(peer: SecureBroker) -> Iterator[ConnectionManager]:
    """The connections of a client with a wrong password."""
    with opened(SASL, peer) as made:
        assert [one.node_id for one in made.cluster.bootstrap_brokers()] == [NODE]
        yield made


def settings_of(sasl: SaslSettings, *peers: SecureBroker, alias: str = "a") -> ConnectionSettings:
    """How to reach them."""
    security = SecuritySettings(SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    return ConnectionSettings(
        alias, tuple(str(one.address) for one in peers), "test", security=security
    )


@contextmanager
def opened(sasl: SaslSettings, *peers: SecureBroker) -> Iterator[ConnectionManager]:
    """The connections of a client."""
    net, settings = NetworkSelector(), settings_of(sasl, *peers)
    made = ConnectionManager(
        net,
        settings,
        bootstrap_servers=list(settings.bootstrap_servers),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_oauth_token_provider=SaslAdapter(sasl),
    )
    client = KafkaNetClient(net=net, manager=made)
    try:
        yield made
    finally:
        client.close()


def connect(manager: ConnectionManager, node: str | None = NODE) -> None:
    """Try to reach the broker, as any request does."""

    async def attempt() -> None:
        await manager.get_connection(node, refresh_metadata_on_err=False)

    manager.run(attempt)


def fail(manager: ConnectionManager, node: str | None = NODE) -> str:
    """The broker's words, or what is kept of them."""
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        connect(manager, node)
    return str(caught.value)


def test_a_broker_that_refuses_us_is_left_alone(
    peer: SecureBroker, clock: ManualClock, manager: ConnectionManager
) -> None:
    """A password that is wrong is not sent again and again; who asks meanwhile is told."""
    for _ in range(20):
        fail(manager)
        fail(manager, None)
    assert peer.seen.count(AUTHENTICATE) == 1
    assert manager.least_loaded_node() is None

    first = manager.connection_delay(NODE)
    clock.advance(first)
    for _ in range(20):
        fail(manager)
    assert peer.seen.count(AUTHENTICATE) == 2
    assert manager.connection_delay(NODE) > first  # the pause grows


def test_who_is_let_in_at_last_is_not_held_up(
    peer: SecureBroker, clock: ManualClock, manager: ConnectionManager
) -> None:
    """Somebody gave the broker our password."""
    fail(manager)
    peer.login = f"\0me\0{WRONG}".encode()
    clock.advance(manager.connection_delay(NODE))

    connect(manager)
    assert peer.logins == 1
    assert manager.connection_delay(NODE) == 0


def test_another_password_is_tried_at_once(peer: SecureBroker, manager: ConnectionManager) -> None:
    """Somebody has changed our file."""
    fail(manager)
    with opened(RIGHT_SASL, peer) as other:
        connect(other)
    assert peer.logins == 1


def test_who_is_in_stays_in(peer: SecureBroker) -> None:
    """A password that was changed on the brokers hurts who comes, not who is there."""
    with opened(RIGHT_SASL, peer) as first, opened(RIGHT_SASL, peer) as second:
        connect(first)
        peer.login = b"\0me\0another"
        fail(second)
        connect(first)
        assert first.connection_delay(NODE) == 0
        fail(second)
    assert peer.seen.count(AUTHENTICATE) == 2


def test_a_broker_that_is_left_alone_does_not_keep_us_from_the_others(
    peer: SecureBroker, manager: ConnectionManager
) -> None:
    """One has an expired certificate, or has not heard of our password yet."""
    fail(manager)
    with SecureBroker(login=RIGHT) as other, opened(SASL, peer, other) as both:
        assert [one.port for one in both.cluster.bootstrap_brokers()] == [other.address.port]


def test_a_password_that_a_broker_repeats_is_not_shown(
    manager: ConnectionManager, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in our sentence nor in any line of kafka-python's log; all in one line."""
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", logger="kafka")  # our commands silence it for the whole process
    words = fail(manager)

    assert "[hidden]" in words
    assert "of yours" in words
    assert "\n" not in words
    assert "Connection lost" in caplog.text
    assert WRONG not in words + caplog.text


def test_a_refusal_is_one_line_without_the_password() -> None:
    """Whoever raised it."""
    settings = ConnectionSettings(
        "a", ("b:1",), "test", security=SecuritySettings(SecurityProtocol.SASL_PLAINTEXT, sasl=SASL)
    )
    found = str(
        authentication_error(settings, SaslAuthenticationFailedError(f"bad {WRONG}\nof yours"))
    )

    assert "bad [hidden] of yours" in found


def test_an_answer_that_is_cut_off_ends_the_connection_at_once(
    peer: SecureBroker, manager: ConnectionManager
) -> None:
    """kafka-python stumbles over it without a word, and would wait for its whole time-out."""
    peer.nonsense = {API_VERSIONS: b"\0\0\x02\0\x03\0\0\0\x04"}
    setup = "socket_connection_setup_timeout"
    for key in ("request_timeout_ms", f"{setup}_ms", f"{setup}_max_ms"):
        manager.config[key] = 600_000
    began = time.monotonic()
    with pytest.raises(KafkaProtocolError, match="cannot be read"):
        connect(manager)
    assert time.monotonic() - began < 60
