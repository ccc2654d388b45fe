# SPDX-License-Identifier: Apache-2.0
"""One TCP connection to one broker: responses arrive in the order of the requests.

Uses kafka-python's codecs, but not its network layer, which copies payload several times (290 MB
per CPU-second; this one reaches 990). Writes use scatter/gather; reads go directly into the buffer
that keeps the payload. `tls_socket` adds TLS. SASL authentication precedes all other requests
(`sasl_authenticator`). Owned by the loop's thread.
"""

from __future__ import annotations

import errno
import math
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from kafka.protocol.metadata import ApiVersionsRequest

from sparkmirror.errors import (
    AuthenticationError,
    ConnectionLostError,
    LossKind,
    UndecodableResponseError,
    UnsupportedVersionError,
    WireError,
)
from sparkmirror.security.error_hints import (
    Refusal,
    no_response_hint,
    tls_error_hint,
    tls_listener_hint,
)
from sparkmirror.wire.dialing import Address, open_socket
from sparkmirror.wire.dns_resolver import (
    CACHED_AFTER_SECONDS,
    RESOLVER,
    DnsResolver,
    Resolution,
    numeric_addresses,
)
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.frames import FrameReader, TlsAlertError
from sparkmirror.wire.responses import decode_response
from sparkmirror.wire.sasl_authenticator import SaslAuthenticator
from sparkmirror.wire.settings import ConnectionSettings
from sparkmirror.wire.tls_socket import TlsSocket

_MAX_GATHERED = 256
_PROGRESS_BYTES = 16 * 1024  # per request timeout: a slower response counts as none
_HIGH_LATENCY_SECONDS = 0.005  # from this round trip on, one request at a time is too slow
_CORRELATION = struct.Struct(">i")
OnResponse = Callable[[memoryview], None]
OnFailure = Callable[[ConnectionLostError], None]


