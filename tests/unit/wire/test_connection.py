# SPDX-License-Identifier: Apache-2.0
"""A connection to a scripted peer on loopback: whatever happens, every request ends once."""

from __future__ import annotations

import errno
import math
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest

from sparkmirror.errors import LossKind, UnsupportedVersionError
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.wire_requests import Outcome, RecordingOwner, run_until
from support.manual_clock import WIRE, ManualClock
from support.waiting import PATIENCE_SECONDS

LOOPBACK = "127.0.0.1"
FAR = "sparkmirror.wire.connection._HIGH_LATENCY_SECONDS"
SETTINGS = ConnectionSettings("b", (), "test", PATIENCE_SECONDS, PATIENCE_SECONDS)
Script = Callable[[socket.socket], None]


def api_versions(correlation_id: int = 1) -> bytes:
    """The frame that answers the first request."""
    key = ApiVersionsResponse.ApiVersion
    message = ApiVersionsResponse(
        error_code=0, api_keys=[key(api_key=3, min_version=0, max_version=12)]
    )
    body = struct.pack(">i", correlation_id) + bytes(message.encode(version=0))
    return struct.pack(">i", len(body)) + body


def read_frame(peer: socket.socket) -> bytes:
    """One request."""
    size = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))[0]
    return peer.recv(size, socket.MSG_WAITALL)


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late on loopback too; the scripts here expect one question only."""
    monkeypatch.setattr(FAR, float("inf"))


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    """A loop that the test turns."""
    made = EventLoop()
    yield made
    made.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Address]]:
    """A function that runs a script against the first connection to a fresh port."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def begin(script: Script) -> Address:
        listener = socket.create_server((LOOPBACK, 0))
        listener.settimeout(PATIENCE_SECONDS)
        listeners.append(listener)

        def run() -> None:
            try:
                peer, _where = listener.accept()
            except TimeoutError:
                return  # nobody came: the test says so
            with peer:
                peer.settimeout(PATIENCE_SECONDS)
                script(peer)

        thread = threading.Thread(target=run)
        thread.start()
        threads.append(thread)
        return Address(LOOPBACK, listener.getsockname()[1])

    yield begin
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    for listener in listeners:
        listener.close()


@pytest.fixture
def closed_port() -> Iterator[Address]:
    """A port that is ours and on which nobody listens."""
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        yield Address(LOOPBACK, sock.getsockname()[1])


def ask(loop: EventLoop, address: Address, requests: int = 1) -> list[Outcome]:
    """Open a connection, send requests, wait for the end of all."""
    connection = BrokerConnection(loop, SETTINGS, address)
    outcomes = [Outcome() for _ in range(requests)]
    for outcome in outcomes:
        outcome.send(connection)
    run_until(loop, lambda: all(outcome.is_over for outcome in outcomes))
    connection.close("the test is over")
    assert all(len(one.replies) + len(one.failures) == 1 for one in outcomes)
    return outcomes


