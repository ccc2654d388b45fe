# SPDX-License-Identifier: Apache-2.0
"""Whoever connects and says nothing, or little, keeps nobody out and does not stay."""

from __future__ import annotations

import base64
import http.client
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.config.worker_settings import Listener, RestSettings
from sparkmirror.model import Secret
from sparkmirror.rest import door
from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.basic_auth import BasicAuth
from sparkmirror.rest.door import DoorLimits
from sparkmirror.rest.server import RestServer
from sparkmirror.rest.tracking import Tracking
from sparkmirror.security.tls import client_context
from support.certificates import Authority
from support.memory_worker import MemoryWorker
from support.waiting import eventually

AUTHORITY = Authority()
REST = RestSettings(
    (Listener("http", "127.0.0.1", 0), Listener("https", "127.0.0.1", 0)), tls=AUTHORITY.tls()
)
NOTHING = b""


class Slow(MemoryWorker):
    """Takes its time for a name."""

    def connectors(self) -> list[str]:
        """A moment later."""
        time.sleep(0.9)
        return super().connectors()


class Wordy(MemoryWorker):
    """Has much to say."""

    SIZE = 32 << 20

    def connectors(self) -> list[str]:
        """A name that no buffer of the system holds."""
        return ["a" * self.SIZE]


@pytest.fixture
def served() -> Iterator[Any]:
    """A function that serves with these limits, and gives the two ports."""
    with ExitStack() as stack:

        def serve(
            limits: DoorLimits,
            worker: MemoryWorker | None = None,
            auth: BasicAuth | None = None,
        ) -> tuple[int, ...]:
            options = replace(AppOptions.of(REST, Tracking()), door=limits, auth=auth)
            server = RestServer(REST, options)
            server.start(worker or MemoryWorker())
            stack.callback(server.stop)
            return server.ports

        yield serve


def status(port: int, *, secure: bool = False) -> int:
    """Of an ordinary request."""
    connection = (
        http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=10, context=client_context(AUTHORITY.stranger())
        )
        if secure
        else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    )
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    finally:
        connection.close()


def ask(port: int, request: str) -> str:
    """The beginning of the answer to a request as it stands."""
    with socket.create_connection(("127.0.0.1", port), 10) as opened:
        opened.sendall(request.encode())
        return opened.recv(100).decode()


