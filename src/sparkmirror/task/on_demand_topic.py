# SPDX-License-Identifier: Apache-2.0
"""A topic of our own that a task writes beside the copied ones: the ledger, the dead letters.

Written through the task's producer, in order, without a producer id: an entry written twice does
no harm. A topic that is not there yet is waited for; the driver creates it when a task that has
something to write names it in its progress.
"""

from __future__ import annotations

from sparkmirror.model import TopicPartition
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.producer import ProducePartition, Producer


class OnDemandTopic:
    """Partition 0 of one topic; a ticket tells when what was written is on the target."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self.partition = ProducePartition(TopicPartition(topic, 0))
        self._written = 0
        self._acked = 0

    @property
    def topic(self) -> str:
        """Its name."""
        return self.partition.tp.topic

    @property
    def is_idle(self) -> bool:
        """Everything written is on the target."""
        return self.partition.is_idle

    def write(self, batch: bytearray, count: int) -> int:
        """Queue a record batch of `count` records; the ticket to ask `has` with."""
        if not self._written:
            self._producer.track_topics([self.topic])
        self._written += count
        self._producer.enqueue(self.partition, OutgoingBatch(memoryview(batch), count, 0, 0, ()))
        self._producer.send_ready()
        return self._written

    def retract(self, count: int) -> None:
        """So many records were refused, and will be written in another form."""
        self._written -= count

    def on_acked(self, out: OutgoingBatch) -> None:
        """The target acknowledged a record batch of this topic."""
        self._acked += out.count

    def is_acked(self, ticket: int) -> bool:
        """Whether everything up to the ticket is on the target."""
        return self._acked >= ticket
