# SPDX-License-Identifier: Apache-2.0
"""One partition that the producer writes: its state, its limits, and who is told what became of it.

Every partition has a listener, set once. The producer calls it from the loop's thread.
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


@dataclass(frozen=True, slots=True)
class ProduceLimits:
    """How a produce request is made."""

    acks: int
    timeout_ms: int
    max_request_bytes: int
    max_in_flight: int
    merged_bytes: int = (
        MAX_MERGED_BYTES  # tiny record batches that wait become one of this size; 0: no
    )
    is_request_size_hard: bool = (
        False  # whether even one record batch may not make a request larger
    )


class ProducePartition:
    """Where writing one partition stands.

    Without a listener in the constructor, one is assigned before the first record batch.
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
        # A broker takes any first sequence of a producer it has not seen: until one record batch
        # is acknowledged there, a second one must not be able to overtake it.
        self.is_producer_known = producer_id == NO_PRODUCER_ID or next_sequence > 0
        self.pending: deque[OutgoingBatch] = deque()
        self.in_flight: deque[OutgoingBatch] = deque()
        self.unanswered_requests = 0
        self.node = -1  # the broker that has them
        self.queue: deque[ProducePartition] | None = None  # the queue it stands in
        self.error_code = error_codes.NONE
        self.error_message = ""
        self.refused: OutgoingBatch | None = None  # the record batch that the failure is about
        self.record_errors: Mapping[int, str] = {}  # its records that are to blame, and why
        self.max_merged_bytes = MAX_MERGED_BYTES  # tiny record batches are joined up to this size
        self.out_of_order_twice = False
        self.backoff = Backoff()
        self.retry_timer: Timer | None = None  # after a failure: when it is tried again
        self.idle_since = time.monotonic()  # when the broker last said that it knows the producer
        self.waiting_since = 0.0  # when the oldest unacknowledged one was first sent

    @property
    def is_idle(self) -> bool:
        """Everything that was offered has been acknowledged."""
        return not self.pending and not self.in_flight

    def unsend_refused(self) -> bool:
        """Make unsent what was refused; false if the target may have some of it."""
        sent = [out for out in self.pending if out.sequence >= 0]
        if self.in_flight or any(out.is_in_doubt for out in sent):
            return False
        if sent:
            self.next_sequence = sent[0].sequence
        for out in sent:
            out.sequence = -1
        return True

    def shed_unsent(self) -> list[OutgoingBatch]:
        """Release what can be read again: all that was never sent, except one to retry with."""
        sent = sum(out.sequence >= 0 for out in self.pending)
        shed = [*self.pending][max(sent, 1) :]
        for out in shed:
            self.pending.pop()
            out.release()
        return shed


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """A record batch that the target will never take."""

    partition: ProducePartition
    batch: OutgoingBatch
    code: int
    text: str
    record_errors: Mapping[int, str]  # by the record's number in the batch: what is wrong with it


class ProduceListener(Protocol):
    """Is told what became of the record batches of a partition."""

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """A record batch is on the target at `out.base_offset` (-1: there, offset unknown)."""

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """The partition cannot be written now; the producer retries with growing pauses."""

    def on_produce_recovered(self, part: ProducePartition) -> None:
        """The partition can be written again after errors."""

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """Return what to send instead of a refused record batch; None: nothing yet."""

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:
        """The target refuses the partition: read again from the last acknowledged position.

        Returns whether that is possible; the producer then drops everything that is queued.
        """

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:
        """The broker expects another sequence; everything queued has been dropped."""


class TransactionControl(Protocol):
    """Decides inside transactions which partition may be written, and with which producer id."""

    @property
    def transactional_id(self) -> bytes:
        """The id that every request names."""

    def may_send(self, part: ProducePartition) -> bool:
        """Whether the partition's next record batch may be sent; if not, it waits.

        `Producer.recheck_parked` asks again.
        """

    def on_transaction_error(self, code: int) -> None:
        """A broker says that the transaction is over for us; nothing more is sent."""
