# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Azure Event Hubs: a real broker behind a proxy that offers few API versions.

The proxy rewrites the broker's ApiVersions answers and closes the connection on any request that
it did not offer. The versions are what users of the service have reported from their clients' logs.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from sparkmirror.devcluster.cluster import LocalCluster

HOST = "127.0.0.1"
API_VERSIONS = 18
EVENT_HUBS: Mapping[int, tuple[int, int]] = {
    0: (3, 7),  # Produce
    1: (4, 6),  # Fetch
    2: (0, 7),  # ListOffsets
    3: (0, 5),  # Metadata
    8: (0, 8),  # OffsetCommit
    9: (0, 8),  # OffsetFetch
    10: (0, 1),  # FindCoordinator
    11: (0, 7),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 4),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 5),  # DescribeGroups
    16: (0, 2),  # ListGroups
    17: (0, 1),  # SaslHandshake
    API_VERSIONS: (0, 1),
    19: (0, 2),  # CreateTopics
    20: (0, 2),  # DeleteTopics
    22: (0, 1),  # InitProducerId
    32: (0, 2),  # DescribeConfigs
    36: (0, 1),  # SaslAuthenticate
    37: (0, 1),  # CreatePartitions
    42: (0, 0),  # DeleteGroups
}
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")  # API key, version, correlation id
_API = struct.Struct(">hhh")
_UNSUPPORTED_VERSION = 35
_END_SECONDS = 60.0  # only a fault takes so long


class ApiVersionProxy:
    """One port in front of one broker, on its own thread; also a context manager."""

    def __init__(
        self, forward_to: Callable[[], int], offered: Mapping[int, tuple[int, int]]
    ) -> None:
        self._forward_to = forward_to
        self._offered = offered
        self.refused: list[tuple[int, int]] = []  # API keys and versions
        self.seen: set[tuple[int, int]] = set()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="limit", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()

        listening = asyncio.start_server(self._accept, HOST, 0)
        future = asyncio.run_coroutine_threadsafe(_server(listening), self._loop)
        self._server = future.result(_END_SECONDS)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_error: object) -> None:
        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, asyncio.CancelledError):
            broker_reader, broker = await asyncio.open_connection(HOST, self._forward_to())
            about_versions: set[int] = set()  # correlation ids
            answers = asyncio.ensure_future(self._answers(broker_reader, client, about_versions))
            try:
                await self._requests(reader, client, broker, about_versions)
            finally:
                answers.cancel()
                broker.close()
        client.close()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        broker: asyncio.StreamWriter,
        about_versions: set[int],
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, version, correlation_id = _REQUEST.unpack_from(frame)
            low, high = self._offered.get(key, (0, -1))
            if key == API_VERSIONS and version > high:
                # As Kafka answers: in version 0, and without a list before 2.4.
                refusal = struct.pack(">ihi", correlation_id, _UNSUPPORTED_VERSION, 0)
                client.write(_LENGTH.pack(len(refusal)) + refusal)
                continue
            if not low <= version <= high:
                self.refused.append((key, version))
                return
            self.seen.add((key, version))
            if key == API_VERSIONS:
                about_versions.add(correlation_id)
            broker.write(_LENGTH.pack(len(frame)) + frame)
            await broker.drain()

    async def _answers(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, about_versions: set[int]
    ) -> None:
        with suppress(OSError, EOFError):
            while True:
                frame = await _frame(reader)
                (correlation_id,) = _LENGTH.unpack_from(frame)
                if correlation_id in about_versions:
                    about_versions.discard(correlation_id)
                    frame = self._limited(frame)
                client.write(_LENGTH.pack(len(frame)) + frame)
                await client.drain()
        client.close()

    def _limited(self, frame: bytes) -> bytes:
        """Return an ApiVersions response (version 0 or 1) with only the offered versions."""
        (count,) = _LENGTH.unpack_from(frame, 6)
        begin, end = 10, 10 + count * _API.size
        kept = []
        for key, low, high in _API.iter_unpack(frame[begin:end]):
            offered_low, offered_high = self._offered.get(key, (0, -1))
            both = max(low, offered_low), min(high, offered_high)
            if both[0] <= both[1]:
                kept.append(_API.pack(key, *both))
        return frame[:6] + _LENGTH.pack(len(kept)) + b"".join(kept) + frame[end:]


async def _server(listening: Awaitable[asyncio.Server]) -> asyncio.Server:
    return await listening


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(size)


class EventHubs:
    """The emulated service; `cluster` is the broker behind it."""

    def __init__(self, cluster: LocalCluster, limit: ApiVersionProxy) -> None:
        self.cluster = cluster
        self.limit = limit

    @property
    def bootstrap_servers(self) -> str:
        """The address of the proxy, which the broker also advertises."""
        return self.cluster.proxied_bootstrap_servers


@contextmanager
def event_hubs(
    directory: Path, version: str, offered: Mapping[int, tuple[int, int]] = EVENT_HUBS
) -> Iterator[EventHubs]:
    """Run one broker that behaves like Event Hubs behind its proxy."""
    made: list[LocalCluster] = []

    def port() -> int:
        detour = made[0].brokers[0].proxied_listener
        assert detour is not None
        return detour.port

    with ApiVersionProxy(port, offered) as limit:
        made.append(LocalCluster("hubs", directory, version=version, proxy_ports=[limit.port]))
        with made[0] as cluster:
            yield EventHubs(cluster, limit)
