# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that can block, delay and reset connections.

A `NetworkLink` is the network between a client and one cluster; each of its proxies listens on a
port and forwards to a broker. Requests and responses are controlled separately. While a direction
is cut, bytes are buffered and delivered when it heals, also those of connections that were closed
meanwhile; `reset` drops them with their connections. A slow link may have windows, as TCP has: a
sender waits for acknowledgements. Everything runs on the thread of the link.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

HOST = "127.0.0.1"
_CHUNK = 1 << 16
_MOST_HELD = 1 << 20  # what buffers on the way hold; then the sender waits
_END_SECONDS = 60.0  # only a fault takes so long
_RESET = struct.pack("ii", 1, 0)
T = TypeVar("T")


class Direction:
    """The state of one direction; used only by the thread of the link."""

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        self.acknowledged_after = 0.0  # the delivery, in seconds
        self.window = _MOST_HELD
        self.open = asyncio.Event()
        self.open.set()


class NetworkLink:
    """Both directions, their proxies and their thread; also a context manager."""

    def __init__(self, name: str, comes_from: str = HOST) -> None:
        self.name = name
        self._comes_from = comes_from  # the address that brokers take for the client's
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"line/{name}", daemon=True)
        self.to_broker = Direction()
        self.to_client = Direction()
        self._servers: list[asyncio.Server] = []
        self._links: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)

    def proxy(self, forward_to: Callable[[], int]) -> int:
        """Listen on a free port; `forward_to` returns the port of the broker at each connection."""

        async def listen() -> int:
            server = await asyncio.start_server(
                lambda reader, writer: self._accept(reader, writer, forward_to), HOST, 0
            )
            self._servers.append(server)
            port: int = server.sockets[0].getsockname()[1]
            return port

        return asyncio.run_coroutine_threadsafe(listen(), self._loop).result(_END_SECONDS)

    def cut(self, *, to_broker: bool, to_client: bool) -> None:
        """Block these directions."""

        def close() -> None:
            if to_broker:
                self.to_broker.open.clear()
            if to_client:
                self.to_client.open.clear()

        self._do(close)

    def slow(self, *, to_broker: float, to_client: float) -> None:
        """Delay every byte by this many seconds."""

        def set_delays() -> None:
            self.to_broker.delay_seconds = to_broker
            self.to_client.delay_seconds = to_client

        self._do(set_delays)

    def limit(self, window: int) -> None:
        """Limit the unacknowledged bytes of a connection in a direction.

        An acknowledgement takes as long as the other direction.
        """

        def set_windows() -> None:
            for one, other in (
                (self.to_broker, self.to_client),
                (self.to_client, self.to_broker),
            ):
                one.window = window
                one.acknowledged_after = other.delay_seconds

        self._do(set_windows)

    def reset(self) -> None:
        """Reset every connection and drop its bytes."""

        def cancel() -> None:
            for link in self._links:
                link.cancel()

        self._do(cancel)

    def heal(self) -> None:
        """Remove all faults; buffered bytes are delivered first."""

        def restore() -> None:
            for direction in (self.to_broker, self.to_client):
                direction.delay_seconds = direction.acknowledged_after = 0.0
                direction.window = _MOST_HELD
                direction.open.set()

        self._do(restore)

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return self._do(lambda: len(self._links))

    # --- the line's thread

    def _do(self, action: Callable[[], T]) -> T:
        async def act() -> T:
            return action()

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(_END_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for server in self._servers:
                server.close()
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self._loop.run_until_complete(asyncio.sleep(0))  # sockets close in the next turn
            self._loop.close()

    async def _accept(
        self,
        client_reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        forward_to: Callable[[], int],
    ) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        broker: asyncio.StreamWriter | None = None
        try:
            for direction in (self.to_broker, self.to_client):
                await direction.open.wait()  # a handshake needs both
            broker_reader, broker = await asyncio.open_connection(
                HOST, forward_to(), local_addr=(self._comes_from, 0)
            )
            async with asyncio.TaskGroup() as both:
                both.create_task(_Pump(self.to_broker).run(client_reader, broker))
                both.create_task(_Pump(self.to_client).run(broker_reader, client))
        except (OSError, asyncio.CancelledError):
            return  # no broker there, or torn: both ends are told below
        finally:
            self._links.discard(link)
            for writer in (client, broker):
                if writer is not None:
                    _reset(writer)


class _Pump:
    """One direction of one connection: a reader that fills a buffer, a writer that empties it."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._held: deque[tuple[float, bytes]] = deque()  # when it came, what; empty: the end
        self._bytes = 0
        self._changed = asyncio.Event()

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the sender ends and all it sent has been delivered."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._fill(reader))
            both.create_task(self._empty(writer))

    async def _fill(self, reader: asyncio.StreamReader) -> None:
        while True:
            while self._bytes >= self._direction.window:
                await self._change()
            try:
                data = await reader.read(min(_CHUNK, self._direction.window - self._bytes))
            except ConnectionError:
                data = b""  # what it sent before it went away is still on the way
            self._held.append((time.monotonic(), data))
            self._bytes += len(data)
            self._changed.set()
            if not data:
                return

    async def _empty(self, writer: asyncio.StreamWriter) -> None:
        while True:
            while not self._held:
                await self._change()
            await self._direction.open.wait()
            came, data = self._held[0]
            wait = came + self._direction.delay_seconds - time.monotonic()
            if wait > 0:
                await asyncio.sleep(min(wait, 0.05))  # the delay, or the cut, may change meanwhile
                continue
            self._held.popleft()
            if self._direction.acknowledged_after:
                asyncio.get_running_loop().call_later(
                    self._direction.acknowledged_after, self._acknowledge, len(data)
                )
            else:
                self._acknowledge(len(data))
            with contextlib.suppress(OSError):
                # A receiver that is gone ends only this direction: what it sent still arrives.
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()
            if not data:
                return

    def _acknowledge(self, size: int) -> None:
        self._bytes -= size
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection; after both ends of file it is closed anyway."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
