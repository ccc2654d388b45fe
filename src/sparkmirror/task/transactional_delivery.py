# SPDX-License-Identifier: Apache-2.0
"""Exactly-once delivery: records and their positions are committed in one transaction.

    WRITING --time--> DRAINING --all answered--> STORING --positions answered--> COMMITTING
       ^                  |                         |                                |
       |                  +----- doubt remains -----+---> ABORTING                   |
       +------------------------------ ended ---------------+------------------------+

From DRAINING on no new record is sent; fetching continues. After an abort every partition is read
again from its last committed position. A transaction begins with its first record batch and is
committed at least `commit_seconds` after the last commit. A task that lags keeps it open longer, so
that commits take at most a fifth of its time. A fenced task ends; the driver fences before it reads
positions and then continues. If a transaction ends with another producer id, nothing is sent before
the id is registered (REGISTERING). Owned by the loop's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sparkmirror.model import TopicPartition
from sparkmirror.quantities import format_duration
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.latency_histogram import BatchTimes, Latencies
from sparkmirror.task.messages import TransactionStart
from sparkmirror.task.offset_map_writer import OffsetMapWriter
from sparkmirror.task.offset_sync_writer import OffsetSyncWriter
from sparkmirror.task.position_writer import PositionWriter
from sparkmirror.task.producer_registration import ProducerRegistration
from sparkmirror.task.read_control import ReadControl
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop, Timer
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.transaction import ProducerIdAndEpoch, TransactionClient, TransactionState

_WRITING_SHARE = 4  # ratio of writing time to commit time of a task that lags
_MAX_COMMIT_INTERVAL_SECONDS = 2.0  # of a task that lags
_TIMEOUT_SHARE = 3  # wait for responses for this fraction of the transaction timeout


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The timing of transactions."""

    commit_seconds: float
    flush_seconds: float  # delay to store positions that moved without a record
    timeout_ms: int


class _CommitPhase(Enum):
    REGISTERING = "registering"
    WRITING = "writing"
    DRAINING = "draining"
    STORING = "storing"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FINISHED = "finished"


