# SPDX-License-Identifier: Apache-2.0
"""kafka-python's connections and a broker that does not let us in."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.kafka import connecting
from sparkmirror.kafka.connecting import TellingManager
from sparkmirror.kafka.failures import refusal
from sparkmirror.kafka.logins import Login
from sparkmirror.model import Secret
from sparkmirror.security.settings import Mechanism, Protocol, SaslSettings, Security
from support.secure_peer import AUTHENTICATE, SecurePeer

RIGHT = b"\0me\0right"
WRONG = "wr0ng-word"
NODE = "bootstrap-0"
SASL = SaslSettings(Mechanism.PLAIN, "me", Secret(WRONG))


@pytest.fixture
def peer() -> Iterator[SecurePeer]:
    """A broker that knows another password."""
    with SecurePeer(login=RIGHT) as made:
        yield made


@pytest.fixture
def manager(peer: SecurePeer) -> Iterator[TellingManager]:
    """The connections of a client with a wrong password."""
    security = Security(Protocol.SASL_PLAINTEXT, sasl=SASL)
    settings = ConnectionSettings("a", (str(peer.address),), "test", security=security)
    net = NetworkSelector()
    made = TellingManager(
        net,
        settings,
        bootstrap_servers=[str(peer.address)],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_oauth_token_provider=Login(SASL),
    )
    client = KafkaNetClient(net=net, manager=made)
    assert [one.node_id for one in made.cluster.bootstrap_brokers()] == [NODE]
    yield made
    client.close()


def connect(manager: TellingManager, node: str | None = NODE) -> None:
    """Try to reach the broker, as any request does."""

    async def attempt() -> None:
        await manager.get_connection(node, refresh_metadata_on_err=False)

    manager.run(attempt)


def fail(manager: TellingManager, node: str | None = NODE) -> str:
    """The broker's words, or what is kept of them."""
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        connect(manager, node)
    return str(caught.value)


def test_a_broker_that_refuses_us_is_left_alone(
    peer: SecurePeer, manager: TellingManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password that is wrong is not sent again and again; who asks meanwhile is told."""
    monkeypatch.setattr(connecting, "FIRST_PAUSE_SECONDS", 0.5)
    for _ in range(20):
        fail(manager)
        fail(manager, None)
    assert peer.seen.count(AUTHENTICATE) == 1
    assert manager.least_loaded_node() is None

    time.sleep(manager.connection_delay(NODE))
    for _ in range(20):
        fail(manager)
    assert peer.seen.count(AUTHENTICATE) == 2
    assert manager.connection_delay(NODE) > 0.6  # the pause grows


def test_who_is_let_in_at_last_is_not_held_up(
    peer: SecurePeer, manager: TellingManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody gave the broker our password."""
    monkeypatch.setattr(connecting, "FIRST_PAUSE_SECONDS", 0.01)
    fail(manager)
    peer.login = f"\0me\0{WRONG}".encode()
    time.sleep(manager.connection_delay(NODE))

    connect(manager)
    assert peer.logins == 1
    assert manager.connection_delay(NODE) == 0


def test_a_password_that_a_broker_repeats_is_not_shown(
    manager: TellingManager, caplog: pytest.LogCaptureFixture
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
        "a", ("b:1",), "test", security=Security(Protocol.SASL_PLAINTEXT, sasl=SASL)
    )
    found = str(refusal(settings, SaslAuthenticationFailedError(f"bad {WRONG}\nof yours")))

    assert "bad [hidden] of yours" in found
