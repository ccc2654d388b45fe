# SPDX-License-Identifier: Apache-2.0
"""One TCP connection to one broker: requests go out in order, replies come back in order.

Uses kafka-python's codecs, not its network layer, which copies payload several times (290 MB per
CPU-second against 990). Writes are gathered without joining buffers; reads go straight into the
buffer where the payload stays. TLS is a socket of its own (`tls_socket`). SASL authentication comes
before any other request (`sasl_authenticator`). Owned by the loop's thread.
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
_PROGRESS_BYTES = 16 * 1024  # in a request's time: an answer that comes more slowly is none
_HIGH_LATENCY_SECONDS = (
    0.005  # a round trip that makes waiting for an answer before the next request dear
)
_CORRELATION = struct.Struct(">i")
OnResponse = Callable[[memoryview], None]
OnFailure = Callable[[ConnectionLostError], None]


class _PendingRequest(NamedTuple):
    correlation_id: int
    reply: OnResponse
    failure: OnFailure
    sent_at: float
    timeout_seconds: float


class ConnectionOwner(Protocol):
    """What a connection reports its opening to."""

    def on_connection_ready(self, connection: BrokerConnection) -> None:
        """Handle a connection whose API versions are known and whose login is done."""

    def on_connection_refused(self, connection: BrokerConnection, refusal: Refusal) -> None:
        """Handle a failed TLS handshake or login, also a later one."""

    def on_connection_failed(self, connection: BrokerConnection) -> None:
        """Handle a connection that closed before it was ready, for another reason."""


class BrokerConnection:
    """Opens, authenticates if needed, then sends what was queued meanwhile."""

    def __init__(
        self,
        loop: EventLoop,
        settings: ConnectionSettings,
        address: Address,
        owner: ConnectionOwner | None = None,
        *,
        connect_seconds: float | None = None,
        resolver: DnsResolver = RESOLVER,
    ) -> None:
        """`connect_seconds` replaces the connect timeout of the settings."""
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
        self._is_late = False  # the first answer came late
        self._began_at = self._used_at = time.monotonic()
        self._sent_at = 0.0
        self._received_at = 0.0
        self._received_bytes = 0  # of an answer, since then
        self._correlation = 0
        self._outgoing: deque[memoryview | bytes | bytearray] = deque()
        self._pending: deque[_PendingRequest] = deque()
        self._awaiting_authentication: deque[tuple[_PendingRequest, Sequence[Any]]] = (
            deque()
        )  # until we have logged in again
        self._before_ready: list[tuple[Callable[[], None], OnFailure]] = []
        self._reader = FrameReader()
        self._authenticator: SaslAuthenticator | None = None
        self._watched_events = 0
        self._addresses = numeric_addresses(*address)
        self._is_resolving = not self._addresses
        self._socket: socket.socket | TlsSocket = (
            socket.socket() if self._is_resolving else self._dial()  # one that is never connected
        )
        self._deadline_timer = loop.call_later(self._connect_seconds, self._check_open)
        if self._is_resolving:
            self._resolve()
        self._request_api_versions()

    # --- opening

    def _resolve(self) -> None:
        """Look the broker's name up; the loop goes on meanwhile."""
        loop, resolver = self._loop, self._resolver
        resolver.resolve(
            *self.address, lambda answer: loop.call_soon_threadsafe(lambda: self._resolved(answer))
        )
        if resolver.cached(*self.address):
            loop.call_later(CACHED_AFTER_SECONDS, self._use_known_addresses)

    def _use_known_addresses(self) -> None:
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
        """Go on with opening: TCP has connected or failed, or the TLS handshake goes on."""
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
            reason = f"its name was not resolved within {longest:g} s"
            self.close(reason, LossKind.UNREACHABLE)
        elif not self._is_open and self._addresses:
            self._deadline_timer = self._loop.call_later(longest, self._check_open)
            self._next_address("no answer")
        elif (
            self._authenticator is not None and self._authenticator.is_computing
        ):  # not the broker's fault
            longest = self._settings.request_timeout_seconds
            if time.monotonic() - self._began_at > longest:
                reason = f"there was nothing to log in with within {longest:g} s"
                self.close(reason, LossKind.NOT_READY)
            else:
                self._deadline_timer = self._loop.call_later(1.0, self._check_open)
        else:
            self._close_with_hint(f"no answer within {longest:g} s")

    def _request_api_versions(self) -> None:
        request = ApiVersionsRequest(version=0)  # every broker knows it; no flexible header

        def versions(frame: memoryview) -> None:
            answer = decode_response(request.header.get_response_class(), frame[4:], 0)
            if answer.error_code:
                self.close(f"it refused the API version request with error {answer.error_code}")
                return
            self._is_late = time.monotonic() - self._sent_at > _HIGH_LATENCY_SECONDS
            known = {  # there is no version below 0, whatever a peer says
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
            except WireError as error:  # one request that cannot be made fails alone
                failure(self._lost(str(error)))

    def measure_round_trip(self) -> None:
        """Find out whether the broker is far away, if its first answer came late.

        A broker that has just started answers late, too; a second request tells them apart.
        """
        if not self._is_late:
            return
        self._sent_at = time.monotonic()

        def measure(_frame: memoryview) -> None:
            self.is_high_latency = time.monotonic() - self._sent_at > _HIGH_LATENCY_SECONDS

        self._transmit_message(ApiVersionsRequest(version=0), measure, lambda _error: None)

    # --- sending

    def when_ready(self, send: Callable[[], None], failure: OnFailure) -> None:
        """Call `send` once API versions are known, or `failure` if the opening fails."""
        if self.closed:
            failure(self._lost("the connection is closed"))
        elif self.api_versions:
            send()
        else:
            self._before_ready.append((send, failure))

    def negotiated_version(self, api_key: int, newest: int, oldest: int = 0) -> int:
        """The newest version of an API that both sides know; UnsupportedVersionError if none."""
        low, high = self.api_versions.get(api_key, (0, -1))
        version = min(high, newest)
        if version < max(low, oldest):
            raise UnsupportedVersionError(
                f"cluster {self._settings.alias!r} at {self.address} does not speak "
                f"API {api_key} in a version from {oldest} to {newest}",
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
        """Send a kafka-python message and hand over its decoded answer.

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
        """Send a kafka-python message and hand over the raw frame of the answer."""
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
        """Send a request given as buffers; `header` makes frame and request header."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        self._transmit([header(self._correlation), *body], reply, failure)

    def _send_authentication(self, message: Any, reply: Callable[[Any], None]) -> None:
        """A message of the login itself, which does not wait for its own end."""
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
        """Requests that have no reply yet."""
        return len(self._pending) + len(self._awaiting_authentication)

    def check_timeout(self, now: float) -> None:
        """Close when the oldest request has waited too long; the owner calls this at times.

        While its answer is arriving it has not: a large one takes long on a slow line. Who sends it
        byte by byte keeps nobody waiting for ever.
        """
        if self._is_open and self.seconds_left(now) <= 0:
            self.on_ready(
                selectors.EVENT_READ
            )  # what was not worth waking us up for yet counts, too
        oldest = self._oldest_request()
        if oldest is not None and not self.closed and self.seconds_left(now) <= 0:
            self.close(f"a request got no reply in {oldest.timeout_seconds:g} s")

    def seconds_left(self, now: float) -> float:
        """Seconds until the oldest request times out; infinite if none waits."""
        oldest = self._oldest_request()
        if oldest is None:
            return math.inf
        return max(oldest.sent_at, self._received_at) + oldest.timeout_seconds - now

    def _oldest_request(self) -> _PendingRequest | None:
        if self._pending:
            return self._pending[0]
        return self._awaiting_authentication[0][0] if self._awaiting_authentication else None

    def check_idle(self, now: float) -> None:
        """Close when nobody has used it for long; the owner calls this at times.

        Networks forget silent connections without a word, and a request on such a one would wait
        for its whole time-out.
        """
        longest = self._settings.max_idle_seconds
        is_busy = self._pending or self._awaiting_authentication or self._before_ready
        if longest is None or is_busy or now - max(self._used_at, self._received_at) < longest:
            return
        self.close(f"nobody has used it for {longest:g} s")

    # --- the socket

    def on_ready(self, events: int) -> None:
        """React to the socket; any failure closes the connection and fails what was waiting."""
        if self.closed:
            return  # by another callback of the same turn
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
        """The socket or TLS is no good any more."""
        security, address = self._settings.security, str(self.address)
        found: OSError = error
        if not tls_error_hint(found, address, security) and isinstance(self._socket, TlsSocket):
            found = self._socket.peer_error() or error
        if tls_error_hint(found, address, security):
            self._refuse(Refusal(partial(tls_error_hint, found, address)))
        else:
            self._close_with_hint(str(error))

    def _close_with_hint(self, reason: str) -> None:
        """Close; a peer that has said next to nothing may expect another security."""
        answered = self._correlation - self.in_flight
        if not self._is_open and not isinstance(self._socket, TlsSocket):
            self.close(reason, LossKind.UNREACHABLE)
        elif answered <= 1:  # the API versions, which anybody may ask for
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
                while sent:
                    head = outgoing[0]
                    if sent < len(head):
                        outgoing[0] = memoryview(head)[sent:]
                        break
                    sent -= len(head)
                    outgoing.popleft()
        except BlockingIOError:
            pass  # the selector says when there is room again
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
            frames = self._reader.feed(size)
            self._extend_timeout(size, is_whole=bool(frames))
            for frame in frames:
                self._dispatch(frame)
            if size < room:
                return  # the kernel had no more

    def _extend_timeout(self, size: int, *, is_whole: bool) -> None:
        """An answer that begins, comes well or is whole buys time for what waits; drops do not."""
        is_begun = bool(self._received_bytes)
        self._received_bytes += size
        is_worth = is_whole or self._received_bytes >= _PROGRESS_BYTES
        if is_worth or not is_begun:
            self._received_at = time.monotonic()
        if is_worth:
            self._received_bytes = 0

    def _dispatch(self, frame: memoryview) -> None:
        if len(frame) < _CORRELATION.size:
            raise WireError(f"an answer of {len(frame)} bytes arrived")
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            raise WireError(f"an unexpected reply (correlation id {correlation_id}) arrived")
        waiting = self._pending.popleft()
        try:
            waiting.reply(frame)
        except UndecodableResponseError:
            self._pending.appendleft(waiting)  # it fails with the connection
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
        """Close and fail every request that waits."""
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
    """Makes of an answer's frame the message that it holds."""

    def decoded(frame: memoryview) -> None:
        version = message.API_VERSION
        response_class = message.header.get_response_class()
        flexible = response_class.flexible_version_q(version)
        reply(decode_response(response_class, frame[5 if flexible else 4 :], version))

    return decoded
