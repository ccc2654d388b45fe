# SPDX-License-Identifier: Apache-2.0
"""Writes a task's part of the offset map, before the positions that depend on it.

Uses the task's producer without a producer id: a duplicate chunk is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkmirror.formats.map_chunk import ChunkKey, MapChunk
from sparkmirror.model import TopicPartition
from sparkmirror.task.internal_producer import InternalTopicListener
from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.record_batch import build_key_value_batch

_RECORD_BATCH_BYTES = 256 << 10  # well below the default max.message.bytes


class OffsetMapWriter:
    """Writes to partition 0 of the offset map topic; an empty topic name disables it."""

    def __init__(self, producer: Producer, topic: str, alias: str, budget: MemoryBudget) -> None:
        self._producer = producer
        self.topic_partition = TopicPartition(topic, 0)
        self.listener = _OffsetMapListener(self, alias, budget)
        self._partition = ProducePartition(self.topic_partition, listener=self.listener)
        self.error = ""  # why the map is disabled
        # Called when an error disables the map, because no produce response may follow.
        self.on_disabled: Callable[[], None] = lambda: None

    @property
    def topic(self) -> str:
        """Its name; empty if the map is disabled."""
        return "" if self.error else self.topic_partition.topic

    @property
    def is_idle(self) -> bool:
        """Whether everything written is on the target, or the map is disabled."""
        return bool(self.error) or self._partition.is_idle

    def disable(self, reason: str) -> None:
        """Continue without a map; the next task tries again."""
        self.error = (
            f"{self.topic_partition} cannot be written, so consumer groups are not translated "
            f"exactly: {reason}"
        )

    def owns(self, part: ProducePartition) -> bool:
        return part.tp == self.topic_partition

    def discard(self) -> None:
        """Discard unacknowledged chunks; no request may be in flight."""
        self._producer.discard(self._partition)

    def write(self, chunks: Sequence[tuple[TopicPartition, MapChunk]]) -> None:
        """Write chunks; the writer must be idle."""
        if not self.topic:
            return
        records: list[tuple[bytes | None, bytes | None]] = []
        size = 0
        for tp, chunk in chunks:
            key, value = ChunkKey(tp, chunk.first).pack(), chunk.value()
            records.append((key, value))
            size += len(key) + len(value)
            if size > _RECORD_BATCH_BYTES:
                self._enqueue(records)
                records, size = [], 0
        if records:
            self._enqueue(records)
        self._producer.send_ready()

    def _enqueue(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        view = memoryview(build_key_value_batch(records))
        self._producer.enqueue(self._partition, OutgoingBatch(view, len(records), 0, 0, ()))


class _OffsetMapListener(InternalTopicListener):
    """Disables the map if its topic does not exist or access is denied."""

    def __init__(self, writer: OffsetMapWriter, alias: str, budget: MemoryBudget) -> None:
        super().__init__(alias, budget)
        self._writer = writer

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        if code in error_codes.PARTITION_REFUSED:
            self._writer.disable(f"{error_codes.name(code)}: {text or error_codes.advice(code)}")
            self._writer.on_disabled()
        else:
            super().on_produce_error(part, code, text)
