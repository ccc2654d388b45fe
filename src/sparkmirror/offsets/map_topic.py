# SPDX-License-Identifier: Apache-2.0
"""The offset map's topic, followed from its beginning on: an `OffsetMap` per topic partition.

Chunks are cached up to a limit and read again from where they lie if they are needed later, so
memory grows by some 25 bytes a chunk. Belongs to one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import partial

from sparkmirror.errors import WireError
from sparkmirror.formats.map_chunk import ChunkKey, MapChunk
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.records import LogRecord
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_map import OffsetMap, Translation

CACHE_BYTES = 32 << 20
_OBJECTS_BYTES = 200  # a cached chunk in memory, beside its runs
_RUN_BYTES = 180


class MapTopic:
    """All maps of one source cluster; whoever owns the client closes it."""

    def __init__(self, client: ClusterClient, topic: str, cache_bytes: int = CACHE_BYTES) -> None:
        self._log = TopicLog(client.connection, topic, client=client)
        self._place = TopicPartition(topic, 0)
        self._since: dict[TopicPartition, int] = {}
        self._cache: OrderedDict[ChunkKey, MapChunk] = OrderedDict()
        self._cache_bytes = cache_bytes
        self._cached = 0
        self.maps: dict[TopicPartition, OffsetMap] = {}
        self.invalid: list[ChunkKey] = []  # what newer chunks replaced: to be deleted
        self.unreadable = 0  # records that are no chunks

    def refresh(self, timeout_seconds: float = 60.0) -> None:
        """Read what has been written since the last time."""
        with self._log as log:
            for record in log.read_to_end(timeout_seconds, self._since):
                self._see(record)

    def _see(self, record: LogRecord) -> None:
        try:
            key = ChunkKey.unpack(record.key or b"")
            chunk = MapChunk.from_value(key.first, record.value) if record.value else None
        except WireError:
            self.unreadable += 1
            return
        known = self.maps.setdefault(key.topic_partition, OffsetMap())
        if chunk is None:
            known.forget(key.first)
            return
        gone = known.see(key.first, chunk.target_first, record.offset, has_runs=bool(chunk.runs))
        self.invalid += [ChunkKey(key.topic_partition, first) for first in gone]
        self._keep(key, chunk)

    def delete(self, keys: Iterable[ChunkKey]) -> None:
        """Remove chunks from the topic, and from here."""
        wanted = list(keys)
        if not wanted:
            return
        self._log.append({0: [(key.pack(), None) for key in wanted]})
        for key in wanted:
            self.maps[key.topic_partition].forget(key.first)

    # --- translation

    def to_target(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Where a position on the source lies on the target; None: nothing was mirrored."""
        known = self.maps.get(tp)
        load = partial(self._load, tp)
        return known.to_target(offset, load) if known is not None else None

    def covered(self, tp: TopicPartition, offset: int) -> int:
        """Where the hole begins that an offset lies in (`Fit.NEAR`)."""
        return self.maps[tp].covered(offset, partial(self._load, tp))

    def to_source(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Where a position on the target lies on the source; None: nothing was mirrored."""
        known = self.maps.get(tp)
        load = partial(self._load, tp)
        return known.to_source(offset, load) if known is not None else None

    def reach(self, tp: TopicPartition) -> tuple[int, int, int, int]:
        """Where a map begins and ends on the source, and where on the target."""
        known = self.maps[tp]
        return known.reach(partial(self._load, tp))

    def _load(self, tp: TopicPartition, first: int, place: int) -> MapChunk:
        key = ChunkKey(tp, first)
        cached = self._cache.get(key)
        if cached is None:
            record = self._log.read_at(self._place, place)
            if record is None or record.value is None:
                raise WireError(
                    f"A chunk of the offset map at {self._place}@{place} is gone: it was written "
                    "anew since the topic was last read. Ask again."
                )
            chunk = MapChunk.from_value(first, record.value)
            self._keep(key, chunk)
            return chunk
        self._cache.move_to_end(key)
        return cached

    def _keep(self, key: ChunkKey, chunk: MapChunk) -> None:
        replaced = self._cache.pop(key, None)
        self._cached += _size(chunk) - (_size(replaced) if replaced is not None else 0)
        self._cache[key] = chunk
        while self._cached > self._cache_bytes and len(self._cache) > 1:
            _key, old = self._cache.popitem(last=False)
            self._cached -= _size(old)


def _size(chunk: MapChunk) -> int:
    return _OBJECTS_BYTES + _RUN_BYTES * len(chunk.runs)


def surplus(
    maps: Mapping[TopicPartition, OffsetMap], log_starts: Mapping[TopicPartition, int], most: int
) -> list[ChunkKey]:
    """The chunks that need not, or must not, be kept: outlived by the source, or above the cap."""
    found: list[ChunkKey] = []
    for tp, known in maps.items():
        firsts = set(known.above(most))
        if tp in log_starts:
            firsts.update(known.outlived(log_starts[tp]))
        found += [ChunkKey(tp, first) for first in sorted(firsts)]
    return found
