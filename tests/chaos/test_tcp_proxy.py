# SPDX-License-Identifier: Apache-2.0
"""The TCP proxy of the chaos suite behaves like a network."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from support.peers.tcp_proxy import HOST, NetworkLink
from support.waiting import PATIENCE_SECONDS, eventually

A_WHILE = 0.3


class Broker:
    """Echoes every chunk in upper case and stores what it received."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self.received = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with closing(connection):
            try:
                while data := connection.recv(65536):
                    self.received += data
                    connection.sendall(data.upper())
            except OSError:
                return

    def close(self) -> None:
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    found = Broker()
    yield found
    found.close()


@pytest.fixture
def line() -> Iterator[NetworkLink]:
    """A link without faults."""
    with NetworkLink("test") as found:
        yield found


@pytest.fixture
def client(line: NetworkLink, broker: Broker) -> Iterator[socket.socket]:
    """A client that has exchanged one message with the broker."""
    port = line.proxy(lambda: broker.port)
    with closing(socket.create_connection((HOST, port), PATIENCE_SECONDS)) as connection:
        connection.sendall(b"hello ")
        assert connection.recv(100) == b"HELLO "
        yield connection


def silent(client: socket.socket) -> bool:
    """Whether nothing is received for a while."""
    client.settimeout(A_WHILE)
    try:
        client.recv(100)
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE_SECONDS)
    return False


def ask(port: int) -> bytes:
    """Connect and wait for a response."""
    with closing(socket.create_connection((HOST, port), PATIENCE_SECONDS)) as client:
        return client.recv(100)


def test_requests_that_are_held_arrive_when_the_line_heals(
    line: NetworkLink, broker: Broker, client: socket.socket
) -> None:
    line.cut(to_broker=True, to_client=False)
    client.sendall(b"late")
    assert silent(client)
    assert broker.received == b"hello "
    line.heal()
    assert client.recv(100) == b"LATE"


def test_replies_can_be_held_while_requests_pass(
    line: NetworkLink, broker: Broker, client: socket.socket
) -> None:
    line.cut(to_broker=False, to_client=True)
    client.sendall(b"done")
    eventually(lambda: broker.received == b"hello done", PATIENCE_SECONDS, "it took effect")
    assert silent(client)
    line.heal()
    assert client.recv(100) == b"DONE"


def test_what_a_client_sent_before_it_gave_up_arrives_all_the_same(
    line: NetworkLink, broker: Broker, client: socket.socket
) -> None:
    """Like bytes in a kernel buffer: the late request of a zombie."""
    line.cut(to_broker=True, to_client=False)
    client.sendall(b"zombie" * 10_000)
    client.close()
    line.heal()
    eventually(
        lambda: broker.received == b"hello " + b"zombie" * 10_000, PATIENCE_SECONDS, "all arrives"
    )
    eventually(lambda: line.connections == 0, PATIENCE_SECONDS, "the connection ends")


def test_a_torn_line_loses_what_is_on_the_way(
    line: NetworkLink, broker: Broker, client: socket.socket
) -> None:
    """Connections are reset; new ones work after the line has healed."""
    line.cut(to_broker=True, to_client=True)
    client.sendall(b"lost")
    line.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(100)
    line.heal()
    with closing(
        socket.create_connection((HOST, line.proxy(lambda: broker.port)), PATIENCE_SECONDS)
    ) as other:
        other.sendall(b"again")
        assert other.recv(100) == b"AGAIN"
    assert broker.received == b"hello again"


def test_a_slow_line_delays_both_ways(line: NetworkLink, client: socket.socket) -> None:
    line.slow(to_broker=0.6, to_client=0.3)
    began = time.monotonic()
    client.sendall(b"slow")
    assert client.recv(100) == b"SLOW"
    assert time.monotonic() - began >= 0.9
    line.slow(to_broker=2 * PATIENCE_SECONDS, to_client=2 * PATIENCE_SECONDS)
    client.sendall(b"fast")
    line.heal()
    assert client.recv(100) == b"FAST"  # and there is a limit to waiting for it


def test_a_window_bounds_what_a_slow_line_carries(line: NetworkLink, client: socket.socket) -> None:
    size = 200_000
    line.slow(to_broker=0.05, to_client=0.05)
    took = []
    for window in (size, 50_000):
        line.limit(window)
        began = time.monotonic()
        client.sendall(b"x" * size)
        received = 0
        while received < size:
            received += len(client.recv(size))
        took.append(time.monotonic() - began)
    assert took[0] > 0.1  # two ways
    assert took[1] > 0.4  # three more round trips until the last of it is on its way


def test_a_broker_that_is_not_there_is_a_broken_connection(
    line: NetworkLink, broker: Broker
) -> None:
    port = line.proxy(lambda: broker.port)
    broker.close()
    with pytest.raises(ConnectionResetError):
        ask(port)


def test_an_unbounded_amount_is_not_held(line: NetworkLink, client: socket.socket) -> None:
    """A sender must block after a while, as with a real network."""
    line.cut(to_broker=True, to_client=False)
    client.settimeout(A_WHILE)
    with pytest.raises(TimeoutError):
        client.sendall(b"." * 50_000_000)
