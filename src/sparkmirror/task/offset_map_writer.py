# SPDX-License-Identifier: Apache-2.0
"""Writes a task's part of the offset map, before the positions that depend on it.

Through the task's producer and without a producer id: a chunk written twice does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkmirror.formats.map_chunk import ChunkKey, MapChunk
from sparkmirror.model import TopicPartition
from sparkmirror.task.internal_topic_listener import InternalTopicListener
from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.record_batch import build_key_value_batch

_RECORD_BATCH_BYTES = 256 << 10  # well below what a topic takes by default


class OffsetMapWriter:
    """Partition 0 of the offset map's topic; without a topic there is no map."""

    def __init__(self, producer: Producer, topic: str, alias: str, budget: MemoryBudget) -> None:
        self._producer = producer
        self.topic_partition = TopicPartition(topic, 0)
        self.listener = _OffsetMapListener(self, alias, budget)
        self._partition = ProducePartition(self.topic_partition, listener=self.listener)
        self.error = ""  # why there is no map for now
        # Called when an error disables the map: no response may follow to wake those who wait.
        self.on_disabled: Callable[[], None] = lambda: None

    @property
    def topic(self) -> str:
        """Its name; empty if no map is kept."""
        return "" if self.error else self.topic_partition.topic

    @property
    def is_idle(self) -> bool:
        """Everything written is on the target, or the map is disabled."""
        return bool(self.error) or self._partition.is_idle

    def disable(self, reason: str) -> None:
        """Continue without a map; the next task tries again."""
        self.error = (
            f"{self.topic_partition} cannot be written, so consumer groups are not translated "
            f"exactly: "
            f"{reason}"
        )

    def owns(self, part: ProducePartition) -> bool:
        """Whether this is the map's partition."""
        return part.tp == self.topic_partition

    def discard(self) -> None:
        """Discard what is not on the target; no request may be unanswered."""
        self._producer.discard(self._partition)

    def write(self, chunks: Sequence[tuple[TopicPartition, MapChunk]]) -> None:
        """Send chunks; the writer must be idle."""
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


class _OffsetMapListener(InternalTopicListener):
    """Disables the map when the topic refuses it."""

    def __init__(self, writer: OffsetMapWriter, alias: str, budget: MemoryBudget) -> None:
        super().__init__(alias, budget)
        self._writer = writer

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        if code in error_codes.PARTITION_REFUSED:
            self._writer.disable(f"{error_codes.name(code)}: {text or error_codes.advice(code)}")
            self._writer.on_disabled()
        else:
            super().on_produce_error(part, code, text)