class Traffic:
    """Bytes that connections have received and sent; with TLS, before encryption."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received = 0
        self.sent = 0


class _PendingRequest(NamedTuple):
    correlation_id: int
    reply: OnResponse
    failure: OnFailure
    sent_at: float
    timeout_seconds: float


class ConnectionOwner(Protocol):
    """Receives the events of opening a connection."""

    def on_connection_ready(self, connection: BrokerConnection) -> None:
        """Handle a connection that has authenticated and knows the API versions."""

    def on_connection_refused(self, connection: BrokerConnection, refusal: Refusal) -> None:
        """Handle a failed TLS handshake, login or re-authentication."""

    def on_connection_failed(self, connection: BrokerConnection) -> None:
        """Handle any other failure before the connection was ready."""


class BrokerConnection:
    """Connects and authenticates, then sends the requests queued meanwhile."""

    def __init__(
        self,
        loop: EventLoop,
        settings: ConnectionSettings,
        address: Address,
        owner: ConnectionOwner | None = None,
        *,
        connect_seconds: float | None = None,
        resolver: DnsResolver = RESOLVER,
        traffic: Traffic | None = None,
    ) -> None:
        """`connect_seconds` replaces the connect timeout of the settings."""
        self._traffic = traffic or Traffic()
        self._loop = loop
        self._settings = settings
        self._resolver = resolver
        self.address = address
        self._owner = owner
        self._connect_seconds = connect_seconds or settings.connect_timeout_seconds
        self.api_versions: dict[int, tuple[int, int]] = {}
        self.closed = False
        self.is_high_latency = False
        self._is_open = False
        self._is_late = False  # the first response took longer than _HIGH_LATENCY_SECONDS
        self._began_at = self._used_at = time.monotonic()
        self._sent_at = 0.0
        self._received_at = 0.0
        self._received_bytes = 0  # of an incomplete response, since _received_at
        self._correlation = 0
        self._outgoing: deque[memoryview | bytes | bytearray] = deque()
        self._pending: deque[_PendingRequest] = deque()
        # Held back during re-authentication.
        self._awaiting_authentication: deque[tuple[_PendingRequest, Sequence[Any]]] = deque()
        self._before_ready: list[tuple[Callable[[], None], OnFailure]] = []
        self._reader = FrameReader()
        self._authenticator: SaslAuthenticator | None = None
        self._watched_events = 0
        self._addresses = numeric_addresses(*address)
        self._is_resolving = not self._addresses
        self._socket: socket.socket | TlsSocket = (
            socket.socket() if self._is_resolving else self._dial()  # a placeholder until then
        )
        self._deadline_timer = loop.call_later(self._connect_seconds, self._check_open)
        if self._is_resolving:
            self._resolve()
        self._request_api_versions()

    # --- opening

    def _resolve(self) -> None:
        """Resolve the broker's host name without blocking the loop."""
        loop, resolver = self._loop, self._resolver
        resolver.resolve(
            *self.address, lambda answer: loop.call_soon_threadsafe(lambda: self._resolved(answer))
        )
        if resolver.cached(*self.address):
            loop.call_later(CACHED_AFTER_SECONDS, self._use_cached_addresses)

    def _use_cached_addresses(self) -> None:
        self._resolved(Resolution(self._resolver.cached(*self.address)))

    def _resolved(self, answer: Resolution) -> None:
        if self.closed or not self._is_resolving:
            return
        if not answer.addresses:
            self.close(answer.error, LossKind.UNREACHABLE)
            return
        self._is_resolving = False
        self._addresses = answer.addresses
        self._deadline_timer.cancel()
        self._deadline_timer = self._loop.call_later(self._connect_seconds, self._check_open)
        self._next_address("")

    def _next_address(self, reason: str) -> None:
        if not self._addresses:
            self.close(reason, LossKind.UNREACHABLE)
            return
        self._loop.unwatch(self._socket)
        self._socket.close()
        try:
            self._socket = self._dial()
        except ConnectionLostError as error:
            self.close(error.reason, LossKind.UNREACHABLE)

    def _dial(self) -> socket.socket:
        try:
            sock = open_socket(self._settings, self._addresses)
        except OSError as error:
            raise self._lost(str(error), LossKind.UNREACHABLE) from error
        self._watched_events = selectors.EVENT_WRITE
        self._loop.watch(sock, self._watched_events, self)
        return sock

    def _continue_opening(self) -> None:
        """Handle the result of the TCP connect, or the next step of the TLS handshake."""
        if isinstance(self._socket, socket.socket):
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._next_address(errno.errorcode.get(code, str(code)))
                return
            tls = self._settings.security.tls
            if tls is not None:
                self._loop.unwatch(self._socket)
                self._watched_events = 0
                try:
                    self._socket = TlsSocket(self._socket, tls, self.address.host)
                except ValueError as error:
                    reason = f"TLS cannot be set up: {error}"
                    self._refuse(Refusal(lambda _security: reason))
                    return
        if isinstance(self._socket, TlsSocket):
            events = self._socket.do_handshake()
            if events:
                self._watched_events = events
                self._loop.watch(self._socket, events, self)
                return
        self._is_open = True
        self._sent_at = time.monotonic()
        self._write()

    def _check_open(self) -> None:
        if self.closed or self.api_versions:
            return
        longest = self._connect_seconds
        if self._is_resolving:
            reason = f"the host name was not resolved within {longest:g} s"
            self.close(reason, LossKind.UNREACHABLE)
        elif not self._is_open and self._addresses:
            self._deadline_timer = self._loop.call_later(longest, self._check_open)
            self._next_address("no response")
        elif self._authenticator is not None and self._authenticator.is_computing:
            longest = self._settings.request_timeout_seconds
            if time.monotonic() - self._began_at > longest:
                reason = f"no credentials were available within {longest:g} s"
                self.close(reason, LossKind.NOT_READY)
            else:
                self._deadline_timer = self._loop.call_later(1.0, self._check_open)
        else:
            self._close_with_hint(f"no response within {longest:g} s")

    def _request_api_versions(self) -> None:
        request = ApiVersionsRequest(version=0)  # every broker knows it; no flexible header

        def versions(frame: memoryview) -> None:
            answer = decode_response(request.header.get_response_class(), frame[4:], 0)
            if answer.error_code:
                self.close(f"the broker refused ApiVersions with error {answer.error_code}")
                return
            self._is_late = time.monotonic() - self._sent_at > _HIGH_LATENCY_SECONDS
            known = {  # tolerates a peer that reports negative versions
                key.api_key: (max(key.min_version, 0), key.max_version)
                for key in answer.api_keys or ()
            }
            if self._settings.security.sasl is None:
                self._become_ready(known)
            else:
                self._authenticate(known)

        self._transmit_message(request, versions, lambda _error: None)

    def _authenticate(self, versions: dict[int, tuple[int, int]]) -> None:
        def done() -> None:
            if not self.api_versions:
                self._become_ready(versions)
            while self._awaiting_authentication and not self.closed:
                self._enqueue(*self._awaiting_authentication.popleft())

        self._authenticator = SaslAuthenticator(
            self._loop,
            self._settings.security,
            self.address,
            self._send_authentication,
            done=done,
            refused=self._refuse,
            not_ready=self._on_not_ready,
            lost=self.close,
        )
        self._authenticator.authenticate(versions)

    def _refuse(self, refusal: Refusal) -> None:
        self.close(refusal.explain(self._settings.security), LossKind.REFUSED, refusal=refusal)

    def _on_not_ready(self, error: AuthenticationError) -> None:
        self.close(str(error), LossKind.NOT_READY, retriable=error.retriable)

    def _become_ready(self, versions: dict[int, tuple[int, int]]) -> None:
        self.api_versions = versions
        self._reader.allow_large_frames()
        if self._owner is not None:
            self._owner.on_connection_ready(self)
        pending, self._before_ready = self._before_ready, []
        for send, failure in pending:
            try:
                send()
            except WireError as error:  # fails this request only
                failure(self._lost(str(error)))

    def measure_round_trip(self) -> None:
        """Set `is_high_latency`, with a second request if the first response was slow.

        A broker that has just started is slow only on its first response.
        """
        if not self._is_late:
            return
        self._sent_at = time.monotonic()

        def measure(_frame: memoryview) -> None:
            self.is_high_latency = time.monotonic() - self._sent_at > _HIGH_LATENCY_SECONDS

        self._transmit_message(ApiVersionsRequest(version=0), measure, lambda _error: None)

    # --- sending

    def when_ready(self, send: Callable[[], None], failure: OnFailure) -> None:
        """Call `send` once the connection is ready, or `failure` if it does not open."""
        if self.closed:
            failure(self._lost("the connection is closed"))
        elif self.api_versions:
            send()
        else:
            self._before_ready.append((send, failure))

    def negotiated_version(self, api_key: int, newest: int, oldest: int = 0) -> int:
        """Return the newest version that both sides support; UnsupportedVersionError if none."""
        low, high = self.api_versions.get(api_key, (0, -1))
        version = min(high, newest)
        if version < max(low, oldest):
            raise UnsupportedVersionError(
                f"cluster {self._settings.alias!r}: broker {self.address} does not support "
                f"versions {oldest} to {newest} of API {api_key}",
                api_key=api_key,
            )
        return version

    def request(
        self,
        message: Any,
        reply: Callable[[Any], None],
        failure: OnFailure,
        *,
        newest: int,
        oldest: int = 0,
        timeout_seconds: float | None = None,
    ) -> None:
        """Send a kafka-python message; call `reply` with the decoded response.

        `timeout_seconds` replaces the request timeout of the settings.
        """
        self.request_raw(
            message,
            _decoding(message, reply),
            failure,
            newest=newest,
            oldest=oldest,
            timeout_seconds=timeout_seconds,
        )

    def request_raw(
        self,
        message: Any,
        reply: OnResponse,
        failure: OnFailure,
        *,
        newest: int,
        oldest: int = 0,
        timeout_seconds: float | None = None,
    ) -> None:
        """Send a kafka-python message; call `reply` with the frame of the response."""
        message.API_VERSION = self.negotiated_version(message.API_KEY, newest, oldest)
        self._transmit_message(message, reply, failure, timeout_seconds)

    def _transmit_message(
        self,
        message: Any,
        reply: OnResponse,
        failure: OnFailure,
        timeout_seconds: float | None = None,
    ) -> None:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        message.with_header(correlation_id=self._correlation, client_id=self._settings.client_id)
        encoded = message.encode(framed=True, header=True)
        self._transmit([encoded], reply, failure, timeout_seconds)

    def send_buffers(
        self,
        header: Callable[[int], bytes],
        body: Sequence[Any],
        reply: OnResponse,
        failure: OnFailure,
    ) -> None:
        """Send a request given as buffers; `header` maps a correlation id to the header bytes."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        self._transmit([header(self._correlation), *body], reply, failure)

    def _send_authentication(self, message: Any, reply: Callable[[Any], None]) -> None:
        """Send a SASL message; unlike other requests it is not held back."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        message.with_header(correlation_id=self._correlation, client_id=self._settings.client_id)
        waiting = _PendingRequest(
            self._correlation,
            _decoding(message, reply),
            lambda _error: None,
            time.monotonic(),
            self._settings.request_timeout_seconds,
        )
        self._enqueue(waiting, [message.encode(framed=True, header=True)])

    def _transmit(
        self,
        buffers: Sequence[Any],
        reply: OnResponse,
        failure: OnFailure,
        timeout_seconds: float | None = None,
    ) -> None:
        if self.closed:
            failure(self._lost("the connection is closed"))
            return
        self._used_at = time.monotonic()
        timeout = timeout_seconds or self._settings.request_timeout_seconds
        waiting = _PendingRequest(self._correlation, reply, failure, self._used_at, timeout)
        login = self._authenticator
        if login is not None and (
            login.in_progress or login.is_reauthentication_due(self._used_at)
        ):
            self._awaiting_authentication.append((waiting, buffers))
            if not login.in_progress:
                login.authenticate(self.api_versions)
            return
        self._enqueue(waiting, buffers)

    def _enqueue(self, waiting: _PendingRequest, buffers: Sequence[Any]) -> None:
        self._pending.append(waiting)
        self._outgoing.extend(buffers)
        if self._is_open:
            self._write()

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._pending) + len(self._awaiting_authentication)

    def check_timeout(self, now: float) -> None:
        """Close if the oldest request has timed out; the owner calls this periodically.

        A response that is arriving extends the timeout, because a large one takes long on a slow
        line. It must bring _PROGRESS_BYTES per timeout.
        """
        if self._is_open and self.seconds_left(now) <= 0:
            self.on_ready(selectors.EVENT_READ)  # bytes below the socket's low-water mark
        oldest = self._oldest_request()
        if oldest is not None and not self.closed and self.seconds_left(now) <= 0:
            reason = f"a request got no response within {oldest.timeout_seconds:g} s"
            self.close(reason, hint="Check that the broker is not overloaded or suspended.")

    def seconds_left(self, now: float) -> float:
        """Seconds until the oldest request times out; infinite if there is none."""
        oldest = self._oldest_request()
        if oldest is None:
            return math.inf
        return max(oldest.sent_at, self._received_at) + oldest.timeout_seconds - now

    def _oldest_request(self) -> _PendingRequest | None:
        if self._pending:
            return self._pending[0]
        return self._awaiting_authentication[0][0] if self._awaiting_authentication else None

    def check_idle(self, now: float) -> None:
        """Close an idle connection; the owner calls this periodically.

        Firewalls drop idle connections silently; the next request would wait for its full timeout.
        """
        longest = self._settings.max_idle_seconds
        is_busy = self._pending or self._awaiting_authentication or self._before_ready
        if longest is None or is_busy or now - max(self._used_at, self._received_at) < longest:
            return
        self.close(f"the connection was idle for {longest:g} s")

    # --- the socket

    def on_ready(self, events: int) -> None:
        """Handle socket events; any failure closes the connection and fails its requests."""
        if self.closed:
            return  # by another callback of the same loop iteration
        try:
            if not self._is_open:
                self._continue_opening()
                return
            if events & selectors.EVENT_WRITE:
                self._write()
            if events & selectors.EVENT_READ and not self.closed:
                self._read()
        except OSError as error:
            self._on_socket_error(error)
        except TlsAlertError:
            self._refuse(Refusal(partial(tls_listener_hint, str(self.address))))
        except WireError as error:
            self._close_with_hint(str(error))

    def _on_socket_error(self, error: OSError) -> None:
        security, address = self._settings.security, str(self.address)
        found: OSError = error
        if not tls_error_hint(found, address, security) and isinstance(self._socket, TlsSocket):
            found = self._socket.peer_error() or error
        if tls_error_hint(found, address, security):
            self._refuse(Refusal(partial(tls_error_hint, found, address)))
        else:
            self._close_with_hint(str(error))

    def _close_with_hint(self, reason: str) -> None:
        """Close; if the peer answered ApiVersions at most, hint at a security.protocol mismatch."""
        answered = self._correlation - self.in_flight
        if not self._is_open and not isinstance(self._socket, TlsSocket):
            self.close(reason, LossKind.UNREACHABLE)
        elif answered <= 1:  # ApiVersions needs no authentication
            hint = no_response_hint(self._settings.security)
            self.close(reason, LossKind.SILENT, hint=hint)
        else:
            self.close(reason)

    def _watch(self) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if events != self._watched_events:
            self._watched_events = events
            self._loop.watch(self._socket, events, self)

    def _write(self) -> None:
        outgoing = self._outgoing
        try:
            while outgoing:
                gathered = [outgoing[i] for i in range(min(len(outgoing), _MAX_GATHERED))]
                sent = self._socket.sendmsg(gathered)
                self._traffic.sent += sent
                while sent:
                    head = outgoing[0]
                    if sent < len(head):
                        outgoing[0] = memoryview(head)[sent:]
                        break
                    sent -= len(head)
                    outgoing.popleft()
        except BlockingIOError:
            pass  # the selector reports when the socket is writable
        except OSError as error:
            self._on_socket_error(error)
            return
        self._watch()

    def _read(self) -> None:
        while not self.closed:
            space = self._reader.writable_buffer()
            room = len(space)
            try:
                size = self._socket.recv_into(space)
            except BlockingIOError:
                return
            if not size:
                self._close_with_hint("the broker closed the connection")
                return
            self._traffic.received += size
            frames = self._reader.feed(size)
            self._extend_timeout(size, is_whole=bool(frames))
            for frame in frames:
                self._dispatch(frame)
            if size < room:
                return  # the kernel's buffer is empty

    def _extend_timeout(self, size: int, *, is_whole: bool) -> None:
        """Restart the timeout when a response starts, makes progress or is complete."""
        is_first = not self._received_bytes
        self._received_bytes += size
        is_progress = is_whole or self._received_bytes >= _PROGRESS_BYTES
        if is_progress or is_first:
            self._received_at = time.monotonic()
        if is_progress:
            self._received_bytes = 0

    def _dispatch(self, frame: memoryview) -> None:
        if len(frame) < _CORRELATION.size:
            raise WireError(f"the broker sent a response of {len(frame)} bytes")
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            raise WireError(f"the broker sent an unexpected correlation id {correlation_id}")
        waiting = self._pending.popleft()
        try:
            waiting.reply(frame)
        except UndecodableResponseError:
            self._pending.appendleft(waiting)  # fails when the connection closes
            raise

    def close(
        self,
        reason: str,
        kind: LossKind = LossKind.LOST,
        *,
        hint: str = "",
        retriable: bool = True,
        refusal: Refusal | None = None,
    ) -> None:
        """Close, and fail every outstanding request."""
        if self.closed:
            return
        self.closed = True
        self._deadline_timer.cancel()
        if self._authenticator is not None:
            self._authenticator.cancel()
        self._loop.unwatch(self._socket)
        self._socket.close()
        self._outgoing.clear()
        error = self._lost(reason, kind, hint, refusal.retriable if refusal else retriable)
        waiting, self._pending = self._pending, deque()
        held, self._awaiting_authentication = self._awaiting_authentication, deque()
        pending, self._before_ready = self._before_ready, []
        if self._owner is not None and refusal is not None:
            self._owner.on_connection_refused(self, refusal)
        elif self._owner is not None and not self.api_versions:
            self._owner.on_connection_failed(self)
        for request in waiting:
            request.failure(error)
        for request, _buffers in held:
            request.failure(error)
        for _send, failure in pending:
            failure(error)

    def _lost(
        self, reason: str, kind: LossKind = LossKind.LOST, hint: str = "", retriable: bool = True
    ) -> ConnectionLostError:
        return ConnectionLostError(
            reason,
            cluster=self._settings.alias,
            address=str(self.address),
            kind=kind,
            hint=hint,
            retriable=retriable,
        )


def _decoding(message: Any, reply: Callable[[Any], None]) -> OnResponse:

    def decoded(frame: memoryview) -> None:
        version = message.API_VERSION
        response_class = message.header.get_response_class()
        flexible = response_class.flexible_version_q(version)
        reply(decode_response(response_class, frame[5 if flexible else 4 :], version))

    return decoded
