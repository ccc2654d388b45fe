# SPDX-License-Identifier: Apache-2.0
"""One TCP connection to one broker: requests go out in order, replies come back in order.

kafka-python's own network layer copies payload several times (290 MB per CPU-second against 990);
this class keeps its request and response codecs and replaces the rest: gathered writes without
joining, reads straight into the buffer where the payload stays. TLS stands in for the socket
(`tls_socket`), and who must say who it is does so before anything else (`sasl_login`).
Owned by the loop's thread.
"""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka.protocol.metadata import ApiVersionsRequest

from sparkmirror.errors import (
    AuthenticationError,
    UnreachableError,
    UnreadableAnswerError,
    WireError,
)
from sparkmirror.security.troubles import silence_hint, tls_trouble
from sparkmirror.wire.answers import decode_answer
from sparkmirror.wire.dialer import Address, Dialer
from sparkmirror.wire.frames import FrameReader
from sparkmirror.wire.loop import Loop
from sparkmirror.wire.resolver import PATIENCE_SECONDS, Answer, numeric_places
from sparkmirror.wire.sasl_login import Login
from sparkmirror.wire.tls_socket import TlsSocket

_MAX_GATHERED = 256
_WORTH_BYTES = 16 * 1024  # in a request's time: an answer that comes more slowly is none
_FAR_SECONDS = 0.005  # a round trip that makes waiting for an answer before the next request dear
_CORRELATION = struct.Struct(">i")
Reply = Callable[[memoryview], None]
Failure = Callable[[UnreachableError], None]


class _Waiting(NamedTuple):
    correlation_id: int
    reply: Reply
    failure: Failure
    deadline: float


