# SPDX-License-Identifier: Apache-2.0
"""A peer that enforces the order of a broker: TLS, API versions, SASL authentication, requests.

During authentication it accepts no other request, after the end of a session only a
reauthentication, and no two of them within a second. It closes the connection of a client that
violates a rule and records the violation in `broken_rules`. Every other request is echoed. It
supports PLAIN, or another mechanism with one message each way.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from sparkmirror.wire.dialing import Address

LOOPBACK = "127.0.0.1"
ECHO = 3  # the API whose answer is the request
API_VERSIONS = 18
HANDSHAKE = SaslHandshakeRequest.API_KEY
AUTHENTICATE = SaslAuthenticateRequest.API_KEY
_PATIENCE_SECONDS = 10.0
_SHORTEST_SECONDS = 1.0
_GRACE_SECONDS = 0.3  # a request may have been under way for as long on a busy machine
_CLIENT_ID_AT = 8
_UNSUPPORTED_VERSION = 35
_REFUSED = {"mechanism": 33, "state": 34, "login": 58}


class SecureBroker:
    """Serves any number of connections, each in a thread, until the block ends."""

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        *,
        login: bytes | None = None,  # what PLAIN must say; None: nobody is asked
        mechanism: str = "PLAIN",
        takes: Callable[[bytes], bool] | None = None,  # of another mechanism: whether that will do
        answer: bytes = b"",  # and what is said to it
        session_ms: int = 0,
        pause_seconds: float = 0.0,  # before each answer to an echo
        cuts: tuple[int, ...] = (),  # where such an answer is cut into pieces
        nonsense: dict[int, bytes] | None = None,  # by API key: the body of its answer
        between: Callable[[], None] = lambda: None,  # what happens before each piece but the first
    ) -> None:
        self.login = login
        self.session_ms = session_ms
        self.mechanism = mechanism
        self.takes = takes or (lambda proof: proof == self.login)
        self.answer = answer
        self.proofs: list[bytes] = []  # what those who logged in said
        self.broken_rules: list[str] = []
        self.logins = 0
        self.takes_once = False  # a second login on a connection is refused
        self.seen: list[int] = []  # API keys in the order of arrival
        self._context = context
        self.pause_seconds = pause_seconds
        self.cuts = cuts
        self.between = between
        self.nonsense = nonsense or {}
        self._listener = socket.create_server((LOOPBACK, 0))
        # By the name that is in its certificate.
        self.address = Address("localhost", self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._peers: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(_PATIENCE_SECONDS)
        for peer in self._peers:
            with suppress(OSError):
                socket.socket.shutdown(peer, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_PATIENCE_SECONDS)

    def _begin(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, name="secure-peer")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _where = self._listener.accept()
                peer.settimeout(_PATIENCE_SECONDS)
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # pieces go at once
                self._begin(self._serve, peer)

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError, EOFError):
            if self._context is not None:
                peer = self._context.wrap_socket(peer, server_side=True)
            self._peers.append(peer)
            _Session(self, peer).run()
        peer.close()


class _Session:
    def __init__(self, owner: SecureBroker, peer: socket.socket) -> None:
        self._owner = owner
        self._peer = peer
        self._is_in = owner.login is None
        self._ends_at = float("inf")
        self._renewed_at = -float("inf")

    def run(self) -> None:
        while True:
            frame = self._exactly(struct.unpack(">i", self._exactly(4))[0])
            key, version, correlation = struct.unpack_from(">hhi", frame)
            self._owner.seen.append(key)
            self._answer(key, version, correlation, frame)

    def _answer(self, key: int, version: int, correlation: int, frame: bytes) -> None:
        if key in self._owner.nonsense:
            self._send(correlation, self._owner.nonsense[key])
        elif key == API_VERSIONS:
            self._send(correlation, _versions(version))
        elif key == HANDSHAKE:
            self._shake_hands(correlation, _body(frame, flexible=False))
        elif key == AUTHENTICATE:
            assert version == 2
            self._check(correlation, _body(frame, flexible=True))
        elif not self._is_in:
            self._break("a request before the login, or during one")
        elif time.monotonic() > self._ends_at:
            self._break("a request after the end of the session")
        else:
            time.sleep(self._owner.pause_seconds)
            self._send(correlation, frame[8:], self._owner.cuts)

    def _shake_hands(self, correlation: int, body: bytes) -> None:
        wanted = SaslHandshakeRequest.decode(body, version=1).mechanism
        code = 0 if wanted == self._owner.mechanism else _REFUSED["mechanism"]
        if self._owner.login is None or (self._owner.takes_once and self._is_in):
            code = _REFUSED["state"]
        elif self._is_in:
            if time.monotonic() - self._renewed_at < _SHORTEST_SECONDS:
                self._break("two logins within a second")
            self._renewed_at = time.monotonic()
        self._is_in = False
        message = SaslHandshakeResponse(error_code=code, mechanisms=[self._owner.mechanism])
        self._send(correlation, bytes(message.encode(version=1)))

    def _check(self, correlation: int, body: bytes) -> None:
        proof = bytes(SaslAuthenticateRequest.decode(body, version=2).auth_bytes)
        self._owner.proofs.append(proof)
        is_right = self._owner.takes(proof)
        message = SaslAuthenticateResponse(
            error_code=0 if is_right else _REFUSED["login"],
            error_message=None if is_right else f"Invalid {proof.decode()!r}\nof yours.",
            auth_bytes=self._owner.answer,
            session_lifetime_ms=self._owner.session_ms,
        )
        self._owner.logins += is_right  # before they know
        self._send(correlation, b"\0" + bytes(message.encode(version=2)))
        if not is_right:
            raise EOFError
        self._is_in = True
        if self._owner.session_ms:
            self._ends_at = time.monotonic() + self._owner.session_ms / 1000 + _GRACE_SECONDS

    def _break(self, rule: str) -> None:
        self._owner.broken_rules.append(rule)
        raise EOFError

    def _send(self, correlation: int, body: bytes, cuts: tuple[int, ...] = ()) -> None:
        frame = struct.pack(">ii", 4 + len(body), correlation) + body
        for begin, end in pairwise((0, *cuts, len(frame))):
            if begin:
                self._owner.between()
            self._peer.sendall(frame[begin:end])

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            some = self._peer.recv(size - len(got))
            if not some:
                raise EOFError
            got += some
        return bytes(got)


def _body(frame: bytes, *, flexible: bool) -> bytes:
    (client_size,) = struct.unpack_from(">h", frame, _CLIENT_ID_AT)
    return frame[_CLIENT_ID_AT + 2 + client_size + flexible :]


def _versions(asked: int) -> bytes:
    """Reject newer ApiVersions requests, so that the client uses the oldest version."""
    key = ApiVersionsResponse.ApiVersion
    newest = {ECHO: 12, HANDSHAKE: 1, API_VERSIONS: 0, AUTHENTICATE: 2}
    message = ApiVersionsResponse(
        error_code=_UNSUPPORTED_VERSION if asked else 0,
        api_keys=[
            key(api_key=one, min_version=0, max_version=version) for one, version in newest.items()
        ],
    )
    return bytes(message.encode(version=0))
