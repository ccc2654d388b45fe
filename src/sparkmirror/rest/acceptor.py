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

from sparkmirror.rest.throttled_log import ThrottledLog, loggable

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_PAUSE_SECONDS = 0.1  # when the system has no descriptor for a connection


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of number and time for connections."""

    connections: int = 256
    idle_seconds: float = 10.0  # for a handshake, the head of a request, the next request
    request_seconds: float = 120.0  # for a body, its answer and the reading of it


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A bound address; `tls` gives the context for each https connection, None for http."""

    socket: socket.socket
    tls: Callable[[], ssl.SSLContext] | None = None


@dataclass(eq=False, slots=True)
class _HttpConnection:
    """One connection, as of the last `update`."""

    address: str
    idle_since: float  # when it was last seen busy, or came in
    request_started: float = 0.0  # its request
    protocol: H11Protocol | None = None  # None: still in its handshake
    task: asyncio.Task[None] | None = None  # of that handshake, while it lasts
    cycle: RequestResponseCycle | None = None  # its last request

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
        """Record what has happened since the last call."""
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
        self._crowded = ThrottledLog(log)
        self._failed = ThrottledLog(log)

    def start(self) -> None:
        for one in self._listening:
            one.socket.setblocking(False)
            self._tasks.append(asyncio.create_task(self._accept(one)))
        self._tasks.append(asyncio.create_task(self._close_expired()))

    async def stop(self) -> None:
        """Accept no more connections; ends handshakes, not requests."""
        shaking = [one.task for one in self._connections if one.protocol is None and one.task]
        for task in (*self._tasks, *shaking):
            task.cancel()
        await asyncio.gather(*self._tasks, *shaking, return_exceptions=True)

    async def _accept(self, listening: BoundListener) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening.socket)
            except ConnectionError:
                continue  # the client has closed it already
            except OSError as error:
                self._crowded.warn(f"A REST connection cannot be accepted: {error}.")
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
        except OSError as error:  # ssl.SSLError and time-outs are such, too
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            self._failed.warn(
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
            self._crowded.warn(
                f"A REST connection was refused: {len(self._connections)} requests are under way."
            )
            return False
        longest = min(idle, key=lambda one: one.idle_since)
        self._crowded.warn(
            f"There are {len(self._connections)} REST connections: the one from {longest.address}, "
            f"idle for {now - longest.idle_since:.1f} s, is closed."
        )
        self._evict(longest)
        return True

    async def _close_expired(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
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
    except AttributeError:  # asyncio's TLS that was closed twice has no buffer any more
        return False


async def _wait_for_first_byte(connection: socket.socket) -> bool:
    """Wait for the first byte before a TLS connection takes its 256 KiB; False at the end."""
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
    """The handshake has ended or was cancelled.

    Clears the reference from the connection to its task: the cycle would keep the TLS connection
    alive until the next garbage collection.
    """
    accepted.task = None
    if accepted.protocol is None:
        connection.close()
