# SPDX-License-Identifier: Apache-2.0
"""Writes a task's positions to Connect's offsets topic.

A position is written only after the target acknowledged every record batch before it. If the topic
is not on the target, the producer belongs to an `InternalProducer`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.state.position_records import position_record
from sparkmirror.task.internal_producer import InternalTopicListener
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.record_batch import build_key_value_batch


class PositionWriter:
    """Writes to the offsets topic, one flush at a time.

    Positions carry no producer id: a duplicate is harmless, and all tasks share the partitions of
    the topic.
    """

    def __init__(
        self,
        producer: Producer,
        listener: InternalTopicListener,
        *,
        topic: str,
        partitions: int,
        connector: str,
        source_alias: str,
    ) -> None:
        self._producer = producer
        self.listener = listener
        self.topic = topic
        self._partitions = partitions
        self._connector = connector
        self._source_alias = source_alias
        self._open_partitions: dict[int, ProducePartition] = {}
        self._partition_cache: dict[TopicPartition, TopicPartition] = {}

    def partition_of(self, tp: TopicPartition) -> TopicPartition:
        """Return the partition of the offsets topic for a source partition."""
        cached = self._partition_cache.get(tp)
        if cached is None:
            record = position_record(
                self._connector, self._source_alias, tp, None, self._partitions
            )
            cached = self._partition_cache[tp] = TopicPartition(self.topic, record.partition)
        return cached

    def owns(self, part: ProducePartition) -> bool:
        return part.tp.topic == self.topic

    @property
    def is_idle(self) -> bool:
        """Whether everything written is acknowledged."""
        return all(part.is_idle for part in self._open_partitions.values())

    def discard(self) -> None:
        """Discard unacknowledged positions; no request may be in flight."""
        for part in self._open_partitions.values():
            self._producer.discard(part)

    def write(self, positions: Iterable[tuple[TopicPartition, StoredPosition]]) -> None:
        """Write positions; the writer must be idle."""
        by_partition: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
        for tp, stored in positions:
            record = position_record(
                self._connector, self._source_alias, tp, stored, self._partitions
            )
            by_partition.setdefault(record.partition, []).append((record.key, record.value))
        for index, records in by_partition.items():
            part = self._open_partitions.get(index)
            if part is None:
                part = self._open_partitions[index] = ProducePartition(
                    TopicPartition(self.topic, index), listener=self.listener
                )
            view = memoryview(build_key_value_batch(records))
            self._producer.enqueue(part, OutgoingBatch(view, len(records), 0, 0, ()))
        self._producer.send_ready()
