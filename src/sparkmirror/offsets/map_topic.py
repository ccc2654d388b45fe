# SPDX-License-Identifier: Apache-2.0
"""Reads the offset map topic: one `OffsetMap` per topic partition.

Chunks are cached as bytes up to a limit and read again when needed, so memory grows by about 25
bytes per chunk. Not thread-safe.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from sparkmirror.errors import StaleOffsetError, WireError
from sparkmirror.formats.map_chunk import (
    COPIED_BEFORE,
    ChunkKey,
    CopiedBefore,
    MapChunk,
    read_header,
)
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_map import Fit, Load, OffsetMap, Translation

CACHE_BYTES = 32 << 20
_Result = TypeVar("_Result")
_OBJECT_BYTES = 300  # overhead of a cached chunk in memory
_MAX_DECODED = 64  # decoded chunks to keep: most groups are near the end


class MapTopic:
    """All maps of one source cluster. The owner of the client closes it."""

    def __init__(self, client: ClusterClient, topic: str, cache_bytes: int = CACHE_BYTES) -> None:
        self._log = TopicLog(client.connection, topic, client=client)
        self._log_partition = TopicPartition(topic, 0)
        self._since: dict[TopicPartition, int] = {}
        self._cache: OrderedDict[ChunkKey, bytes] = OrderedDict()
        self._decoded: OrderedDict[ChunkKey, tuple[bytes, MapChunk]] = OrderedDict()
        self._cache_bytes = cache_bytes
        self._cached = 0
        self.maps: dict[TopicPartition, OffsetMap] = {}
        self.invalid: list[ChunkKey] = []  # replaced by newer chunks: to be deleted
        self.unreadable = 0  # records that are not chunks
        self._copied_before: dict[TopicPartition, CopiedBefore] = {}

    def refresh(self, timeout_seconds: float = 60.0) -> None:
        """Read what was written since the last call."""
        with self._log as log:
            if log.was_replaced(self._since):
                self._reset()
            for record in log.read_to_end(timeout_seconds, self._since):
                self._apply(record)

    def _reset(self) -> None:
        """Drop everything: the topic was recreated or truncated."""
        self._since.clear()
        self._cache.clear()
        self._decoded.clear()
        self._cached = 0
        self.maps.clear()
        self.invalid.clear()
        self._copied_before.clear()

    def _apply(self, record: LogRecord) -> None:
        try:
            key = ChunkKey.unpack(record.key or b"")
            if key.first == COPIED_BEFORE:
                self._copied_before.pop(key.topic_partition, None)
                if record.value:
                    again = CopiedBefore.from_value(record.value)
                    self._copied_before[key.topic_partition] = again
                return
            target_first, first = (
                read_header(key.first, record.value) if record.value else (0, None)
            )
        except WireError:
            self.unreadable += 1
            return
        known = self.maps.setdefault(key.topic_partition, OffsetMap())
        if not record.value:
            known.remove_chunk(key.first)
            return
        gone = known.add_chunk(key.first, target_first, record.offset, first)
        self.invalid += [ChunkKey(key.topic_partition, first) for first in gone]
        self._cache_chunk(key, record.value)

    def delete(self, keys: Iterable[ChunkKey]) -> None:
        """Delete chunks from the topic and from memory."""
        deleted = list(keys)
        if not deleted:
            return
        self._log.append({0: [(key.pack(), None) for key in deleted]})
        for key in deleted:
            if key.first == COPIED_BEFORE:
                self._copied_before.pop(key.topic_partition, None)
            if (known := self.maps.get(key.topic_partition)) is not None:
                known.remove_chunk(key.first)

    def replace_map(self, tp: TopicPartition, chunk: MapChunk) -> None:
        """Start the map of a partition again with this chunk."""
        old = [ChunkKey(tp, first) for first in self.maps[tp].firsts] if tp in self.maps else []
        self._log.append({0: [(ChunkKey(tp, chunk.first).pack(), chunk.value())]})
        self.delete(
            [
                *(key for key in old if key.first != chunk.first),
                ChunkKey(tp, COPIED_BEFORE),
            ]
        )

    def forget_finished_copies(self) -> None:
        """Delete the records of `set_copied_before` that have no effect any more."""
        finished = []
        for tp, again in self._copied_before.items():
            if tp in self.maps and len(self.maps[tp]):
                _, covered, _, target_end = self.bounds(tp)
                if covered >= again.until and target_end > again.target_first:
                    finished.append(ChunkKey(tp, COPIED_BEFORE))
        self.delete(finished)

    def set_copied_before(self, tp: TopicPartition, again: CopiedBefore) -> None:
        """Store that records are copied again: the earlier copies stay valid meanwhile."""
        before = self._copied_before.get(tp, again)
        again = again._replace(until=max(again.until, before.until))
        self._log.append({0: [(ChunkKey(tp, COPIED_BEFORE).pack(), again.value())]})

    # --- translation

    def to_target(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Translate a source offset; None if nothing was mirrored."""

        def translate(known: OffsetMap, load: Load) -> Translation | None:
            found = known.to_target(offset, load)
            again = self._copied_before.get(tp)
            if again is None or found is None:
                return found
            covered = known.bounds(load)[1]
            # The end of the copy is after the records that were copied before.
            is_ahead = covered < again.until and offset >= covered
            return found._replace(fit=Fit.AGAIN) if is_ahead else found

        return self._translate(tp, translate)

    def hole(self, tp: TopicPartition, offset: int) -> tuple[int, int]:
        """Return the source start and the target end of the hole around an offset (`Fit.NEAR`)."""
        return self.maps[tp].hole(offset, partial(self._load, tp))

    def to_source(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Translate a target offset back; None if nothing was mirrored."""
        return self._translate(tp, lambda known, load: known.to_source(offset, load))

    def run_end(self, tp: TopicPartition, offset: int, *, on_target: bool) -> int | None:
        """Return the end of the run that contains an offset of one side; None: no run does."""
        return self._translate(
            tp, lambda known, load: known.run_end(offset, load, on_target=on_target)
        )

    def last_source_before(self, tp: TopicPartition, offset: int) -> int | None:
        """Return the source offset of the last record before a target offset, if there is one."""
        return self._translate(tp, lambda known, load: known.last_source_before(offset, load))

    def _translate(
        self, tp: TopicPartition, translate: Callable[[OffsetMap, Load], _Result | None]
    ) -> _Result | None:
        load = partial(self._load, tp)
        known = self.maps.get(tp)
        if known is None:
            return None
        try:
            return translate(known, load)
        except StaleOffsetError:
            self.refresh()
        known = self.maps.get(tp)
        return translate(known, load) if known is not None else None

    def bounds(self, tp: TopicPartition) -> tuple[int, int, int, int]:
        """Return start and end on the source, then on the target."""
        known = self.maps[tp]
        return known.bounds(partial(self._load, tp))

    def _load(self, tp: TopicPartition, first: int, log_offset: int) -> MapChunk:
        key = ChunkKey(tp, first)
        value = self._cache.get(key)
        if value is None:
            value = self._read(key, log_offset)
            self._cache_chunk(key, value)
        else:
            self._cache.move_to_end(key)
        known = self._decoded.pop(key, None)
        if known is None or known[0] is not value:
            known = value, MapChunk.from_value(first, value)
        self._decoded[key] = known
        if len(self._decoded) > _MAX_DECODED:
            self._decoded.popitem(last=False)
        return known[1]

    def _read(self, key: ChunkKey, log_offset: int) -> bytes:
        record = self._log.read_at(self._log_partition, log_offset)
        if record is None or not record.value or record.key != key.pack():
            raise StaleOffsetError(
                f"The offset map chunk at {self._log_partition}@{log_offset} moved since the topic "
                "was last read; refresh and retry."
            )
        return record.value

    def _cache_chunk(self, key: ChunkKey, value: bytes) -> None:
        replaced = self._cache.pop(key, None)
        self._cached += len(value) + _OBJECT_BYTES
        self._cache[key] = value
        if replaced is not None:
            self._cached -= len(replaced) + _OBJECT_BYTES
        while self._cached > self._cache_bytes and len(self._cache) > 1:
            _key, old = self._cache.popitem(last=False)
            self._cached -= len(old) + _OBJECT_BYTES


def removable_chunks(
    maps: Mapping[TopicPartition, OffsetMap],
    log_starts: Mapping[TopicPartition, int],
    max_chunks: int,
) -> list[ChunkKey]:
    """Return chunks to delete: before the source's first offset, or above the maximum."""
    found: list[ChunkKey] = []
    for tp, known in maps.items():
        firsts = set(known.oldest_beyond(max_chunks))
        if tp in log_starts:
            firsts.update(known.chunks_before(log_starts[tp]))
        found += [ChunkKey(tp, first) for first in sorted(firsts)]
    return found
