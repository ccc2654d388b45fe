# SPDX-License-Identifier: Apache-2.0
"""Runs comparisons: reads the target, adds its batches to `Comparison`, handles timeouts.

`SourceReader` adds the source batches. The number of concurrent comparisons is limited; the others
are queued. Owned by the task's thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task.comparison import Comparison, ComparisonOutcome
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.events import PartitionEvents
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.messages import OtherWriter
from sparkmirror.task.read_control import ReadControl
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.task.target_readback import TargetReadback
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_queries import request_log_bounds
from sparkmirror.wire.memory import SharedBuffer
from sparkmirror.wire.outgoing import AbortedTransaction
from sparkmirror.wire.record_batch import split_batches

_MAX_RUNNING = 64  # concurrent comparisons; the fetchers' budgets limit their memory
_READ_TIMEOUT_SECONDS = 3.0  # for appended records to become readable, unless the leader changed
_OFFSET_NOT_AVAILABLE = 78
_REPORT_AFTER_SECONDS = 3.0  # a comparison that takes longer is shown in the status


class ComparisonRunner:
    """The comparisons of one task; the listener of the target's fetcher."""

    def __init__(
        self,
        target: Cluster,
        fetcher: Fetcher,
        read_control: ReadControl,
        truncation: TargetTruncation,
        recovery: SourceLogRecovery,
        reporter: IncidentReporter,
        readback: TargetReadback,
        events: PartitionEvents,
        backoff: Backoff,
    ) -> None:
        self._target = target
        self._fetcher = fetcher
        self._read_control = read_control
        self._truncation = truncation
        self._recovery = recovery
        self._reporter = reporter
        self._readback = readback
        self._events = events
        self._backoff = backoff
        self._queue: deque[tuple[CopyPartition, int | None]] = deque()
        self._comparing: dict[TopicPartition, CopyPartition] = {}
        self._readers: dict[TopicPartition, FetchPartition] = {}
        self._waiting_since: dict[TopicPartition, float] = {}  # for more target records
        self._started_at: dict[TopicPartition, float] = {}
        self._pending_log_ends: set[TopicPartition] = set()  # requests to the source
        # First unmatched target offset, and since when the source log has ended before it matched.
        self._ended: dict[TopicPartition, tuple[int, float]] = {}
        self._timed_out_at: dict[TopicPartition, int] = {}  # end sequence of the last timeout
        self._closing = False

    @property
    def running(self) -> int:
        """How many comparisons are under way."""
        return len(self._comparing)

    def enqueue(self, part: CopyPartition, goal: int | None) -> None:
        """Queue a comparison up to a sequence, or up to the target's log end if None."""
        self._queue.append((part, goal))

    def start_queued(self) -> None:
        """Start queued comparisons up to the limit."""
        started: list[CopyPartition] = []
        while self._queue and len(self._comparing) < _MAX_RUNNING:
            part, goal = self._queue.popleft()
            tp, point = part.target.tp, part.resume_point
            self._readback.cancel(tp)
            part.comparison = Comparison(
                point.producer,
                point.position,
                point.downstream,
                goal,
                leader_epoch=part.leader_epoch,
                estimate=part.estimate.estimate if part.estimate is not None else None,
            )
            self._comparing[tp] = part
            self._waiting_since[tp] = self._started_at[tp] = time.monotonic()
            self._readers[tp] = FetchPartition(tp, point.downstream + 1, listener=self)
            started.append(part)
        self._reporter.counts.comparisons += len(started)
        if started:
            self._fetcher.add(self._readers[part.target.tp] for part in started)
            self._read_control.seek_to_resume_points(started)

    def step(self, part: CopyPartition) -> None:
        """Compare the batches read so far; conclude if that is possible."""
        comparison = part.comparison
        if comparison is None:
            return
        done = comparison.step()
        self._read_control.release_compared(part, done)
        reader = self._readers[part.target.tp]
        reader.queued_bytes = comparison.held_bytes
        self._fetcher.on_drained(reader)
        if not part.expects_other_writers:
            self._reporter.other_writers.update(
                OtherWriter(*part.target.tp, producer) for producer in comparison.other_writers
            )
        if comparison.outcome is None and comparison.waits_for_target:
            if comparison.reads_to_log_end and reader.is_at_end:
                comparison.on_target_end()
                self._read_control.release_compared(part, comparison.step())
        elif (
            comparison.outcome is None
            and comparison.waits_for_source
            and part.source.is_at_end
            and self._is_source_end_confirmed(part, comparison)
        ):
            comparison.on_source_end(part.source.position)
        if comparison.outcome is not None:
            self._conclude(part, comparison, comparison.outcome)

    def _conclude(
        self, part: CopyPartition, comparison: Comparison, outcome: ComparisonOutcome
    ) -> None:
        self._remove(part)
        is_mismatch = outcome is ComparisonOutcome.MISMATCH
        if is_mismatch and self._truncation.retry_earlier(part):
            self.start_queued()
            return
        if is_mismatch:
            self._reporter.report_at(
                IncidentKind.RESUME_MISMATCH,
                part,
                f"the records after offset {part.resume_point.downstream} on {self._target.alias} "
                f"do not match the source records after offset {part.resume_point.position - 1}; "
                "duplicates are possible",
            )
        elif comparison.missing_on_target:
            missing = counted(comparison.missing_on_target, "source record")
            self._reporter.notice(
                f"resume: {part.source.tp}: {self._target.alias} lacks {missing} before offset "
                f"{comparison.position}"
            )
        self._recovery.on_compared(part, comparison, lambda: self._resume_unless_closing(part))
        self.start_queued()

    def _resume_unless_closing(self, part: CopyPartition) -> None:
        if not self._closing:
            self._events.resume([part])

    def on_source_truncated(self, part: CopyPartition, end: int) -> None:
        """Handle the truncation at `end` of a source partition that is being compared."""
        comparison = part.comparison
        if comparison is None:
            return
        if end < comparison.start or comparison.is_source_unread:
            comparison.truncation_offset = end
            if end >= comparison.start:
                self._read_control.seek_to_resume_points([part])
            self.step(part)
        else:  # truncated during the comparison
            self._remove(part)
            self._events.compare(part, 0.0)
            self.start_queued()

    def _is_source_end_confirmed(self, part: CopyPartition, comparison: Comparison) -> bool:
        """Return whether the source log has ended here for some seconds; else request its end.

        The last fetch may be older than records that another task of this flow has copied since,
        and a new leader may not know its log end yet.
        """
        tp, unmatched = part.target.tp, comparison.first_unmatched
        now = time.monotonic()
        known, since = self._ended.get(tp, (-1, now))
        if known == unmatched and now - since > _READ_TIMEOUT_SECONDS:
            return True

        def ended(end: int | None) -> None:
            self._pending_log_ends.discard(tp)
            if end is None or part.comparison is not comparison:
                return
            if comparison.first_unmatched != unmatched:
                return
            if end > part.source.position:
                part.source.is_at_end = False  # the fetcher reads on
                self._ended.pop(tp, None)
            elif self._ended.get(tp, (-1, 0.0))[0] != unmatched:
                self._ended[tp] = (unmatched, time.monotonic())

        if tp not in self._pending_log_ends:
            self._pending_log_ends.add(tp)
            self._read_control.request_log_end(part, ended)
        return False

    def step_all(self) -> None:
        """Step all comparisons; called after each fetch response of the target."""
        for part in [*self._comparing.values()]:
            self.step(part)

    def read_more(self) -> None:
        """Send fetches to the target; source batches may have been released since."""
        if not self._closing:
            self._fetcher.send_fetches()

    def tick(self, now: float) -> None:
        """Called about once a second: handle timeouts, report progress."""
        for tp, part in [*self._comparing.items()]:
            comparison = part.comparison
            reader = self._readers[tp]
            self.step(part)
            if tp not in self._comparing or comparison is None:
                continue
            if not (reader.is_at_end and comparison.waits_for_target):
                self._waiting_since[tp] = now
            elif now - self._waiting_since[tp] > _READ_TIMEOUT_SECONDS:
                self._on_timeout(part, comparison, reader)
                continue
            if now - self._started_at[tp] < _REPORT_AFTER_SECONDS:
                continue
            if part.error_code in (error_codes.NONE, error_codes.COMPARING):
                self._report_progress(part, reader)
            elif self._queue:  # let others run meanwhile
                self._remove(part)
                self._events.compare(part, self._backoff.next_pause())
                self.start_queued()

    def _report_progress(self, part: CopyPartition, reader: FetchPartition) -> None:
        """Show the progress of a comparison in the status."""
        part.set_target_error(
            error_codes.COMPARING,
            f"comparing source and target after source offset {part.resume_point.position - 1}: "
            f"read up to offset {part.source.position} of {part.source.end_offset} on the source, "
            f"{reader.position} of {reader.end_offset} on the target",
        )

    def _on_timeout(
        self, part: CopyPartition, comparison: Comparison, reader: FetchPartition
    ) -> None:
        """Handle accepted records that cannot be read: deleted, or not replicated yet."""
        is_gone = reader.log_start_offset > part.resume_point.downstream + 1
        tp = part.target.tp
        if is_gone and self._timed_out_at.get(tp) == comparison.end_sequence:
            comparison.conclude_unreadable()
            self._conclude(part, comparison, ComparisonOutcome.MISMATCH)
            return
        self._remove(part)
        self.start_queued()
        if self._truncation.retry_earlier(part):
            return
        self._timed_out_at[tp] = comparison.end_sequence
        part.set_target_error(
            _OFFSET_NOT_AVAILABLE, "the leader has records of this flow that are not readable yet"
        )
        self._events.compare(part, 0.0)

    def _remove(self, part: CopyPartition) -> None:
        tp = part.target.tp
        comparison, part.comparison = part.comparison, None
        if comparison is not None:
            self._read_control.release_compared(part, comparison.drain())
        self._comparing.pop(tp, None)
        self._waiting_since.pop(tp, None)
        self._started_at.pop(tp, None)
        self._ended.pop(tp, None)
        self._fetcher.remove(self._readers.pop(tp))

    # --- from the fetcher of the target

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],  # noqa: ARG002 - aborted records are compared too
        buffer: SharedBuffer,  # noqa: ARG002 - the comparison copies what it keeps
    ) -> int:
        """Add record batches of the target to the comparison; `step_all` follows."""
        position = part.position
        comparison = self._comparing[part.tp].comparison
        if comparison is None:
            return position
        try:
            for batch in split_batches(records):
                if batch.next_offset <= position:
                    continue
                comparison.add_target_batch(batch)
                position = batch.next_offset
        except CorruptRecordBatchError:
            if position == part.position:
                raise  # else keep the batches before it; the next fetch starts with it
        part.queued_bytes = comparison.held_bytes
        return position

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:
        """Show the error; without READ or a common version, continue without a comparison."""
        comparing = self._comparing.get(part.tp)
        if comparing is None:
            return
        if code in error_codes.NOT_AUTHORIZED or code == error_codes.UNSUPPORTED_VERSION:
            self._remove(comparing)
            self._events.target_unreadable([comparing])
            self.start_queued()
        else:
            comparing.set_target_error(code, text)

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        comparing = self._comparing.get(part.tp)
        if comparing is not None:
            comparing.set_target_error(error_codes.NONE)

    def on_out_of_range(self, part: FetchPartition) -> None:
        """Continue at the target's log start, or report that its log ends too early."""
        self._readback.cancel(part.tp)
        comparing = self._comparing.get(part.tp)
        if comparing is None:
            return

        def bounds(earliest: int, latest: int) -> None:
            if self._comparing.get(part.tp) is not comparing:
                return
            if part.position > latest:
                self._remove(comparing)
                self._events.target_ends_at(comparing, latest)
                self.start_queued()
            else:
                self._fetcher.resume_at(part, max(earliest, part.position))

        def failed(code: int) -> None:
            if self._comparing.get(part.tp) is comparing:
                comparing.set_target_error(code)
                self._remove(comparing)
                self._events.compare(comparing, self._backoff.next_pause())

        request_log_bounds(self._target, part.tp, read_committed=False, done=bounds, failed=failed)

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """Cannot happen: fetches of the target carry no leader epoch."""

    def on_ended_early(self, part: FetchPartition) -> None:
        """Nothing to do: a comparison waits for records, a read-back has its own end offset."""

    def close(self) -> None:
        """Stop reading the target."""
        self._closing = True
        self._fetcher.close()