class TransactionalDelivery:
    """One task's transactions: its producer's `TransactionControl`, listener of its client."""

    def __init__(
        self,
        loop: EventLoop,
        target: Cluster,
        producer: Producer,
        positions: PositionWriter,
        offset_map: OffsetMapWriter,
        syncs: OffsetSyncWriter | None,
        parts: Sequence[CopyPartition],
        read_control: ReadControl,
        reporter: IncidentReporter,
        registration: ProducerRegistration,
        start: TransactionStart,
        limits: TransactionLimits,
    ) -> None:
        self._loop = loop
        self._producer = producer
        self._positions = positions
        self._map = offset_map
        self._syncs = syncs
        self._parts = parts
        self._sources: Mapping[TopicPartition, TopicPartition] = {
            part.target.tp: part.source.tp for part in parts
        }
        self._read_control = read_control
        self._reporter = reporter
        self._registration = registration
        self._registered_id = start.producer_id
        self._limits = limits
        self._alias = target.alias
        self._transactions = TransactionClient(
            loop,
            target,
            start.transactional_id,
            ProducerIdAndEpoch(start.producer_id, start.producer_epoch),
            limits.timeout_ms,
            self,
        )
        self.transactional_id = start.transactional_id.encode()
        self._state = _CommitPhase.WRITING
        self._commit_timer: Timer | None = None
        self._add_timer: Timer | None = None
        self._deadline = 0.0
        self._held_since = 0.0
        self._ended_at = 0.0
        self._commit_interval = limits.commit_seconds
        self._is_behind = False
        self._wanted: dict[TopicPartition, ProducePartition] = {}  # not in the transaction yet
        self._written: dict[TopicPartition, ProducePartition] = {}  # written in the transaction
        self._stored: list[CopyPartition] = []  # with positions in the transaction
        self._uncommitted: list[BatchTimes] = []  # acknowledged in the transaction
        self._is_finishing = False
        self._fatal_code = error_codes.NONE
        self._backoff = Backoff()
        self.latencies = Latencies()
        producer.transaction_control = self
        for listener in (positions.listener, offset_map.listener):
            listener.handle_lost_sequence = self.handles_lost_sequence

    # --- Delivery

    @property
    def error(self) -> str:
        """The error of the transaction coordinator, or why the task was fenced."""
        code = self._fatal_code or self._transactions.error_code
        if not code:
            return ""
        name = self._transactions.transactional_id
        return f"{self._alias}: {name}: {error_codes.name(code)}: {error_codes.advice(code)}"

    @property
    def is_fenced(self) -> bool:
        """Whether another task has the transactional id, or the transaction timed out."""
        return self._fatal_code != error_codes.NONE

    @property
    def is_flushed(self) -> bool:
        """Whether the last transaction is committed or aborted."""
        return self._state is _CommitPhase.FINISHED

    def on_partition_started(self, part: CopyPartition) -> None:
        """Set the savepoint for an abort."""
        part.set_savepoint()

    def on_acked(self, part: CopyPartition, out: OutgoingBatch) -> None:
        """Schedule the next commit."""
        self._uncommitted.append(
            BatchTimes(part.times, out.count, out.max_timestamp, out.fetched_at)
        )
        if self._commit_timer is None and self._state is _CommitPhase.WRITING:
            wait = self._ended_at + self._commit_interval - time.monotonic()
            self._commit_timer = self._loop.call_later(max(wait, 0.0), self._begin_commit)

    def on_produce_response(self) -> None:
        """Advance the current commit or abort, if any."""
        if self._state is not _CommitPhase.WRITING:
            self._advance()

    def handles_lost_sequence(self, part: ProducePartition) -> bool:
        """Abort: the next transaction has new sequences."""
        self._abort(f"{part.tp}: out-of-order sequence")
        return True

    def handles_truncated_target(self, part: ProducePartition) -> bool:
        """End the task; the driver finds the position to resume from."""
        self._reporter.notice(f"aborted: {self._alias}: {part.tp} lost committed records")
        self.on_fatal_error(error_codes.TARGET_TRUNCATED)
        return True

    def store_position(self, part: CopyPartition, then: Callable[[], None]) -> None:  # noqa: ARG002
        """Call `then` at once: the position is committed with the next records."""
        then()

    def tick(self, now: float) -> None:
        """Abort after a timeout; commit positions that moved without a record."""
        if self._state in (_CommitPhase.DRAINING, _CommitPhase.STORING) and now > self._deadline:
            self._abort(
                f"no response from the target for {format_duration(now - self._held_since)}"
            )
        is_open = self._transactions.state is TransactionState.OPEN
        if self._state is _CommitPhase.WRITING and is_open and now > self._deadline:
            self._begin_commit()  # nothing is acknowledged; the coordinator would abort it
        is_quiet = self._state is _CommitPhase.WRITING and self._commit_timer is None
        is_due = is_quiet and now - self._ended_at > self._limits.flush_seconds
        if is_due and any(part.is_dirty for part in self._parts):
            self._begin_commit()

    def flush(self) -> None:
        """Commit the open transaction, unless a commit is in progress."""
        self._is_finishing = True
        if self._state is _CommitPhase.WRITING:
            self._begin_commit()
        elif self._state is _CommitPhase.REGISTERING:  # nothing is written
            self._state = _CommitPhase.FINISHED

    def close(self) -> None:
        """Roll back the open transaction; the driver fences the id before it reads positions."""
        self._transactions.close()
        if not self.is_flushed:
            for part in self._parts:
                part.roll_back()
                part.is_taken_over = False

    # --- TransactionControl

    def may_send(self, part: ProducePartition) -> bool:
        """Return whether a partition may send now: resends, and new batches outside of commits.

        Ledger and dead letters are not in the transaction: they are written before the position
        that depends on them, and a duplicate entry is harmless.
        """
        is_state = self._positions.owns(part) or self._map.owns(part)
        if part.tp not in self._sources and not is_state:
            return True
        if self._fatal_code or self._state in (_CommitPhase.ABORTING, _CommitPhase.FINISHED):
            return False
        if part.pending[0].sequence >= 0:
            return True
        if self._state is not (_CommitPhase.STORING if is_state else _CommitPhase.WRITING):
            return False
        if not self._transactions.contains(part.tp):
            self._request_partition(part)
            return False
        if (part.producer_id, part.producer_epoch) != self._transactions.identity:
            part.producer_id, part.producer_epoch = self._transactions.identity
            part.next_sequence = 0
            part.is_producer_known = True  # an out-of-order sequence is refused and aborts
        self._written[part.tp] = part
        return True

    def on_transaction_error(self, code: int) -> None:
        """Handle a leader that does not know the transaction or knows a newer producer epoch."""
        self.on_fatal_error(code)

    def _request_partition(self, part: ProducePartition) -> None:
        self._wanted[part.tp] = part
        if self._add_timer is None:  # one request per iteration of the event loop
            self._add_timer = self._loop.call_later(0.0, self._add_partitions)

    def _add_partitions(self) -> None:
        self._add_timer = None
        if self._state not in (_CommitPhase.WRITING, _CommitPhase.STORING):
            return  # `may_send` requests them again after the transaction has ended
        internal = {
            self._positions.partition_of(self._sources[tp])  # for the position
            for tp in self._wanted
            if tp in self._sources
        }
        if self._map.topic:
            internal.add(self._map.topic_partition)
        if self._transactions.state is TransactionState.EMPTY:
            self._set_deadline()
        self._transactions.add_partitions(internal | self._wanted.keys())

    # --- from the TransactionClient

    def on_partitions_added(self) -> None:
        """Send the record batches that waited for these partitions."""
        self._wanted = {
            tp: part for tp, part in self._wanted.items() if not self._transactions.contains(tp)
        }
        if self._is_behind:
            self._is_behind = False
            commit_time = time.monotonic() - self._held_since
            longest = max(_MAX_COMMIT_INTERVAL_SECONDS, self._limits.commit_seconds)
            wanted = max(_WRITING_SHARE * commit_time, self._limits.commit_seconds)
            self._commit_interval = min(wanted, longest)
        self._producer.recheck_parked()

    def on_partition_refused(self, tp: TopicPartition, code: int) -> None:
        """Fail the partition; for the offset map, disable it; for positions, end the task."""
        part = self._wanted.pop(tp, None)
        if tp == self._map.topic_partition:
            self._map.disable(f"{error_codes.name(code)}: {error_codes.advice(code)}")
            self._map.discard()
            self._producer.recheck_parked()
        elif tp.topic == self._positions.topic:
            self.on_fatal_error(code)
        elif part is not None:
            self._producer.fail_partition(part, code)

    def on_transaction_ended(self, *, is_committed: bool, is_renewed: bool) -> None:  # noqa: ARG002
        """Start the next transaction; `may_send` sets a new producer epoch per partition."""
        self._ended_at = time.monotonic()
        touched, self._written = self._written, {}
        self._wanted.clear()
        if is_committed:
            self._on_committed(touched)
        else:
            self._on_aborted()
        self._uncommitted.clear()
        if self._is_finishing:
            self._state = _CommitPhase.FINISHED
            return
        self._state = _CommitPhase.WRITING
        identity = self._transactions.identity
        if identity.producer_id != self._registered_id:
            self._registered_id = identity.producer_id
            self._registration.register(identity.producer_id, self._transactions.transactional_id)
            if not self._registration.is_done:
                self._state = _CommitPhase.REGISTERING
        self._commit_interval = self._limits.commit_seconds
        self._is_behind = is_committed and self._producer.has_parked
        self._producer.recheck_parked()

    def on_fatal_error(self, code: int) -> None:
        """End the task; fencing the transactional id aborts the open transaction."""
        self._fatal_code = self._fatal_code or code

    def _on_committed(self, touched: Collection[TopicPartition]) -> None:
        for part in self._stored:
            if part.target.tp in touched:
                part.downstream += 1  # the transaction marker
            runs = part.drain_unsynced()
            if self._syncs is not None:
                self._syncs.add_runs(part.source.tp, runs)
            part.set_savepoint()
        self._stored = []
        self._backoff.reset()
        if self._syncs is not None:
            self._syncs.promote_delayed()
        now_ms, now = time.time() * 1000, time.monotonic()
        self.latencies.add_commit(now - self._held_since)
        for one in self._uncommitted:
            self.latencies.add(one.of_partition, one, now_ms, now)

    def _on_aborted(self) -> None:
        self._stored = []
        pause = self._backoff.next_pause()
        self._map.discard()
        self._positions.discard()  # the next transaction writes its own
        for part in self._parts:
            self._producer.discard(part.target)
            if part.is_taken_over:
                part.roll_back()
                self._read_control.reread(part, pause)

    # --- commit and abort

    def _begin_commit(self) -> None:
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        if self._state is _CommitPhase.WRITING and not self._fatal_code:
            self._stop_sending(_CommitPhase.DRAINING)
            self._advance()

    def _stop_sending(self, state: _CommitPhase) -> None:
        self._state = state
        self._held_since = time.monotonic()
        self._set_deadline()
        self._producer.recheck_ready()

    def _set_deadline(self) -> None:
        timeout = self._limits.timeout_ms / 1000
        self._deadline = time.monotonic() + timeout / _TIMEOUT_SHARE

    def _advance(self) -> None:
        if self._fatal_code:
            return
        if self._state is _CommitPhase.REGISTERING and self._registration.is_done:
            self._state = _CommitPhase.WRITING
            self._producer.recheck_parked()
        if self._state is _CommitPhase.DRAINING and all(
            map(self._is_resolved, self._written.values())
        ):
            self._write_positions()
        is_stored = self._positions.is_idle and self._map.is_idle
        if self._state is _CommitPhase.STORING and is_stored:
            self._state = _CommitPhase.COMMITTING
            self._transactions.commit()
        if self._state is _CommitPhase.ABORTING and not any(
            p.unanswered_requests for p in self._written.values()
        ):
            if self._transactions.state is TransactionState.EMPTY:
                self.on_transaction_ended(is_committed=False, is_renewed=False)
            else:
                self._transactions.abort()

    def _is_resolved(self, part: ProducePartition) -> bool:
        """Return whether it is certain which of the sent record batches are on the target."""
        return not part.in_flight and part.unsend_refused()

    def _write_positions(self) -> None:
        self._stored = [part for part in self._parts if part.is_dirty and part.is_taken_over]
        is_empty = self._transactions.state is TransactionState.EMPTY
        if is_empty and not self._stored:
            self.on_transaction_ended(is_committed=True, is_renewed=False)
            return
        self._state = _CommitPhase.STORING
        for part in self._stored:
            part.is_dirty = False
        self._map.write(
            [
                (part.source.tp, chunk)
                for part in self._stored
                for chunk in part.chunks_to_write(markers=int(part.target.tp in self._written))
            ]
        )
        # A task without transactions cannot use a transactional producer.
        self._positions.write(
            (part.source.tp, replace(part.stored_position(), producer=None))
            for part in self._stored
        )

    def _abort(self, reason: str) -> None:
        if (
            self._state not in (_CommitPhase.WRITING, _CommitPhase.DRAINING, _CommitPhase.STORING)
            or self._fatal_code
        ):
            return
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        self._reporter.notice(
            f"aborted: {self._alias}: {self._transactions.transactional_id}: {reason}; the records "
            "of the transaction are copied again"
        )
        self._stop_sending(_CommitPhase.ABORTING)
        self._advance()