def test_500_idle_connections_keep_nobody_out(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest ones make room, on both ports, and the log has one line about it."""
    limits = DoorLimits()
    plain, secure = served(limits)
    with caplog.at_level(logging.WARNING, door.__name__), ExitStack() as stack:
        for number in range(500):
            port = (plain, secure)[number % 2]
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        before = time.monotonic()
        assert status(plain) == 200
        assert status(secure, secure=True) == 200
        assert time.monotonic() - before < 5
    lines = [one.getMessage() for one in caplog.records if "makes room" in one.getMessage()]
    assert len(lines) == 1
    assert f"There are {limits.connections} REST connections" in lines[0]


@pytest.mark.parametrize("sent", [NOTHING, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_nobody_loiters(served: Any, sent: bytes) -> None:
    """A silent connection ends, also one that sends a header byte by byte."""
    plain, secure = served(DoorLimits(idle_seconds=1.0))
    for port in (plain, secure):
        with socket.create_connection(("127.0.0.1", port), 10) as stranger:
            stranger.settimeout(0.1)
            began = time.monotonic()
            stranger.sendall(sent)
            is_over = False
            while not is_over:
                assert time.monotonic() - began < 8
                try:
                    is_over = not stranger.recv(100)
                    if sent and not is_over:
                        stranger.sendall(b"a")
                except TimeoutError:
                    if sent and port == plain:
                        stranger.sendall(b"a")
                except OSError:
                    is_over = True


def test_a_body_that_does_not_end_ends(served: Any) -> None:
    """The answer of a request may take long, but not for ever."""
    plain, _ = served(DoorLimits(request_seconds=1.0))
    head = b"PUT /connectors/a/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    with socket.create_connection(("127.0.0.1", plain), 10) as stranger:
        stranger.sendall(head)
        assert stranger.recv(100) == NOTHING


def test_invented_signatures_keep_nobody_out(served: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Neither people with a password nor workers, while strangers announce bodies and wait."""
    limits = DoorLimits(connections=20, idle_seconds=1.5)
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
            one = stack.enter_context(socket.create_connection(("127.0.0.1", plain), 10))
            one.sendall(head.format(12 << 20).encode())
            strangers.append(one)
        assert strangers[0].recv(100).startswith(b"HTTP/1.1 503 ")
        answer = ask(plain, head.format(2) + "[]")
        assert answer.startswith("HTTP/1.1 403 ")  # read, and refused by who checks it
        known = base64.b64encode(b"ann:s3cret").decode()
        head = f"GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {known}\r\n\r\n"
        assert ask(plain, head).startswith("HTTP/1.1 200 ")
        assert strangers[-1].recv(100).startswith(b"HTTP/1.1 503 ")  # its time is up
    assert len([one for one in caplog.records if "is given up" in one.getMessage()]) == 1


def test_who_hangs_up_again_and_again_does_not_fill_the_log(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One line a minute."""
    plain, _ = served(DoorLimits())
    head = b"PUT /connectors/a/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", plain), 10) as stranger:
                stranger.sendall(head)
        eventually(lambda: "left undone" in caplog.text, 5, "a line tells of it")
        assert status(plain) == 200
    assert caplog.text.count("left undone") == 1


def test_slow_answers_are_waited_for(served: Any) -> None:
    """Whoever has asked is not idle; nor is one that asks again and again on one connection."""
    plain, _ = served(DoorLimits(idle_seconds=0.7), Slow())
    connection = http.client.HTTPConnection("127.0.0.1", plain, timeout=10)
    for _ in range(2):
        connection.request("GET", "/connectors")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"[]")
    began = time.monotonic()
    while time.monotonic() - began < 1.6:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
        time.sleep(0.05)
    assert connection.sock is not None
    connection.close()


@pytest.mark.parametrize("secure", [False, True])
def test_whoever_reads_slowly_is_not_idle(served: Any, *, secure: bool) -> None:
    """A large answer comes whole, though it takes longer than a connection may be idle."""
    ports = served(DoorLimits(idle_seconds=0.6), Wordy())
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    opened.settimeout(10)
    opened.connect(("127.0.0.1", ports[secure]))
    if secure:
        context = client_context(AUTHORITY.stranger())
        opened = context.wrap_socket(opened, server_hostname="127.0.0.1")
    with opened:
        opened.sendall(b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        time.sleep(2)
        size = 0
        while chunk := opened.recv(1 << 20):
            size += len(chunk)
    assert size > Wordy.SIZE


def test_a_full_house_of_busy_people_takes_nobody(served: Any) -> None:
    """None of them is shown out; afterwards there is room again."""
    plain, _ = served(DoorLimits(connections=2), Slow())
    busy = [http.client.HTTPConnection("127.0.0.1", plain, timeout=10) for _ in range(2)]
    for one in busy:
        one.request("GET", "/connectors")
    time.sleep(0.3)
    with pytest.raises((OSError, http.client.HTTPException)):
        status(plain)
    assert [one.getresponse().read() for one in busy] == [b"[]", b"[]"]
    for one in busy:
        one.close()
    eventually(lambda: status(plain) == 200, 5, "there is room again")


def test_a_head_that_is_too_large_is_refused(served: Any) -> None:
    """Before it fills the memory; the connection ends."""
    plain, _ = served(DoorLimits())
    with socket.create_connection(("127.0.0.1", plain), 10) as stranger:
        stranger.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 20_000)
        assert stranger.recv(100).startswith(b"HTTP/1.1 400 ")
    assert status(plain) == 200
