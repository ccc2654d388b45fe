# SPDX-License-Identifier: Apache-2.0
"""Whoever connects and says nothing, or little, keeps nobody out and does not stay."""

from __future__ import annotations

import asyncio
import base64
import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from starlette.types import Message

from sparkmirror.config.worker_settings import RestListener, RestSettings
from sparkmirror.model import Secret
from sparkmirror.rest import acceptor
from sparkmirror.rest.acceptor import ConnectionLimits
from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.basic_auth import BasicAuth
from sparkmirror.rest.offsets import TopicTrackingPolicy
from sparkmirror.rest.server import RestServer
from sparkmirror.rest.signed_body_limits import SignedBodyReader
from sparkmirror.security.tls import client_context
from support.data.certificates import Authority
from support.peers.memory_worker import MemoryWorker
from support.waiting import PATIENCE_SECONDS, eventually

AUTHORITY = Authority()
REST = RestSettings(
    (RestListener("http", "127.0.0.1", 0), RestListener("https", "127.0.0.1", 0)),
    tls=AUTHORITY.tls(),
)
NOTHING = b""
ENDLESS_SECONDS = 3600.0


class LimitsClock:
    """The clock that the limits are measured with; only the test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 1000.0
        self._reads = 0
        namespace = SimpleNamespace(**vars(asyncio))
        namespace.get_running_loop = lambda: _LoopWithClock(asyncio.get_running_loop(), self)
        monkeypatch.setattr(acceptor, "asyncio", namespace)
        monkeypatch.setattr(acceptor, "_CHECK_SECONDS", 0.01)

    def read(self) -> float:
        """The time that the server sees."""
        self._reads += 1
        return self._now

    def pass_by(self, seconds: float) -> None:
        """Move on, and wait until the server has looked at its connections since."""
        self._now += seconds
        before = self._reads
        eventually(lambda: self._reads > before + 2, PATIENCE_SECONDS, "the server has looked")


class _LoopWithClock:
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: LimitsClock) -> None:
        self._loop = loop
        self.time = clock.read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class Held(MemoryWorker):
    """Answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Semaphore(0)
        self.release = threading.Event()

    def connectors(self) -> list[str]:
        """Much later."""
        self.entered.release()
        assert self.release.wait(PATIENCE_SECONDS)
        return super().connectors()


class Slow(MemoryWorker):
    """Takes longer for an answer than a connection may be idle."""

    def __init__(self, clock: LimitsClock, idle_seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._idle_seconds = idle_seconds

    def connectors(self) -> list[str]:
        """Later."""
        self._clock.pass_by(1.5 * self._idle_seconds)
        return super().connectors()


class Wordy(MemoryWorker):
    """Has much to say."""

    SIZE = 12 << 20

    def connectors(self) -> list[str]:
        """A name that no buffer of the system holds."""
        return ["a" * self.SIZE]


@pytest.fixture
def served() -> Iterator[Any]:
    """A function that serves with these limits, and gives the two ports."""
    with ExitStack() as stack:

        def serve(
            limits: ConnectionLimits,
            worker: MemoryWorker | None = None,
            auth: BasicAuth | None = None,
        ) -> tuple[int, ...]:
            options = replace(
                AppOptions.from_settings(REST, TopicTrackingPolicy()),
                connection_limits=limits,
                auth=auth,
            )
            server = RestServer(REST, options)
            server.start(worker or MemoryWorker())
            stack.callback(server.stop)
            return server.ports

        yield serve


def status(port: int, *, secure: bool = False) -> int:
    """Of an ordinary request."""
    connection = (
        http.client.HTTPSConnection(
            "127.0.0.1",
            port,
            timeout=PATIENCE_SECONDS,
            context=client_context(AUTHORITY.stranger()),
        )
        if secure
        else http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    )
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    finally:
        connection.close()


def connected(port: int) -> socket.socket:
    """A connection that says nothing yet."""
    return socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)


def ask(port: int, request: str) -> str:
    """The beginning of the answer to a request as it stands."""
    with connected(port) as opened:
        opened.sendall(request.encode())
        return opened.recv(100).decode()


