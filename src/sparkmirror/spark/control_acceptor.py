# SPDX-License-Identifier: Apache-2.0
"""Accepts connections on the control port; limits connections that are not authenticated yet.

A connection is unauthenticated until its token is verified. At the limit the longest-idle one is
closed, so that thousands of silent connections cannot block a task. Rejections are logged about
once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

MAX_UNAUTHENTICATED = 512  # half of the usual descriptor limit
HANDSHAKE_SECONDS = 10.0
_IDLE_SECONDS = 1.0  # a task needs milliseconds
_POLL_SECONDS = 0.05
_BACKLOG = 1024
_LOG_INTERVAL_SECONDS = 60.0
_ACCEPT_RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ControlAcceptor:
    """Accepts connections, sets up TLS and serves them. Belongs to its event loop's thread."""

    def __init__(self, context: ssl.SSLContext, serve: Serve) -> None:
        self._context = context
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._unauthenticated: dict[asyncio.Task[Any], float] = {}  # start times, oldest first
        self._tasks: set[asyncio.Task[Any]] = set()
        self._refused = 0
        self._logged_at = -_LOG_INTERVAL_SECONDS

    async def listen(self, host: str, port: int) -> int:
        """Listen on every address of the host. Returns the port; 0 lets the system choose."""
        found = await self._loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _type, _protocol, _name, address in dict.fromkeys(found):
                self._sockets.append(_listener(family, (address[0], port, *address[2:])))
                port = self._sockets[0].getsockname()[1]
        except OSError:
            self.close()
            raise
        for listener in self._sockets:
            self._spawn(self._accept(listener))
        return port

    def mark_authenticated(self) -> None:
        """Mark the current connection as authenticated."""
        task = asyncio.current_task()
        if task is not None:
            self._unauthenticated.pop(task, None)

    def log_rejection(self, reason: object) -> None:
        """Count a rejected connection and log it, at most once per interval."""
        self._refused += 1
        now = self._loop.time()
        if now - self._logged_at < _LOG_INTERVAL_SECONDS:
            return
        self._logged_at = now
        before = self._refused - 1
        more = f" ({before} more since the last message)" if before else ""
        _log.warning(
            "rejected a connection to the control port: %s%s; only this process's tasks may use it",
            reason,
            more,
        )
        self._refused = 0

    def close(self) -> None:
        """Stop listening; existing connections stay."""
        for listener in self._sockets:
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._evict_idle()
            try:
                sock, _where = await self._loop.sock_accept(listener)
            except OSError as error:  # no descriptors left, or the peer closed at once
                self.log_rejection(error)
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            self._unauthenticated[self._spawn(self._handshake(sock))] = self._loop.time()
            await asyncio.sleep(0)  # start it: if cancelled before, it would not close `sock`

    async def _evict_idle(self) -> None:
        while len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
            oldest, since = next(iter(self._unauthenticated.items()))
            if self._loop.time() - since < _IDLE_SECONDS:
                await asyncio.sleep(_POLL_SECONDS)
                continue
            del self._unauthenticated[oldest]
            oldest.cancel()
            self.log_rejection("too many idle connections without a token")

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        """Create a task and keep a reference until it ends."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _handshake(self, sock: socket.socket) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            with contextlib.suppress(OSError):  # already closed
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport, _protocol = await self._loop.connect_accepted_socket(
                lambda: protocol,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
            await self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))
        except ConnectionResetError:
            pass  # closed before its first byte, as a test of the address does
        except OSError as error:
            self.log_rejection(error)
        except Exception:  # noqa: BLE001 - the root of a task: one connection must not affect others
            _log.exception("a connection to the control port failed; its task will retry")
        finally:
            self.mark_authenticated()  # remove it from the unauthenticated connections


def _listener(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
