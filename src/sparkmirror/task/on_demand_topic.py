# SPDX-License-Identifier: Apache-2.0
"""An internal topic that the driver creates when a task first needs it: ledger, dead letters.

Written through the task's producer, in order, without a producer id: a duplicate entry is harmless.
The task reports the missing topic in its progress report.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkmirror.model import TopicPartition
from sparkmirror.task.internal_producer import InternalTopicListener
from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition, RefusedBatch
from sparkmirror.wire.producer import Producer

_NOT_CREATED_YET = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.NO_LEADER)


class OnDemandTopic(InternalTopicListener):
    """Writes to partition 0 of one topic; `write` returns a ticket for `is_acked`."""

    def __init__(self, producer: Producer, topic: str, alias: str, budget: MemoryBudget) -> None:
        super().__init__(alias, budget)
        self._producer = producer
        self.partition = ProducePartition(TopicPartition(topic, 0), listener=self)
        # Returns the replacement of a refused record batch.
        self.replace_refused: Callable[[RefusedBatch], list[OutgoingBatch] | None]
        self.replace_refused = super().on_refused
        self._written = 0
        self._acked = 0

    @property
    def topic(self) -> str:
        """Its name."""
        return self.partition.tp.topic

    @property
    def is_idle(self) -> bool:
        """Whether everything written is on the target."""
        return self.partition.is_idle

    def write(self, batch: bytearray, count: int) -> int:
        """Queue a record batch of `count` records. Returns the ticket for `is_acked`."""
        if not self._written:
            self._producer.track_topics([self.topic])
        self._written += count
        self._producer.enqueue(self.partition, OutgoingBatch(memoryview(batch), count, 0, 0, ()))
        self._producer.send_ready()
        return self._written

    def retract(self, count: int) -> None:
        """Subtract refused records, which will be written in another form."""
        self._written -= count

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:  # noqa: ARG002 - the only one
        self._acked += out.count

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """Keep the error, unless the driver has not created the topic yet."""
        if code not in _NOT_CREATED_YET:
            super().on_produce_error(part, code, text)

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        return self.replace_refused(refused)

    def is_acked(self, ticket: int) -> bool:
        """Return whether everything up to the ticket is on the target."""
        return self._acked >= ticket
