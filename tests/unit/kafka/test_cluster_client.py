# SPDX-License-Identifier: Apache-2.0
"""A blocking client: retries, messages for users, and calls that another thread ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from sparkmirror.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    LossKind,
    UnreachableError,
    UnsupportedVersionError,
)
from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, ClusterClient
from sparkmirror.model import Secret, TopicPartition
from sparkmirror.security.settings import (
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
)
from sparkmirror.wire import connection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings
from support.peers.scripted_cluster import METADATA, NODE, DelayedResponse, ScriptedCluster
from support.peers.secure_broker import AUTHENTICATE, SecureBroker
from support.waiting import PATIENCE_SECONDS, eventually


def ask_one_that_died() -> None:
    """A broker that is still listed."""
    raise ConnectionLostError(
        "ECONNREFUSED", cluster="far", address="127.0.0.1:1", kind=LossKind.UNREACHABLE
    )


def far(connect_timeout_seconds: float) -> ConnectionSettings:
    """A cluster out of reach."""
    return ConnectionSettings(
        "far", ("127.0.0.1:1",), "t", connect_timeout_seconds=connect_timeout_seconds
    )


def test_an_unreachable_cluster_is_retried_until_the_connect_timeout() -> None:
    """Then it is an error."""
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="'far'"):
        ClusterClient(far(0.6)).retry("describing topics", ask_one_that_died)
    assert time.monotonic() - began > 0.6 - 2 * PAUSE_SECONDS


def test_stopping_does_not_wait_for_an_unreachable_cluster() -> None:
    """Though connecting may take an hour."""
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="'far'"):
        ClusterClient(far(3600.0), stop).retry("describing topics", ask_one_that_died)
    assert time.monotonic() - began < 60


def test_a_closed_bootstrap_port_fails_at_once() -> None:
    """It is not tried again: the address is likely wrong."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        servers = (f"127.0.0.1:{sock.getsockname()[1]}",)
        client = ClusterClient(ConnectionSettings("a", servers, "t", connect_timeout_seconds=600.0))
        with pytest.raises(UnreachableError, match=r"'a' cannot be reached at .*connecting"):
            client.retry("looking", lambda: client.metadata([]))


class Scripted:
    """A client of a scripted cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = ScriptedCluster("a", ["t"])
        self.connects = 0
        monkeypatch.setattr(connection, "open_socket", self._connect)
        self.client = self.new_client()

    def new_client(self, **changes: Any) -> ClusterClient:
        host, port = self.cluster.address
        settings = ConnectionSettings("a", (f"{host}:{port}",), "test", **changes)
        return ClusterClient(settings, make_loop=self._make_loop)

    def _make_loop(self) -> EventLoop:
        loop = EventLoop()
        for line in self.cluster._lines:  # of a client that was closed with its loop
            line._socket.close()
        self.cluster._lines.clear()
        self.cluster._loop = loop
        return loop

    def _connect(self, _settings: ConnectionSettings, addresses: list[Any]) -> Any:
        self.connects += 1
        addresses.pop(0)
        return self.cluster.connect()

    def delay(self, seconds: float) -> None:
        """Answer metadata requests about topics after a pause."""
        serve = self.cluster.serve

        def delayed(key: int, request: Any, version: int) -> Any:
            answer = serve(key, request, version)
            if key == METADATA and request.topics:
                return DelayedResponse(seconds, lambda: answer, ends_early=False)
            return answer

        self.cluster.serve = delayed  # type: ignore[method-assign]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    made = Scripted(monkeypatch)
    yield made
    made.client.close()
    for line in made.cluster._lines:
        line._socket.close()


def test_leaders_are_found_for_partitions(scripted: Scripted) -> None:
    known, missing = TopicPartition("t", 0), TopicPartition("u", 0)
    assert scripted.client.partitions_by_leader([known, missing]) == ({NODE: [known]}, {missing: 3})
    assert scripted.connects == 1


def test_addresses_and_versions_are_known_per_broker(scripted: Scripted) -> None:
    addresses = scripted.client.addresses()
    assert {node: tuple(one) for node, one in addresses.items()} == {NODE: scripted.cluster.address}
    assert scripted.client.api_versions(NODE)[METADATA] == (0, 12)


@pytest.mark.parametrize("end", [ClusterClient.close, ClusterClient.interrupt])
def test_another_thread_ends_a_call(
    scripted: Scripted, end: Callable[[ClusterClient], None]
) -> None:
    """After `close` the next call works, after `interrupt` none does."""
    client = scripted.client
    client.metadata([])
    scripted.delay(1000.0)
    threading.Timer(0.2, end, (client,)).start()
    with pytest.raises(UnreachableError, match="was closed"):
        client.retry("looking", lambda: client.metadata(["t"]))
    if end is ClusterClient.close:
        assert client.metadata([]).brokers
    else:
        with pytest.raises(UnreachableError, match="was closed"):
            client.metadata([])


def test_an_idle_client_is_closed_and_connects_again(scripted: Scripted) -> None:
    client = scripted.new_client(max_idle_seconds=0.1)
    with closing(client):
        assert client.metadata([])
        eventually(lambda: client._session is None, PATIENCE_SECONDS, "it is closed")
        assert client.metadata([])
    assert scripted.connects == 2


def test_other_settings_are_used_with_the_next_request(scripted: Scripted) -> None:
    scripted.client.metadata([])
    scripted.client.update_connection(scripted.client.connection)
    scripted.client.metadata([])
    assert scripted.connects == 2


def test_a_missing_version_is_a_broker_error(scripted: Scripted) -> None:
    def step() -> None:
        raise UnsupportedVersionError("API 60", api_key=60)

    with pytest.raises(BrokerError) as caught:
        scripted.client.retry("describing producers", step)
    assert caught.value.code == 35
    assert not caught.value.retriable


def test_a_refused_login_names_the_clusters_alias() -> None:
    """Every client of the process gets the reason; the password is sent once."""
    sasl = SaslSettings(SaslMechanism.PLAIN, "me", Secret("wrong"))
    security = SecuritySettings(SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    with SecureBroker(login=b"\0me\0right") as peer:
        for alias in ("b", "c"):
            settings = ConnectionSettings(alias, (str(peer.address),), "t", security=security)
            client = ClusterClient(settings)
            words = rf"Cluster '{alias}': {peer.address} refused the login .*\.$"
            with pytest.raises(AuthenticationError, match=words) as caught:
                client.retry("looking", lambda client=client: client.metadata([]))
            assert not caught.value.retriable
        assert peer.seen.count(AUTHENTICATE) == 1


def test_a_silent_listener_is_distinguished_from_a_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        servers = (f"127.0.0.1:{listener.getsockname()[1]}",)
        client = ClusterClient(ConnectionSettings("a", servers, "t", connect_timeout_seconds=0.3))
        with pytest.raises(UnreachableError, match=r"accepts connections at .* does not answer"):
            client.retry("looking", lambda: client.metadata([]))


def test_a_tls_listener_is_named_as_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as peer:
                peer.recv(1000)
                peer.sendall(bytes((21, 3, 3, 0, 2, 2, 80)))
                peer.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        servers = (f"127.0.0.1:{listener.getsockname()[1]}",)
        client = ClusterClient(ConnectionSettings("a", servers, "t"))
        with pytest.raises(AuthenticationError, match=r"speaks TLS: security\.protocol must be"):
            client.retry("looking", lambda: client.metadata([]))
