# SPDX-License-Identifier: Apache-2.0
"""Accepts HTTP connections within limits, so that a client cannot exhaust the descriptors.

At the connection limit, the longest-idle connection is evicted. Idle or slow connections are closed
after a timeout. uvicorn alone would accept any number of connections and wait for their first
request or TLS handshake without limit. Everything runs in the server's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from sparkmirror.quantities import format_duration
from sparkmirror.rest.throttled_log import ThrottledLog, loggable

log = logging.getLogger(__name__)

_CHECK_SECONDS = 0.5
_PAUSE_SECONDS = 0.1  # after a failed accept, for example without free file descriptors


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The maximum number of connections, and their timeouts."""

    connections: int = 256
    idle_seconds: float = 10.0  # for the handshake, the headers, the next request
    request_seconds: float = 120.0  # until the client has read the response


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A bound socket; `tls` returns the context for each https connection, None for http."""

    socket: socket.socket
    tls: Callable[[], ssl.SSLContext] | None = None


@dataclass(eq=False, slots=True)
class _HttpConnection:
    """One connection, as of the last `update`."""

    address: str
    idle_since: float  # when it was last busy, or was accepted
    request_started: float = 0.0
    protocol: H11Protocol | None = None  # None: during the handshake
    task: asyncio.Task[None] | None = None  # the handshake, until it ends
    cycle: RequestResponseCycle | None = None  # the last request

    @property
    def is_busy(self) -> bool:
        """Whether a request is being handled or its response is being sent."""
        if self.cycle is None or self.protocol is None:
            return False
        return not self.cycle.response_complete or _is_sending(self.protocol.transport)

    @property
    def is_closed(self) -> bool:
        if self.protocol is None:
            return self.task is None
        return self.protocol not in self.protocol.connections

    def update(self, now: float) -> None:
        """Update the times from the state of the protocol."""
        if self.protocol is None:
            return
        if self.protocol.cycle is not self.cycle:
            self.cycle = self.protocol.cycle
            self.request_started = self.idle_since = now
        elif self.is_busy:
            self.idle_since = now

    def abort(self) -> None:
        if self.protocol is not None:
            self.protocol.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class HttpAcceptor:
    """Accepts connections from `start` to `stop`."""

    def __init__(
        self,
        listening: Sequence[BoundListener],
        protocol: Callable[[], H11Protocol],
        limits: ConnectionLimits,
    ) -> None:
        self._listening = listening
        self._protocol = protocol
        self._limits = limits
        self._connections: set[_HttpConnection] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._limit_log = ThrottledLog(log)
        self._handshake_log = ThrottledLog(log)

    def start(self) -> None:
        for one in self._listening:
            one.socket.setblocking(False)
            self._tasks.append(asyncio.create_task(self._accept(one)))
        self._tasks.append(asyncio.create_task(self._close_expired()))

    async def stop(self) -> None:
        """Accept no more connections; cancels handshakes, not requests."""
        handshakes = [one.task for one in self._connections if one.protocol is None and one.task]
        for task in (*self._tasks, *handshakes):
            task.cancel()
        await asyncio.gather(*self._tasks, *handshakes, return_exceptions=True)

    async def _accept(self, listening: BoundListener) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening.socket)
            except ConnectionError:
                continue  # the client has closed it already
            except OSError as error:
                self._limit_log.warn(f"Cannot accept a REST connection, retrying: {error}.")
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if not self._make_room():
                connection.close()
                continue
            accepted = _HttpConnection(str(address[0]), loop.time())
            tls = None if listening.tls is None else listening.tls()
            accepted.task = asyncio.create_task(self._handshake(accepted, connection, tls))
            accepted.task.add_done_callback(partial(_handshake_done, accepted, connection))
            self._connections.add(accepted)

    async def _handshake(
        self, accepted: _HttpConnection, connection: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        wait = None if tls is None else self._limits.idle_seconds
        try:
            if not await _wait_for_first_byte(connection):
                return
            _, accepted.protocol = await loop.connect_accepted_socket(
                self._protocol, connection, ssl=tls, ssl_handshake_timeout=wait
            )
        except ConnectionResetError:
            pass  # port scans and health checks connect and close
        except OSError as error:  # also ssl.SSLError and TimeoutError
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            self._handshake_log.warn(
                f"A REST connection from {accepted.address} failed before its first request: "
                f"{loggable(str(reason))}."
            )

    def _make_room(self) -> bool:
        """Evict an idle connection at the limit; False if all are busy."""
        now = asyncio.get_running_loop().time()
        if len(self._connections) < self._limits.connections:
            return True
        self._update_connections(now)
        if len(self._connections) < self._limits.connections:
            return True
        idle = [one for one in self._connections if not one.is_busy]
        if not idle:
            self._limit_log.warn(
                f"Rejected a REST connection: {len(self._connections)} requests are in progress. "
                "Use fewer clients at a time."
            )
            return False
        longest = min(idle, key=lambda one: one.idle_since)
        self._limit_log.warn(
            f"At the limit of {len(self._connections)} REST connections: closing the one from "
            f"{longest.address}, idle for {format_duration(now - longest.idle_since)}."
        )
        self._evict(longest)
        return True

    async def _close_expired(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = loop.time()
            self._update_connections(now)
            for one in list(self._connections):
                if one.is_busy:
                    is_over = now - one.request_started > self._limits.request_seconds
                else:
                    is_over = now - one.idle_since > self._limits.idle_seconds
                if is_over:
                    self._evict(one)

    def _update_connections(self, now: float) -> None:
        for one in list(self._connections):
            one.update(now)
            if one.is_closed:
                self._connections.discard(one)

    def _evict(self, accepted: _HttpConnection) -> None:
        accepted.abort()
        self._connections.discard(accepted)


def _is_sending(transport: asyncio.Transport) -> bool:
    """Whether the client has not read all of the response yet."""
    try:
        return transport.get_write_buffer_size() > 0
    except AttributeError:  # a TLS transport of asyncio that was closed twice has no buffer
        return False


async def _wait_for_first_byte(connection: socket.socket) -> bool:
    """Wait for the first byte before TLS allocates its 256 KiB; False if the client has closed."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    return bool(connection.recv(1, socket.MSG_PEEK))


def _handshake_done(
    accepted: _HttpConnection, connection: socket.socket, _task: asyncio.Task[None]
) -> None:
    """Close the socket if the handshake has failed.

    Also clears the reference to the task: the reference cycle would keep the TLS connection alive
    until the next garbage collection.
    """
    accepted.task = None
    if accepted.protocol is None:
        connection.close()
