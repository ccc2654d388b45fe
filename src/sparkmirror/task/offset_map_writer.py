# SPDX-License-Identifier: Apache-2.0
"""Writes a task's part of the offset map, before the positions that depend on it.

Through the task's producer and without a producer id: a chunk written twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.formats.map_chunk import ChunkKey, MapChunk
from sparkmirror.model import TopicPartition
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.producer import ProducePartition, Producer
from sparkmirror.wire.record_batch import build_key_value_batch

_RECORD_BATCH_BYTES = 256 << 10  # well below what a topic takes by default


class OffsetMapWriter:
    """Partition 0 of the offset map's topic; without a topic there is no map."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self.topic_partition = TopicPartition(topic, 0)
        self._partition = ProducePartition(self.topic_partition)
        self.error = ""  # why there is no map for now

    @property
    def topic(self) -> str:
        """Its name; empty if no map is kept."""
        return "" if self.error else self.topic_partition.topic

    @property
    def is_idle(self) -> bool:
        """Nobody needs to wait: everything written is on the target, or never will be."""
        return bool(self.error) or self._partition.is_idle

    def disable(self, reason: str) -> None:
        """Go on without a map until the next task tries again: records matter more."""
        self.error = (
            f"{self.topic_partition} cannot be written, so consumer groups are not translated "
            f"exactly: "
            f"{reason}"
        )

    def owns(self, part: ProducePartition) -> bool:
        """Whether this is the map's partition."""
        return part.tp == self.topic_partition

    def discard(self) -> None:
        """Forget what is not on the target; nothing is unanswered."""
        self._producer.discard(self._partition)

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
        self._producer.send_ready()

    def _offer(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        view = memoryview(build_key_value_batch(records))
        self._producer.enqueue(self._partition, OutgoingBatch(view, len(records), 0, 0, ()))
