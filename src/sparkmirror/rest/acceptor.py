# SPDX-License-Identifier: Apache-2.0
"""Who may come in: connections are few and none may loiter, so that a stranger keeps nobody out.

The server beneath would take any number of connections and wait for their first request, or for
the end of their TLS handshake, until the process has no descriptors left for its brokers. Here, a
newcomer to a full house takes the place of whoever has been idle for longest, and whoever is idle
or slow for too long is shown out. All of it happens in the server's event loop.
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
    """How many connections, and how long they may take."""

    connections: int = 256
    idle_seconds: float = 10.0  # for a handshake, the head of a request, the next request
    request_seconds: float = 120.0  # for a body, its answer and the reading of it


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A bound address; `tls` is None where it speaks http, else asked for each connection."""

    socket: socket.socket
    tls: Callable[[], ssl.SSLContext] | None = None


@dataclass(eq=False, slots=True)
class _HttpConnection:
    """One connection, as it was when last looked at."""

    address: str
    idle_since: float  # when it was last seen busy, or came in
    request_started: float = 0.0  # its request
    protocol: H11Protocol | None = None  # None: still in its handshake
    task: asyncio.Task[None] | None = None  # of that handshake, while it lasts
    cycle: RequestResponseCycle | None = None  # its last request

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way, or its answer still being read."""
        if self.cycle is None or self.protocol is None:
            return False
        return not self.cycle.response_complete or _is_sending(self.protocol.transport)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is over."""
        if self.protocol is None:
            return self.task is None
        return self.protocol not in self.protocol.connections

    def update(self, now: float) -> None:
        """Notice what has happened since the last look."""
        if self.protocol is None:
            return
        if self.protocol.cycle is not self.cycle:
            self.cycle = self.protocol.cycle
            self.request_started = self.idle_since = now
        elif self.is_busy:
            self.idle_since = now

    def abort(self) -> None:
        """End the connection."""
        if self.protocol is not None:
            self.protocol.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class HttpAcceptor:
    """Accepts connections from `open` to `close`."""

    def __init__(
        self,
        listening: Sequence[BoundListener],
        protocol: Callable[[], H11Protocol],
        limits: ConnectionLimits,
    ) -> None:
        self._listening = listening
        self._protocol = protocol
        self._limits = limits
        self._visitors: set[_HttpConnection] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._crowded = ThrottledLog(log)
        self._failed = ThrottledLog(log)

    def start(self) -> None:
        """Accept from now on."""
        for one in self._listening:
            one.socket.setblocking(False)
            self._tasks.append(asyncio.create_task(self._accept(one)))
        self._tasks.append(asyncio.create_task(self._close_expired()))

    async def stop(self) -> None:
        """Accept nobody any more; handshakes end, requests under way do not."""
        shaking = [one.task for one in self._visitors if one.protocol is None and one.task]
        for task in (*self._tasks, *shaking):
            task.cancel()
        await asyncio.gather(*self._tasks, *shaking, return_exceptions=True)

    async def _accept(self, listening: BoundListener) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening.socket)
            except ConnectionError:
                continue  # it was gone before we looked
            except OSError as error:
                self._crowded.warn(f"A REST connection cannot be taken: {error}.")
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if not self._make_room():
                connection.close()
                continue
            visitor = _HttpConnection(str(address[0]), loop.time())
            tls = None if listening.tls is None else listening.tls()
            visitor.task = asyncio.create_task(self._handshake(visitor, connection, tls))
            visitor.task.add_done_callback(partial(_handshake_done, visitor, connection))
            self._visitors.add(visitor)

    async def _handshake(
        self, visitor: _HttpConnection, connection: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        wait = None if tls is None else self._limits.idle_seconds
        try:
            if not await _wait_for_first_byte(connection):
                return
            _, visitor.protocol = await loop.connect_accepted_socket(
                self._protocol, connection, ssl=tls, ssl_handshake_timeout=wait
            )
        except ConnectionResetError:
            pass  # hung up without a word, as those do who only look whether a port is open
        except OSError as error:  # ssl.SSLError and time-outs are such, too
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            self._failed.warn(
                f"A REST connection from {visitor.address} has failed before its first request: "
                f"{loggable(str(reason))}."
            )

    def _make_room(self) -> bool:
        """Make room if there is none; False if everybody is busy."""
        now = asyncio.get_running_loop().time()
        if len(self._visitors) < self._limits.connections:
            return True
        self._update_connections(now)
        if len(self._visitors) < self._limits.connections:
            return True
        idle = [one for one in self._visitors if not one.is_busy]
        if not idle:
            self._crowded.warn(
                f"A REST connection was refused: {len(self._visitors)} requests are under way."
            )
            return False
        longest = min(idle, key=lambda one: one.idle_since)
        self._crowded.warn(
            f"There are {len(self._visitors)} REST connections: the one from {longest.address}, "
            f"idle for {now - longest.idle_since:.1f} s, makes room."
        )
        self._evict(longest)
        return True

    async def _close_expired(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = loop.time()
            self._update_connections(now)
            for one in list(self._visitors):
                if one.is_busy:
                    is_over = now - one.request_started > self._limits.request_seconds
                else:
                    is_over = now - one.idle_since > self._limits.idle_seconds
                if is_over:
                    self._evict(one)

    def _update_connections(self, now: float) -> None:
        for one in list(self._visitors):
            one.update(now)
            if one.is_closed:
                self._visitors.discard(one)

    def _evict(self, visitor: _HttpConnection) -> None:
        visitor.abort()
        self._visitors.discard(visitor)


def _is_sending(transport: asyncio.Transport) -> bool:
    """Whether a part of what was written still waits for who reads it."""
    try:
        return transport.get_write_buffer_size() > 0
    except AttributeError:  # asyncio's TLS that was closed twice has no buffer any more
        return False


async def _wait_for_first_byte(connection: socket.socket) -> bool:
    """Wait for the first byte: the 256 KiB of a TLS connection are not for the silent."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    return bool(connection.recv(1, socket.MSG_PEEK))


def _handshake_done(
    visitor: _HttpConnection, connection: socket.socket, _task: asyncio.Task[None]
) -> None:
    """The greeting is over, or was called off before it began.

    A visitor and the task of its greeting would keep each other alive, and with them a TLS
    connection, until Python looks for such pairs.
    """
    visitor.task = None
    if visitor.protocol is None:
        connection.close()
