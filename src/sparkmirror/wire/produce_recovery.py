# SPDX-License-Identifier: Apache-2.0
"""Error handling of the producer: wait for all responses, then resend, replace or drop.

Not on the path of successful writes. Owned by the loop's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkmirror.wire import error_codes
from sparkmirror.wire.error_codes import Remedy
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import (
    NO_PRODUCER_ID,
    ProducePartition,
    RefusedBatch,
)
from sparkmirror.wire.settings import ProduceSettings

if TYPE_CHECKING:  # the producer has its recovery, which queues partitions again
    from sparkmirror.wire.producer import Producer


class ProduceRecovery:
    """The failed partitions of one producer."""

    def __init__(
        self, loop: EventLoop, producer: Producer, budget: MemoryBudget, settings: ProduceSettings
    ) -> None:
        self._loop = loop
        self._producer = producer
        self._budget = budget
        self._settings = settings

    def fail(self, part: ProducePartition, code: int, text: str) -> None:
        """Record the first error; send no more until all responses have arrived."""
        if not part.error_code:
            part.error_code, part.error_message = code, text
            self._producer.dequeue(part)
        if not part.unanswered_requests:
            self.recover(part)

    def refuse_oversized(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Treat a record batch as if the leader had refused it with MESSAGE_TOO_LARGE.

        Requires that no request of the partition is unanswered.
        """
        part.error_code = error_codes.MESSAGE_TOO_LARGE
        part.error_message = (
            f"a record batch of {out.size} bytes does not fit into a request of "
            f"{self._settings.max_request_bytes} bytes (producer.max.request.size)"
        )
        part.refused = out
        part.record_errors = {}
        # Deferred, because the caller is building a request.
        part.retry_timer = self._loop.call_later(0.0, lambda: self.recover(part))

    def recover(self, part: ProducePartition) -> None:
        """Requeue the unacknowledged batches of a failed partition, and react to its error."""
        if self._producer.is_closing:
            return
        code = part.error_code
        part.pending.extendleft(reversed(part.in_flight))
        part.in_flight.clear()
        remedy = error_codes.remedy(code)
        if remedy is Remedy.REFUSED:
            if self._replace_refused(part, code):
                self._retry(part)
                return
            remedy = Remedy.QUARANTINE
        part.listener.on_produce_error(part, code, part.error_message)
        if self._producer.transaction_control is not None and code in error_codes.TRANSACTION_FATAL:
            self._producer.transaction_control.on_transaction_error(code)
            return
        pause = part.backoff.next_pause(slow=remedy is Remedy.QUARANTINE)
        if remedy is Remedy.QUARANTINE and part.listener.on_rewind(part, pause):
            self.drop(part)
            return
        for out in part.pending:
            out.is_in_doubt |= out.is_acked
            out.is_acked = False  # the broker detects the duplicates
            out.detach_if_sparse(self._budget)
        if remedy is Remedy.COMPARE and part.producer_id != NO_PRODUCER_ID:
            if part.out_of_order_twice:
                part.out_of_order_twice = False
                self.drop(part)
                part.listener.on_sequence_lost(part, pause)
                return
            part.out_of_order_twice = True  # resend once with the same sequences
        if remedy is Remedy.REFRESH:  # the metadata may be of a deleted topic
            part.error_code = error_codes.NONE
            part.refused = None
            self._producer.await_metadata(part, pause)
            return
        part.retry_timer = self._loop.call_later(pause, lambda: self._retry(part))

    def _replace_refused(self, part: ProducePartition, code: int) -> bool:
        """Replace a refused record batch by the batches that the listener returns.

        The broker appended neither it nor any later batch, so their sequences are reused.
        """
        refused = part.refused
        if refused is None or not part.pending or part.pending[0] is not refused:
            return False  # resend the batches before it; then it is refused again
        pieces = part.listener.on_refused(
            RefusedBatch(part, refused, code, part.error_message, part.record_errors)
        )
        if pieces is None:
            return False
        part.pending.popleft()
        refused.release()
        if refused.sequence >= 0:
            part.next_sequence = refused.sequence
        for out in part.pending:
            out.sequence = -1
            out.is_acked = False
        part.pending.extendleft(reversed(pieces))
        return True

    def drop(self, part: ProducePartition) -> None:
        """Drop the queue; the broker appended none of it, so its sequences are reused."""
        first = part.pending[0].sequence if part.pending else -1
        if first >= 0:
            part.next_sequence = first
        for out in part.pending:
            out.release()
        part.pending.clear()
        part.error_code = error_codes.NONE
        part.refused = None
        if part.retry_timer is not None:
            part.retry_timer.cancel()
            part.retry_timer = None

    def _retry(self, part: ProducePartition) -> None:
        if self._producer.is_closing:
            return
        part.retry_timer = None
        part.error_code = error_codes.NONE
        part.refused = None
        if part.pending and part.queue is None:
            self._producer.enqueue_for_leader(part)
        self._producer.send_ready()
