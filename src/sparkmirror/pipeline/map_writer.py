# SPDX-License-Identifier: Apache-2.0
"""Writes a task's part of the offset map, before the positions that depend on it.

Through the task's producer and without a producer id: a chunk written twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.formats.map_chunk import ChunkKey, MapChunk
from sparkmirror.model import TopicPartition
from sparkmirror.wire.outgoing import Outgoing
from sparkmirror.wire.producer import Producer, TargetPartition
from sparkmirror.wire.record_batch import build

_RECORD_BATCH_BYTES = 256 << 10  # well below what a topic takes by default


class MapWriter:
    """Partition 0 of the offset map's topic; without a topic there is no map."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self.place = TopicPartition(topic, 0)
        self._line = TargetPartition(self.place)

    @property
    def topic(self) -> str:
        """Its name; empty if no map is kept."""
        return self.place.topic

    @property
    def is_idle(self) -> bool:
        """Everything written is on the target."""
        return self._line.is_idle

    def holds(self, part: TargetPartition) -> bool:
        """Whether this is the map's partition."""
        return part is self._line

    def discard(self) -> None:
        """Forget what is not on the target; nothing is unanswered."""
        self._producer.discard(self._line)

    def write(self, chunks: Sequence[tuple[TopicPartition, MapChunk]]) -> None:
        """Send chunks; the caller has made sure that the writer is idle."""
        if not self.topic:
            return
        records: list[tuple[bytes | None, bytes | None]] = []
        size = 0
        for tp, chunk in chunks:
            key, value = ChunkKey(tp, chunk.first).pack(), chunk.value()
            records.append((key, value))
            size += len(key) + len(value)
            if size > _RECORD_BATCH_BYTES:
                self._offer(records)
                records, size = [], 0
        if records:
            self._offer(records)
        self._producer.pump()

    def _offer(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        view = memoryview(build(records))
        self._producer.offer(self._line, Outgoing(view, len(records), 0, 0, ()))