def test_500_idle_connections_do_not_block_others(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest ones make room, on both ports, and the log has one line about it."""
    limits = ConnectionLimits(idle_seconds=ENDLESS_SECONDS)
    plain, secure = served(limits)
    with caplog.at_level(logging.WARNING, acceptor.__name__), ExitStack() as stack:
        for number in range(500):
            port = (plain, secure)[number % 2]
            stack.enter_context(connected(port))
        assert status(plain) == 200
        assert status(secure, secure=True) == 200
    lines = [one.getMessage() for one in caplog.records if "closing the one" in one.getMessage()]
    assert len(lines) == 1
    assert f"At the limit of {limits.connections} REST connections" in lines[0]


@pytest.mark.parametrize("sent", [NOTHING, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_slow_clients_are_disconnected(
    served: Any, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent connection ends, also one that sends a header byte by byte."""
    monkeypatch.setattr(acceptor, "_CHECK_SECONDS", 0.05)
    plain, secure = served(ConnectionLimits(idle_seconds=0.3))
    for port in (plain, secure):
        with connected(port) as stranger:
            stranger.settimeout(0.1)
            began = time.monotonic()
            said, is_over = sent, False
            while not is_over:
                assert time.monotonic() - began < PATIENCE_SECONDS
                try:
                    stranger.sendall(said)
                    is_over = not stranger.recv(100)
                except TimeoutError:
                    said = said and b"a"
                except OSError:
                    is_over = True


def test_a_body_that_does_not_end_ends(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a request may take long, but not for ever."""
    monkeypatch.setattr(acceptor, "_CHECK_SECONDS", 0.05)
    plain, _ = served(ConnectionLimits(idle_seconds=ENDLESS_SECONDS, request_seconds=0.3))
    head = b"PUT /connectors/a/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    with connected(plain) as stranger:
        stranger.sendall(head)
        assert stranger.recv(100) == NOTHING


def test_invented_signatures_do_not_block_other_requests(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither people with a password nor workers, while strangers announce bodies and wait."""
    limits = ConnectionLimits(connections=20, idle_seconds=ENDLESS_SECONDS)
    plain, _ = served(limits, auth=BasicAuth({"ann": Secret("s3cret")}))
    signature = base64.b64encode(bytes(32)).decode()
    head = (
        "POST /connectors/x/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n"
        f"X-Connect-Authorization: {signature}\r\n"
        "X-Connect-Request-Signature-Algorithm: HmacSHA256\r\n\r\n"
    )
    with caplog.at_level(logging.WARNING), ExitStack() as stack:
        strangers = []
        for _ in range(limits.connections):
            one = stack.enter_context(connected(plain))
            one.sendall(head.format(12 << 20).encode())
            strangers.append(one)
        assert strangers[0].recv(100).startswith(b"HTTP/1.1 503 ")
        answer = ask(plain, head.format(2) + "[]")
        assert answer.startswith("HTTP/1.1 403 ")  # read, and refused by who checks it
        known = base64.b64encode(b"ann:s3cret").decode()
        head = f"GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {known}\r\n\r\n"
        assert ask(plain, head).startswith("HTTP/1.1 200 ")
    assert len([one for one in caplog.records if "was dropped: " in one.getMessage()]) == 1


def test_a_signed_body_that_does_not_come_is_given_up() -> None:
    """In the time that a connection may be idle."""

    async def receive() -> Message:
        await anyio.sleep(ENDLESS_SECONDS)
        raise AssertionError("given up before")

    bodies = SignedBodyReader(0.05, 1000)
    began = time.monotonic()
    assert anyio.run(bodies.read, receive, "10.0.0.1") is None
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_who_hangs_up_again_and_again_does_not_fill_the_log(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One line a minute."""
    plain, _ = served(ConnectionLimits())
    head = b"PUT /connectors/a/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with connected(plain) as stranger:
                stranger.sendall(head)
        eventually(lambda: "is dropped: " in caplog.text, PATIENCE_SECONDS, "a line tells of it")
        assert status(plain) == 200
    assert caplog.text.count("is dropped: ") == 1


def test_slow_answers_are_waited_for(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has asked is not idle; nor is one that asks again and again on one connection."""
    clock, limits = LimitsClock(monkeypatch), ConnectionLimits()
    plain, _ = served(limits, Slow(clock, limits.idle_seconds))
    connection = http.client.HTTPConnection("127.0.0.1", plain, timeout=PATIENCE_SECONDS)
    connection.connect()
    opened = connection.sock
    for _ in range(2):
        connection.request("GET", "/connectors")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"[]")
    for _ in range(4):
        clock.pass_by(limits.idle_seconds / 2)
        connection.request("GET", "/health")
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    assert connection.sock is opened
    connection.close()


@pytest.mark.parametrize("secure", [False, True])
def test_a_client_that_reads_slowly_is_not_idle(
    served: Any, monkeypatch: pytest.MonkeyPatch, *, secure: bool
) -> None:
    """A large answer comes whole, though it takes longer than a connection may be idle."""
    clock, limits = LimitsClock(monkeypatch), ConnectionLimits()
    ports = served(limits, Wordy())
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    opened.settimeout(PATIENCE_SECONDS)
    opened.connect(("127.0.0.1", ports[secure]))
    if secure:
        context = client_context(AUTHORITY.stranger())
        opened = context.wrap_socket(opened, server_hostname="127.0.0.1")
    with opened:
        opened.sendall(b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        size = len(opened.recv(100))
        for _ in range(3):
            clock.pass_by(1.5 * limits.idle_seconds)
        while chunk := opened.recv(1 << 20):
            size += len(chunk)
    assert size > Wordy.SIZE


def test_a_new_connection_is_rejected_when_all_are_busy(served: Any) -> None:
    """None of them is shown out; afterwards there is room again."""
    worker = Held()
    plain, _ = served(ConnectionLimits(connections=2, idle_seconds=ENDLESS_SECONDS), worker)
    busy = [
        http.client.HTTPConnection("127.0.0.1", plain, timeout=PATIENCE_SECONDS) for _ in range(2)
    ]
    for one in busy:
        one.request("GET", "/connectors")
        assert worker.entered.acquire(timeout=PATIENCE_SECONDS)
    with pytest.raises((OSError, http.client.HTTPException)):
        status(plain)
    worker.release.set()
    assert [one.getresponse().read() for one in busy] == [b"[]", b"[]"]
    for one in busy:
        one.close()

    def has_room() -> bool:
        try:
            return status(plain) == 200
        except (OSError, http.client.HTTPException):
            return False

    eventually(has_room, PATIENCE_SECONDS, "there is room again")


def test_a_head_that_is_too_large_is_refused(served: Any) -> None:
    """Before it fills the memory; the connection ends."""
    plain, _ = served(ConnectionLimits())
    with connected(plain) as stranger:
        stranger.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 20_000)
        assert stranger.recv(100).startswith(b"HTTP/1.1 400 ")
    assert status(plain) == 200
