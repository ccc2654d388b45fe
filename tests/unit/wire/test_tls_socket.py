# SPDX-License-Identifier: Apache-2.0
"""What goes into a TLS socket comes out on the other side, whatever the cuts."""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import Secret
from sparkmirror.security.error_hints import tls_error_hint
from sparkmirror.security.settings import SecurityProtocol, SecuritySettings, TlsSettings
from sparkmirror.security.tls import server_context
from sparkmirror.wire.frames import SCRATCH_BYTES
from sparkmirror.wire.tls_socket import RECORD_BYTES, TlsSocket
from support.data.certificates import Authority
from support.waiting import PATIENCE_SECONDS

AUTHORITY = Authority("of this test")
OWN = AUTHORITY.identity()
SERVER = server_context(
    TlsSettings(trusted=AUTHORITY.pem, chain=OWN.chain, key=Secret(OWN.key)), "none"
)
CLIENT = TlsSettings(trusted=AUTHORITY.pem)
SIZES = st.lists(
    st.one_of(
        st.integers(1, 200),
        st.integers(RECORD_BYTES - 2, RECORD_BYTES + 2),
        st.integers(1, 20 * RECORD_BYTES),
    ),
    min_size=1,
    max_size=30,
)


@contextmanager
def pair(host: str = "localhost") -> Iterator[tuple[TlsSocket, ssl.SSLSocket]]:
    """Both ends, hands shaken; sockets with little room, so that sending gets stuck."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    theirs.settimeout(PATIENCE_SECONDS)
    accepted: list[ssl.SSLSocket] = []
    thread = threading.Thread(
        target=lambda: accepted.append(SERVER.wrap_socket(theirs, server_side=True))
    )
    thread.start()
    sock = TlsSocket(ours, CLIENT, host)
    while events := sock.do_handshake():
        wait(sock, events)
    thread.join(PATIENCE_SECONDS)
    with accepted[0] as peer:
        yield sock, peer
        sock.close()


def wait(sock: TlsSocket, events: int) -> None:
    """Until something can be done."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, events)
        assert selector.select(PATIENCE_SECONDS)


def bodies(sizes: list[int]) -> list[bytes]:
    """Buffers that can be distinguished."""
    return [bytes([number % 251]) * size for number, size in enumerate(sizes)]


def test_a_name_may_end_with_a_dot() -> None:
    """As absolute names do; no certificate is made out to such a one."""
    with pair("localhost.") as (sock, peer):
        sock.sendmsg([b"x"])
        assert peer.recv(1) == b"x"


@settings(max_examples=25, deadline=None)
@given(sizes=SIZES, gathered=st.integers(1, 8))
def test_what_is_sent_arrives(sizes: list[int], gathered: int) -> None:
    """In order, also when there is no room and the send is repeated with more behind it."""
    sent = bodies(sizes)
    total = sum(sizes)
    received = bytearray()
    with pair() as (sock, peer):

        def read() -> None:
            while len(received) < total:
                received.extend(peer.recv(50_000))

        thread = threading.Thread(target=read)
        thread.start()
        queue: list[memoryview] = [memoryview(one) for one in sent]
        while queue:
            try:
                done = sock.sendmsg(queue[:gathered])
            except BlockingIOError:
                wait(sock, selectors.EVENT_WRITE)
                gathered += 1
                continue
            while done:
                taken = min(done, len(queue[0]))
                done -= taken
                queue[0] = queue[0][taken:]
                if not queue[0]:
                    queue.pop(0)
        thread.join(PATIENCE_SECONDS)

    assert bytes(received) == b"".join(sent)


@settings(max_examples=25, deadline=None)
@given(sizes=SIZES, room=st.integers(100, SCRATCH_BYTES))
def test_what_arrives_is_read_to_its_end(sizes: list[int], room: int) -> None:
    """A space that was not filled means that nothing is left, also inside of OpenSSL."""
    sent = bodies(sizes)
    total = sum(sizes)
    received = bytearray()
    with pair() as (sock, peer):
        thread = threading.Thread(target=lambda: [peer.sendall(one) for one in sent])
        thread.start()
        space = memoryview(bytearray(room))
        while len(received) < total:
            wait(sock, selectors.EVENT_READ)
            while True:
                try:
                    size = sock.recv_into(space)
                except BlockingIOError:
                    break
                received += space[:size]
                if size < room:
                    break
        thread.join(PATIENCE_SECONDS)

    assert bytes(received) == b"".join(sent)


def test_the_end_is_reported_after_earlier_reports() -> None:
    """As a socket does."""
    with pair() as (sock, peer):
        peer.sendall(b"last")
        peer.shutdown(socket.SHUT_RDWR)
        space = memoryview(bytearray(100))
        wait(sock, selectors.EVENT_READ)
        assert sock.recv_into(space) == 4
        assert sock.recv_into(space) == 0


def test_why_the_peer_hung_up_is_known_also_to_who_was_writing() -> None:
    """With TLS 1.3 a client has started to send before it hears that its certificate is missing."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    demanding = server_context(
        TlsSettings(trusted=AUTHORITY.pem, chain=OWN.chain, key=Secret(OWN.key)), "required"
    )

    def refuse() -> None:
        with theirs, suppress(ssl.SSLError):
            demanding.wrap_socket(theirs, server_side=True)

    thread = threading.Thread(target=refuse)
    thread.start()
    sock = TlsSocket(ours, CLIENT, "localhost")
    while events := sock.do_handshake():
        wait(sock, events)
    thread.join(PATIENCE_SECONDS)
    with pytest.raises((ssl.SSLEOFError, BrokenPipeError)) as written:
        sock.sendmsg([b"a request"])
    words = sock.peer_error()
    sock.close()

    security = SecuritySettings(SecurityProtocol.SSL, CLIENT)
    assert tls_error_hint(written.value, "b:1", security) == ""
    assert words is not None
    assert "requires a client certificate" in tls_error_hint(words, "b:1", security)