class Connection:
    """Opens by itself, logs in if need be, then carries whatever was queued meanwhile.

    `on_refused` hears of a broker that does not let us in, or is not whom we expect.
    """

    def __init__(
        self, loop: Loop, dialer: Dialer, address: Address, on_refused: Failure | None = None
    ) -> None:
        self._loop = loop
        self._dialer = dialer
        self.address = address
        self._on_refused = on_refused
        self.api_versions: dict[int, tuple[int, int]] = {}
        self.closed = False
        self.is_far = False
        self._is_open = False
        self._began_at = self._used_at = time.monotonic()
        self._asked_at = 0.0
        self._heard_at = 0.0
        self._heard_bytes = 0  # of an answer, since then
        self._correlation = 0
        self._outgoing: deque[memoryview | bytes | bytearray] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._held: deque[tuple[_Waiting, Sequence[Any]]] = deque()  # until we have logged in again
        self._before_ready: list[tuple[Callable[[], None], Failure]] = []
        self._reader = FrameReader()
        self._login: Login | None = None
        self._watched_events = 0
        self._addresses = numeric_places(*address)
        self._is_resolving = not self._addresses
        self._socket: socket.socket | TlsSocket = (
            socket.socket() if self._is_resolving else self._dial()  # one that is never connected
        )
        self._deadline_timer = loop.call_later(dialer.connect_timeout_seconds, self._check_open)
        if self._is_resolving:
            self._resolve()
        self._ask_versions()

    # --- opening

    def _resolve(self) -> None:
        """Look the broker's name up; the loop goes on meanwhile."""
        loop, resolver = self._loop, self._dialer.resolver
        resolver.look_up(*self.address, lambda answer: loop.call(lambda: self._resolved(answer)))
        if resolver.known(*self.address):
            loop.call_later(PATIENCE_SECONDS, self._use_known_addresses)

    def _use_known_addresses(self) -> None:
        self._resolved(Answer(self._dialer.resolver.known(*self.address)))

    def _resolved(self, answer: Answer) -> None:
        if self.closed or not self._is_resolving:
            return
        if not answer.places:
            self.close(answer.trouble)
            return
        self._is_resolving = False
        self._addresses = answer.places
        self._deadline_timer.cancel()
        self._deadline_timer = self._loop.call_later(
            self._dialer.connect_timeout_seconds, self._check_open
        )
        self._next_address("")

    def _next_address(self, reason: str) -> None:
        if not self._addresses:
            self.close(reason)
            return
        self._loop.unwatch(self._socket)
        self._socket.close()
        try:
            self._socket = self._dial()
        except UnreachableError as error:
            self.close(str(error))

    def _dial(self) -> socket.socket:
        try:
            sock = self._dialer.dial(self._addresses)
        except OSError as error:
            raise self._unreachable(str(error)) from error
        self._watched_events = selectors.EVENT_WRITE
        self._loop.watch(sock, self._watched_events, self)
        return sock

    def _open(self) -> None:
        """Go on with opening: TCP has connected or failed, or the TLS handshake goes on."""
        if isinstance(self._socket, socket.socket):
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._next_address(errno.errorcode.get(code, str(code)))
                return
            tls = self._dialer.security.tls
            if tls is not None:
                self._loop.unwatch(self._socket)
                self._watched_events = 0
                try:
                    self._socket = TlsSocket(self._socket, tls, self.address.host)
                except ValueError as error:
                    self.close(f"TLS cannot be set up: {error}", is_refusal=True)
                    return
        if isinstance(self._socket, TlsSocket):
            events = self._socket.shake_hands()
            if events:
                self._watched_events = events
                self._loop.watch(self._socket, events, self)
                return
        self._is_open = True
        self._asked_at = time.monotonic()
        self._write()

    def _check_open(self) -> None:
        if self.closed or self.api_versions:
            return
        longest = self._dialer.connect_timeout_seconds
        if self._is_resolving:
            self.close(f"its name was not resolved within {longest:g} s")
        elif not self._is_open and self._addresses:
            self._deadline_timer = self._loop.call_later(longest, self._check_open)
            self._next_address("no answer")
        elif self._login is not None and self._login.is_thinking:  # not the broker's fault
            longest = self._dialer.request_timeout_seconds
            if time.monotonic() - self._began_at > longest:
                self.close(f"there was nothing to log in with within {longest:g} s")
            else:
                self._deadline_timer = self._loop.call_later(1.0, self._check_open)
        else:
            self._give_up(f"no answer within {longest:g} s")

    def _ask_versions(self) -> None:
        request = ApiVersionsRequest(version=0)  # every broker knows it; no flexible header

        def versions(frame: memoryview) -> None:
            answer = decode_answer(request.header.get_response_class(), frame[4:], 0)
            if answer.error_code:
                self.close(f"it refused the API version request with error {answer.error_code}")
                return
            is_late = time.monotonic() - self._asked_at > _FAR_SECONDS
            known = {  # there is no version below 0, whatever a peer says
                key.api_key: (max(key.min_version, 0), key.max_version)
                for key in answer.api_keys or ()
            }
            if self._dialer.security.sasl is None:
                self._become_ready(known, is_late=is_late)
            else:
                self._log_in(known, is_late=is_late)

        self._transmit_message(request, versions, lambda _error: None)

    def _log_in(self, versions: dict[int, tuple[int, int]], *, is_late: bool) -> None:
        def done() -> None:
            if not self.api_versions:
                self._become_ready(versions, is_late=is_late)
            while self._held and not self.closed:
                self._push(*self._held.popleft())

        self._login = Login(
            self._loop,
            self._dialer.security,
            self.address,
            self._send_login,
            done=done,
            failed=self._not_let_in,
        )
        self._login.begin(versions)

    def _not_let_in(self, error: AuthenticationError) -> None:
        self.close(str(error), is_refusal=not error.retriable)

    def _become_ready(self, versions: dict[int, tuple[int, int]], *, is_late: bool) -> None:
        self.api_versions = versions
        self._reader.trust()
        if is_late:
            self._ask_again()
        pending, self._before_ready = self._before_ready, []
        for send, failure in pending:
            try:
                send()
            except WireError as error:  # one request that cannot be made fails alone
                failure(self._unreachable(str(error)))

    def _ask_again(self) -> None:
        """A first answer may be late because the broker has just begun; a second one tells."""
        self._asked_at = time.monotonic()

        def measure(_frame: memoryview) -> None:
            self.is_far = time.monotonic() - self._asked_at > _FAR_SECONDS

        self._transmit_message(ApiVersionsRequest(version=0), measure, lambda _error: None)

    # --- sending

    def when_ready(self, send: Callable[[], None], failure: Failure) -> None:
        """Call `send` once API versions are known, or `failure` if the opening fails."""
        if self.closed:
            failure(self._unreachable("the connection is closed"))
        elif self.api_versions:
            send()
        else:
            self._before_ready.append((send, failure))

    def version(self, api_key: int, newest: int) -> int:
        """The newest version of an API that both sides know."""
        low, high = self.api_versions.get(api_key, (0, -1))
        if high < low or newest < low:
            raise WireError(
                f"cluster {self._dialer.cluster!r} at {self.address} does not speak "
                f"API {api_key} up to version {newest}"
            )
        return min(high, newest)

    def call(
        self, message: Any, reply: Callable[[Any], None], failure: Failure, *, newest: int
    ) -> None:
        """Send a kafka-python message and hand over its decoded answer."""
        self.exchange(message, _decoder(message, reply), failure, newest=newest)

    def exchange(self, message: Any, reply: Reply, failure: Failure, *, newest: int) -> None:
        """Send a kafka-python message and hand over the raw frame of the answer."""
        message.API_VERSION = self.version(message.API_KEY, newest)
        self._transmit_message(message, reply, failure)

    def _transmit_message(self, message: Any, reply: Reply, failure: Failure) -> None:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        message.with_header(correlation_id=self._correlation, client_id=self._dialer.client_id)
        self._transmit([message.encode(framed=True, header=True)], reply, failure)

    def send(
        self, header: Callable[[int], bytes], body: Sequence[Any], reply: Reply, failure: Failure
    ) -> None:
        """Send a request given as buffers; `header` makes frame and request header."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        self._transmit([header(self._correlation), *body], reply, failure)

    def _send_login(self, message: Any, reply: Callable[[Any], None]) -> None:
        """A message of the login itself, which does not wait for its own end."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        message.with_header(correlation_id=self._correlation, client_id=self._dialer.client_id)
        deadline = time.monotonic() + self._dialer.request_timeout_seconds
        waiting = _Waiting(
            self._correlation, _decoder(message, reply), lambda _error: None, deadline
        )
        self._push(waiting, [message.encode(framed=True, header=True)])

    def _transmit(self, buffers: Sequence[Any], reply: Reply, failure: Failure) -> None:
        if self.closed:
            failure(self._unreachable("the connection is closed"))
            return
        self._used_at = time.monotonic()
        deadline = self._used_at + self._dialer.request_timeout_seconds
        waiting = _Waiting(self._correlation, reply, failure, deadline)
        login = self._login
        if login is not None and (login.is_under_way or login.is_due(self._used_at)):
            self._held.append((waiting, buffers))
            if not login.is_under_way:
                login.begin(self.api_versions)
            return
        self._push(waiting, buffers)

    def _push(self, waiting: _Waiting, buffers: Sequence[Any]) -> None:
        self._waiting.append(waiting)
        self._outgoing.extend(buffers)
        if self._is_open:
            self._write()

    @property
    def in_flight(self) -> int:
        """Requests that have no reply yet."""
        return len(self._waiting) + len(self._held)

    def check_deadlines(self, now: float) -> None:
        """Close when the oldest request has waited too long; the owner calls this at times.

        While its answer is arriving it has not: a large one takes long on a slow line. Who sends it
        byte by byte keeps nobody waiting for ever.
        """
        if self._is_open and self._is_late(now):
            self.ready(selectors.EVENT_READ)  # what was not worth waking us up for yet counts, too
        if not self.closed and self._is_late(now):
            self.close(f"a request got no reply in {self._dialer.request_timeout_seconds:g} s")

    def _is_late(self, now: float) -> bool:
        if self._waiting:
            oldest = self._waiting[0].deadline
        elif self._held:
            oldest = self._held[0][0].deadline
        else:
            return False
        return now > max(oldest, self._heard_at + self._dialer.request_timeout_seconds)

    def check_idle(self, now: float) -> None:
        """Close when nobody has used it for long; the owner calls this at times.

        Networks forget silent connections without a word, and a request on such a one would wait
        for its whole time-out.
        """
        longest = self._dialer.max_idle_seconds
        is_busy = self._waiting or self._held or self._before_ready
        if longest is None or is_busy or now - max(self._used_at, self._heard_at) < longest:
            return
        self.close(f"nobody has used it for {longest:g} s")

    # --- the socket

    def ready(self, events: int) -> None:
        """React to the socket; any failure closes the connection and fails what was waiting."""
        if self.closed:
            return  # by another callback of the same turn
        try:
            if not self._is_open:
                self._open()
                return
            if events & selectors.EVENT_WRITE:
                self._write()
            if events & selectors.EVENT_READ and not self.closed:
                self._read()
        except OSError as error:
            self._break(error)
        except WireError as error:
            self._give_up(str(error))

    def _break(self, error: OSError) -> None:
        """The socket or TLS is no good any more."""
        security, address = self._dialer.security, str(self.address)
        words = tls_trouble(error, address, security)
        if not words and isinstance(self._socket, TlsSocket):
            words = tls_trouble(self._socket.parting_words() or error, address, security)
        if words:
            self.close(words, is_refusal=True)
        else:
            self._give_up(str(error))

    def _give_up(self, reason: str) -> None:
        """Close; a peer that has said next to nothing may expect another security."""
        is_connected = self._is_open or isinstance(self._socket, TlsSocket)
        answered = self._correlation - self.in_flight
        if is_connected and answered <= 1:  # the API versions, which anybody may ask for
            reason = f"{reason}. {silence_hint(self._dialer.security)}"
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
            self._break(error)
            return
        self._watch()

    def _read(self) -> None:
        while not self.closed:
            space = self._reader.space()
            room = len(space)
            try:
                size = self._socket.recv_into(space)
            except BlockingIOError:
                return
            if not size:
                self._give_up("the broker closed the connection")
                return
            frames = self._reader.received(size)
            self._note_arrival(size, is_whole=bool(frames))
            for frame in frames:
                self._dispatch(frame)
            if size < room:
                return  # the kernel had no more

    def _note_arrival(self, size: int, *, is_whole: bool) -> None:
        """An answer that begins, comes well or is whole buys time for what waits; drops do not."""
        is_begun = bool(self._heard_bytes)
        self._heard_bytes += size
        is_worth = is_whole or self._heard_bytes >= _WORTH_BYTES
        if is_worth or not is_begun:
            self._heard_at = time.monotonic()
        if is_worth:
            self._heard_bytes = 0

    def _dispatch(self, frame: memoryview) -> None:
        if len(frame) < _CORRELATION.size:
            raise WireError(f"an answer of {len(frame)} bytes arrived")
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if not self._waiting or self._waiting[0].correlation_id != correlation_id:
            raise WireError(f"an unexpected reply (correlation id {correlation_id}) arrived")
        waiting = self._waiting.popleft()
        try:
            waiting.reply(frame)
        except UnreadableAnswerError:
            self._waiting.appendleft(waiting)  # it fails with the connection
            raise

    def close(self, reason: str, *, is_refusal: bool = False) -> None:
        """Close and fail every request that waits."""
        if self.closed:
            return
        self.closed = True
        self._deadline_timer.cancel()
        if self._login is not None:
            self._login.end()
        self._loop.unwatch(self._socket)
        self._socket.close()
        self._outgoing.clear()
        error = self._unreachable(reason)
        waiting, self._waiting = self._waiting, deque()
        held, self._held = self._held, deque()
        pending, self._before_ready = self._before_ready, []
        if is_refusal and self._on_refused is not None:
            self._on_refused(error)
        for request in waiting:
            request.failure(error)
        for request, _buffers in held:
            request.failure(error)
        for _send, failure in pending:
            failure(error)

    def _unreachable(self, reason: str) -> UnreachableError:
        return UnreachableError(
            f"cluster {self._dialer.cluster!r}: broker {self.address}: {reason}",
            cluster=self._dialer.cluster,
        )


def _decoder(message: Any, reply: Callable[[Any], None]) -> Reply:
    """Makes of an answer's frame the message that it holds."""

    def decoded(frame: memoryview) -> None:
        version = message.API_VERSION
        response_class = message.header.get_response_class()
        flexible = response_class.flexible_version_q(version)
        reply(decode_answer(response_class, frame[5 if flexible else 4 :], version))

    return decoded