def test_replies_come_in_the_order_of_the_requests(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    """Even when the peer answers all at once."""

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        asked = [read_frame(peer)[4:8] for _ in range(3)]
        peer.sendall(
            b"".join(struct.pack(">i", 6) + one + b"%02d" % at for at, one in enumerate(asked))
        )
        peer.recv(1)

    outcomes = ask(loop, serve(script), 3)

    assert [one.replies[0][4:] for one in outcomes] == [b"00", b"01", b"02"]


def test_a_peer_that_hangs_up_fails_everything_that_waits(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    """Once each, with the cluster and the broker in the sentence."""

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        read_frame(peer)

    address = serve(script)
    for outcome in ask(loop, address, 3):
        assert f"cluster 'b': broker {address}" in str(outcome.failures[0])


def test_a_peer_that_hangs_up_before_it_is_ready_fails_everything_too(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    """What was queued for later fails as well."""
    outcomes = ask(loop, serve(lambda _peer: None), 2)

    assert all(outcome.failures for outcome in outcomes)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is a Kafka listener"),
        (struct.pack(">ii", 4, 99), "unexpected correlation id"),
    ],
)
def test_a_peer_with_another_protocol_is_disconnected(
    loop: EventLoop, serve: Callable[[Script], Address], answer: bytes, reason: str
) -> None:
    """Nothing is guessed."""

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(answer)
        peer.recv(1)

    (outcome,) = ask(loop, serve(script))

    assert reason in str(outcome.failures[0])


def test_an_answer_that_cannot_be_read_fails_its_request(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    """Once, and those behind it too: the connection is closed, the loop continues."""

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        asked = read_frame(peer)[4:8]
        peer.sendall(struct.pack(">i", 9) + asked + b"\xff" * 5)
        peer.recv(1)

    outcome, behind = Outcome(), Outcome()
    connection = BrokerConnection(loop, SETTINGS, serve(script))
    connection.when_ready(
        lambda: connection.request(
            MetadataRequest(topics=None), outcome.replies.append, outcome.failures.append, newest=12
        ),
        outcome.failures.append,
    )
    behind.send(connection)
    run_until(loop, lambda: outcome.is_over and behind.is_over)

    assert (len(outcome.failures), len(behind.failures)) == (1, 1)
    assert "as MetadataResponse version 12" in str(outcome.failures[0])
    assert connection.closed


def test_a_silent_peer_is_given_up(loop: EventLoop, serve: Callable[[Script], Address]) -> None:
    """After the time allowed for opening."""
    gone = threading.Event()
    connection = BrokerConnection(
        loop,
        replace(SETTINGS, connect_timeout_seconds=0.2),
        serve(lambda _peer: gone.wait(PATIENCE_SECONDS) and None),
    )
    outcome = Outcome()
    outcome.send(connection)

    run_until(loop, lambda: outcome.is_over)
    gone.set()

    assert "no response within 0.2 s" in str(outcome.failures[0])


def _close_at_once(_peer: socket.socket) -> None:
    pass


def _answer_and_close(peer: socket.socket) -> None:
    for correlation_id in (1, 2):
        read_frame(peer)
        peer.sendall(api_versions(correlation_id))
    read_frame(peer)


@pytest.mark.parametrize(
    ("script", "kind"), [(_close_at_once, LossKind.SILENT), (_answer_and_close, LossKind.LOST)]
)
def test_a_failure_distinguishes_silence_from_loss(
    loop: EventLoop, serve: Callable[[Script], Address], script: Script, kind: LossKind
) -> None:
    *_, outcome = ask(loop, serve(script), 2)
    assert outcome.failures[0].kind is kind


def test_a_closed_port_is_unreachable(loop: EventLoop, closed_port: Address) -> None:
    (outcome,) = ask(loop, closed_port)
    assert outcome.failures[0].kind is LossKind.UNREACHABLE
    assert outcome.failures[0].address == str(closed_port)


def test_a_request_may_have_its_own_timeout(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        read_frame(peer)
        peer.recv(1)

    connection = BrokerConnection(loop, SETTINGS, serve(script))
    assert connection.seconds_left(0.0) > 0
    run_until(loop, lambda: bool(connection.api_versions))
    assert connection.seconds_left(0.0) == math.inf
    outcome = Outcome()
    connection.request(
        MetadataRequest(topics=None),
        outcome.replies.append,
        outcome.failures.append,
        newest=12,
        timeout_seconds=1000.0,
    )
    now = time.monotonic()
    assert 900 < connection.seconds_left(now) <= 1000
    connection.check_timeout(now + 900)
    assert not outcome.is_over
    connection.check_timeout(now + 1100)
    assert "no response within 1000 s" in str(outcome.failures[0])


def test_a_version_range_that_the_broker_lacks_is_an_error(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        peer.recv(1)

    connection = BrokerConnection(loop, SETTINGS, serve(script))
    run_until(loop, lambda: bool(connection.api_versions))
    assert connection.negotiated_version(3, 99) == 12
    for api_key, oldest in ((3, 13), (4, 0)):
        with pytest.raises(UnsupportedVersionError, match=f"API {api_key}"):
            connection.negotiated_version(api_key, 99, oldest)
    connection.close("the test is over")


def test_a_request_without_reply_closes_the_connection(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    """When somebody looks after its deadline."""

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        read_frame(peer)
        peer.recv(1)

    connection = BrokerConnection(loop, SETTINGS, serve(script))
    outcome = Outcome()
    outcome.send(connection)
    run_until(loop, lambda: connection.in_flight == 1 and bool(connection.api_versions))

    connection.check_timeout(0.0)
    assert not outcome.is_over
    connection.check_timeout(float("inf"))

    assert "got no response" in str(outcome.failures[0])


def test_an_idle_connection_is_closed(loop: EventLoop, serve: Callable[[Script], Address]) -> None:
    """Not while a request is on its way, and never if there is no limit."""

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        peer.recv(1)

    patient = BrokerConnection(loop, SETTINGS, serve(script))
    run_until(loop, lambda: bool(patient.api_versions))
    patient.check_idle(float("inf"))
    assert not patient.closed

    connection = BrokerConnection(loop, replace(SETTINGS, max_idle_seconds=5.0), serve(script))
    connection.check_idle(float("inf"))
    assert not connection.closed, "it is being opened"
    run_until(loop, lambda: bool(connection.api_versions))
    last_used_at = max(connection._used_at, connection._received_at)
    connection.check_idle(last_used_at + 4.9)
    assert not connection.closed
    connection.check_idle(last_used_at + 5.1)
    assert connection.closed
    patient.close("the test is over")


def test_a_refused_connection_fails_what_was_queued(loop: EventLoop, closed_port: Address) -> None:
    """With the reason of the operating system."""
    (outcome,) = ask(loop, closed_port)

    assert "ECONNREFUSED" in str(outcome.failures[0])


def test_every_address_of_a_name_is_tried(
    loop: EventLoop,
    serve: Callable[[Script], Address],
    closed_port: Address,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one refuses, the second one answers."""

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        peer.sendall(struct.pack(">i", 4) + read_frame(peer)[4:8])
        peer.recv(1)

    found = [_resolved(closed_port), _resolved(serve(script))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: list(found))

    (outcome,) = ask(loop, Address("broker.example", 9092))

    assert outcome.replies


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_addresses_that_all_fail_are_one_failure(
    loop: EventLoop, closed_port: Address, monkeypatch: pytest.MonkeyPatch, family: int
) -> None:
    """Also when the last one fails at once, in the kernel, rather than by a refusal."""
    nowhere = ("192.0.2.1", 9) if family == socket.AF_INET else ("2001:db8::1", 9, 0, 0)
    found = [_resolved(closed_port), (family, socket.SOCK_STREAM, 0, "", nowhere)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: list(found))
    real = socket.socket.connect_ex

    def connect_ex(self: socket.socket, where: Any) -> int:
        return errno.ENETUNREACH if where == nowhere else real(self, where)

    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex)

    (outcome,) = ask(loop, Address("broker.example", 9092))

    assert "ENETUNREACH" in str(outcome.failures[0])


def test_events_for_a_closed_connection_are_ignored(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    """Another callback of the same turn may have closed it."""
    connection = BrokerConnection(loop, SETTINGS, serve(lambda _peer: None))
    connection.close("closed by another callback")

    connection.on_ready(selectors.EVENT_READ | selectors.EVENT_WRITE)

    assert connection.closed


def test_a_closed_connection_fails_requests_at_once(
    loop: EventLoop, serve: Callable[[Script], Address]
) -> None:
    """Nothing is queued for ever."""
    connection = BrokerConnection(loop, SETTINGS, serve(lambda _peer: None))
    connection.close("for a reason")
    outcome = Outcome()
    outcome.send(connection)

    assert outcome.failures


def _resolved(address: Address) -> tuple[Any, ...]:
    return socket.AF_INET, socket.SOCK_STREAM, 0, "", tuple(address)


@pytest.mark.parametrize(
    ("first", "second", "is_far"), [(0.0, 0.0, False), (0.5, 0.0, False), (0.5, 0.5, True)]
)
def test_a_broker_is_far_away_if_it_answers_late_twice(
    loop: EventLoop,
    serve: Callable[[Script], Address],
    monkeypatch: pytest.MonkeyPatch,
    first: float,
    second: float,
    is_far: bool,
) -> None:
    """One that has just begun is late once."""
    monkeypatch.setattr(FAR, 0.3)
    clock = ManualClock(monkeypatch, *WIRE)

    def script(peer: socket.socket) -> None:
        for correlation_id, pause in enumerate((first, second), start=1):
            if not peer.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL):
                return
            read_frame(peer)
            clock.advance(pause)
            peer.sendall(api_versions(correlation_id))
        peer.recv(1)

    connection = BrokerConnection(loop, SETTINGS, serve(script), RecordingOwner())
    run_until(loop, lambda: bool(connection.api_versions) and not connection.in_flight)
    assert connection.is_high_latency is is_far
    connection.close("the test is over")


def test_an_answer_that_is_arriving_is_not_late(
    loop: EventLoop, serve: Callable[[Script], Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one takes longer than the request's time on a slow line."""
    clock = ManualClock(monkeypatch, *WIRE)
    asked, begin, finish = (threading.Event() for _ in range(3))

    def script(peer: socket.socket) -> None:
        read_frame(peer)
        peer.sendall(api_versions())
        read_frame(peer)
        asked.set()
        answer = struct.pack(">ii", 14, 2) + b"x" * 10
        begin.wait(PATIENCE_SECONDS)
        peer.sendall(answer[:9])
        finish.wait(PATIENCE_SECONDS)
        peer.sendall(answer[9:])

    connection = BrokerConnection(loop, SETTINGS, serve(script))
    outcome = Outcome()
    outcome.send(connection)
    run_until(loop, asked.is_set)
    clock.advance(1.0)
    began = clock.monotonic()
    begin.set()
    run_until(loop, lambda: connection._received_at == began)
    connection.check_timeout(began + SETTINGS.request_timeout_seconds - 0.5)
    assert not outcome.failures
    finish.set()
    run_until(loop, lambda: outcome.is_over)
    assert [frame[4:] for frame in outcome.replies] == [b"x" * 10]
    connection.close("the test is over")
