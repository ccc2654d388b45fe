# SPDX-License-Identifier: Apache-2.0
"""The produce state of one partition and its listener.

The producer calls the listener on the loop's thread.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.event_loop import Timer
from sparkmirror.wire.merge import MAX_MERGED_BYTES
from sparkmirror.wire.outgoing import OutgoingBatch

NO_PRODUCER_ID = -1


class ProducePartition:
    """The produce state of one partition.

    The caller sets `listener` before it enqueues the first record batch.
    """

    __slots__ = (
        "backoff",
        "error_code",
        "error_message",
        "idle_since",
        "in_flight",
        "is_producer_known",
        "listener",
        "max_merged_bytes",
        "next_sequence",
        "node",
        "out_of_order_twice",
        "pending",
        "producer_epoch",
        "producer_id",
        "queue",
        "record_errors",
        "refused",
        "retry_timer",
        "topic_id",
        "tp",
        "unanswered_requests",
        "waiting_since",
    )

    listener: ProduceListener

    def __init__(
        self,
        tp: TopicPartition,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        next_sequence: int = 0,
        topic_id: uuid.UUID | None = None,
        *,
        listener: ProduceListener | None = None,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id  # as planned: another id means a recreated topic
        if listener is not None:
            self.listener = listener
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.next_sequence = next_sequence
        # A broker accepts any first sequence of an unknown producer. Until it acknowledges one
        # record batch, a second one must not overtake the first.
        self.is_producer_known = producer_id == NO_PRODUCER_ID or next_sequence > 0
        self.pending: deque[OutgoingBatch] = deque()
        self.in_flight: deque[OutgoingBatch] = deque()
        self.unanswered_requests = 0
        self.node = -1  # the broker of the unanswered requests
        self.queue: deque[ProducePartition] | None = None  # the producer's queue that has it
        self.error_code = error_codes.NONE
        self.error_message = ""
        self.refused: OutgoingBatch | None = None  # the record batch with the error
        self.record_errors: Mapping[int, str] = {}  # its invalid records: index and reason
        self.max_merged_bytes = MAX_MERGED_BYTES
        self.out_of_order_twice = False
        self.backoff = Backoff()
        self.retry_timer: Timer | None = None
        self.idle_since = time.monotonic()  # the last acknowledgement
        self.waiting_since = 0.0  # when the oldest unacknowledged batch was first sent

    @property
    def is_idle(self) -> bool:
        """Whether every enqueued record batch is acknowledged."""
        return not self.pending and not self.in_flight

    def unsend_refused(self) -> bool:
        """Clear the sequences of refused batches; false if the target may have one of them."""
        sent = [out for out in self.pending if out.sequence >= 0]
        if self.in_flight or any(out.is_in_doubt for out in sent):
            return False
        if sent:
            self.next_sequence = sent[0].sequence
        for out in sent:
            out.sequence = -1
        return True

    def shed_unsent(self) -> list[OutgoingBatch]:
        """Release all unsent batches, which can be fetched again, except one to retry with."""
        sent = sum(out.sequence >= 0 for out in self.pending)
        shed = [*self.pending][max(sent, 1) :]
        for out in shed:
            self.pending.pop()
            out.release()
        return shed


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """A record batch that the target rejects permanently."""

    partition: ProducePartition
    batch: OutgoingBatch
    code: int
    text: str
    record_errors: Mapping[int, str]  # by the record's index in the batch: the reason


class ProduceListener(Protocol):
    """Receives the results of one partition."""

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Handle a batch that is on the target at `out.base_offset` (-1: offset unknown)."""

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """Handle a produce error; the producer retries with backoff."""

    def on_produce_recovered(self, part: ProducePartition) -> None:
        """Handle the first acknowledgement after errors."""

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """Return what to send instead of a refused record batch; None: nothing yet."""

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:
        """Fetch again from the last acknowledged position, because the target refuses all writes.

        Returns whether that is possible; if so, the producer drops the partition's queue.
        """

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:
        """Handle a broker that expects another sequence; the producer has dropped the queue."""


class TransactionControl(Protocol):
    """Decides which partitions may be written in the current transaction."""

    @property
    def transactional_id(self) -> bytes:
        """The transactional id of every produce request."""

    def may_send(self, part: ProducePartition) -> bool:
        """Whether the partition's next record batch may be sent.

        If not, the partition is parked until `Producer.recheck_parked`.
        """

    def on_transaction_error(self, code: int) -> None:
        """Handle a fatal transaction error of a partition; the producer stops sending it."""
