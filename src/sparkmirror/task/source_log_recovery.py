# SPDX-License-Identifier: Apache-2.0
"""Handles source logs that lost records at their start (a gap) or at their end (a truncation).

Each case has a policy. Under `stop` the partition reports the error, waits and retries; otherwise
it writes a ledger entry and continues. After a truncation the partition first waits for outstanding
acknowledgements, then stores the new end as its position, and only then sends new records. So the
records after a stored position never mix the old and the new log. During a comparison, the
comparison decides. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, Incident, IncidentKind
from sparkmirror.task.comparison import Comparison, ComparisonOutcome
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.delivery import Delivery
from sparkmirror.task.events import PartitionEvents
from sparkmirror.task.incident_reporter import IncidentReporter, new_incident
from sparkmirror.task.messages import TaskSettings
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_partition import UNKNOWN_LEADER_EPOCH, FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_queries import request_epoch_end, request_log_bounds


class SourceLogRecovery:
    """The log changes of a task's source partitions."""

    def __init__(
        self,
        loop: EventLoop,
        source: Cluster,
        fetcher: Fetcher,
        settings: TaskSettings,
        reporter: IncidentReporter,
        delivery: Delivery,
        refused: RefusedRecords,
        parts: Mapping[TopicPartition, CopyPartition],
        events: PartitionEvents,
    ) -> None:
        self._loop = loop
        self._source = source
        self._fetcher = fetcher
        self._policies = settings.policies
        self._is_read_committed = settings.fetch.reads_committed
        self._reporter = reporter
        self._delivery = delivery
        self._refused = refused
        self._parts = parts
        self._events = events
        self._closing = False
        # Positions that were beyond the log end once.
        self._seen_beyond_end: dict[TopicPartition, int] = {}
        # Log starts of logs that were truncated at an unknown offset.
        self._unknown_truncations: dict[TopicPartition, int] = {}
        # Called when the target has acknowledged all records that were read.
        self._draining: dict[TopicPartition, Callable[[], None]] = {}

    def check_drained(self) -> None:
        """Continue partitions whose records have all been acknowledged."""
        for tp in [*self._draining]:
            mine = self._parts[tp]
            if not mine.is_taken_over:
                del self._draining[tp]  # a comparison takes its place
            elif mine.target.is_idle:
                self._draining.pop(tp)()

    # --- gaps and truncations

    def on_out_of_range(self, part: FetchPartition) -> None:
        """Find out whether the position is before or after the log, and apply the policy."""

        def bounds(earliest: int, latest: int) -> None:
            if part.position < earliest:
                self._handle_gap(part, earliest)
            elif self._seen_beyond_end.get(part.tp) != part.position:
                # Retry once: a new leader may not know its log end yet.
                self._seen_beyond_end[part.tp] = part.position
                self._fetcher.seek_later(part, part.position, part.backoff.next_pause())
            elif part.position > latest:
                self._find_truncation(part, earliest, latest)
            else:
                self._handle_restored_log(part, earliest)

        if not self._closing:
            request_log_bounds(
                self._source,
                part.tp,
                read_committed=False,  # records after an open transaction are not lost
                done=bounds,
                failed=lambda code: self._retry_later(
                    part, code, lambda: self.on_out_of_range(part)
                ),
            )

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """Handle a log that was truncated at this offset and has new records there."""
        self._handle_truncation(part, end_offset)

    def on_ended_early(self, part: FetchPartition) -> None:
        """Finish a partition of a bounded run if the source log really ends here."""

        def is_waiting() -> bool:
            return not self._closing and mine.is_taken_over and part.is_at_end

        def bounds(_earliest: int, latest: int) -> None:
            if is_waiting() and part.position >= latest:
                part.stop_at = part.position
                self._fetcher.pause(part)

        def failed(_code: int) -> None:  # the next fetch reports the error of the leader
            self._loop.call_later(part.backoff.next_pause(), lambda: self.on_ended_early(part))

        mine = self._parts[part.tp]
        if is_waiting() and not part.is_finished:
            request_log_bounds(
                self._source,
                part.tp,
                read_committed=self._is_read_committed,
                done=bounds,
                failed=failed,
            )

    def _handle_gap(self, part: FetchPartition, earliest: int) -> None:
        comparison = self._parts[part.tp].comparison
        if comparison is not None:
            comparison.log_start = earliest
            self._fetcher.resume_at(part, earliest)
            return
        cause = f"its log starts at offset {earliest}"
        found = self._gap_incident(part.tp, (part.position, earliest - 1), cause)
        if found.policy == STOP:
            self._reporter.report(found)
            self._retry_later(part, error_codes.GAP, lambda: self.on_out_of_range(part))
        else:
            self._after_drain(part, lambda: self._skip_gap(part, earliest, found))

    def _find_truncation(self, part: FetchPartition, earliest: int, latest: int) -> None:
        """Find the truncation offset with OffsetForLeaderEpoch."""

        def epoch_ended(leader_epoch: int, end_offset: int) -> None:
            if end_offset < 0:
                self._truncated_at_unknown(part, earliest, latest)
            else:
                part.last_leader_epoch = leader_epoch
                self._handle_truncation(part, end_offset)

        def failed(code: int) -> None:
            if code == error_codes.UNSUPPORTED_VERSION:
                self._truncated_at_unknown(part, earliest, latest)
            else:
                self._retry_later(part, code, lambda: self.on_out_of_range(part))

        if part.last_leader_epoch == UNKNOWN_LEADER_EPOCH:
            self._truncated_at_unknown(part, earliest, latest)
        else:
            request_epoch_end(
                self._source, part.tp, part.last_leader_epoch, done=epoch_ended, failed=failed
            )

    def _truncated_at_unknown(self, part: FetchPartition, earliest: int, latest: int) -> None:
        """Handle a truncation at an unknown offset, at or before the current log end."""
        if latest > earliest:
            self._unknown_truncations[part.tp] = earliest
        self._handle_truncation(part, latest)

    def _handle_restored_log(self, part: FetchPartition, earliest: int) -> None:
        """Handle a leader that has the position but does not know the leader epoch read before."""
        epoch, part.last_leader_epoch = part.last_leader_epoch, UNKNOWN_LEADER_EPOCH
        if epoch != UNKNOWN_LEADER_EPOCH and part.position > earliest:
            cause = (
                f"its leader does not know leader epoch {epoch}: an older copy of the log may have "
                "been restored; records written at these offsets since then are not copied"
            )
            policy = self._policies.source_truncated
            bounds = (earliest, part.position - 1)
            found = new_incident(IncidentKind.SOURCE_TRUNCATED, part.tp, bounds, -1, cause, policy)
            if policy == STOP:
                part.last_leader_epoch = epoch
                self._reporter.report(found)
                self._retry_later(
                    part, error_codes.SOURCE_TRUNCATED, lambda: self.on_out_of_range(part)
                )
                return
            self._reporter.record([found], lambda: None)
        self._fetcher.seek_later(part, part.position, part.backoff.next_pause())

    def _handle_truncation(self, part: FetchPartition, end: int) -> None:
        mine = self._parts[part.tp]
        if mine.comparison is not None:
            self._fetcher.pause(part)
            self._events.source_truncated(mine, end)
        elif mine.is_taken_over:
            self._after_drain(part, lambda: self._resume_at_truncation(mine, end))

    def _after_drain(self, part: FetchPartition, then: Callable[[], None]) -> None:
        """Call `then` when all records that were read are on the target."""
        self._fetcher.pause(part)
        self._draining[part.tp] = then
        self.check_drained()

    def _skip_gap(self, part: FetchPartition, position: int, found: Incident) -> None:
        """Continue after the deleted records."""
        mine = self._parts[part.tp]
        self._record_and_resume(mine, position, found, lambda: mine.set_position(position))

    def _resume_at_truncation(self, mine: CopyPartition, end: int) -> None:
        """Continue at the new log end, after all records that were read are on the target."""
        part = mine.source
        if mine.position <= end:  # no lost record was copied
            self._fetcher.seek(part, mine.position)
            self._fetcher.send_fetches()
            return
        found = self._truncation_incident(part.tp, (end, mine.position - 1))
        if found.policy == STOP:
            self._reporter.report(found)
            self._seen_beyond_end.pop(part.tp, None)
            self._retry_later(
                part, error_codes.SOURCE_TRUNCATED, lambda: self.on_out_of_range(part)
            )
            return

        def move() -> None:
            self._refused.forget_from(part.tp, end)
            mine.truncate_to(end)

        self._record_and_resume(mine, end, found, move)

    def _record_and_resume(
        self, mine: CopyPartition, position: int, found: Incident, move: Callable[[], None]
    ) -> None:
        """Write the ledger entry, then move to the position and store it, then read from there."""
        before = mine.position

        def recorded() -> None:
            if mine.is_taken_over and mine.position == before:  # else a later fetch retries
                move()
                self._delivery.store_position(mine, stored)

        def stored() -> None:
            if mine.is_taken_over and mine.position == position:
                self._fetcher.resume_at(mine.source, position)

        self._reporter.record([found], recorded)

    # --- after a comparison

    def on_compared(
        self, mine: CopyPartition, comparison: Comparison, then: Callable[[], None]
    ) -> None:
        """Write ledger entries, then apply the comparison; under `stop`, compare again."""
        tp = mine.source.tp
        found: list[Incident] = []
        if comparison.only_on_target is not None:
            found.append(self._truncation_incident(tp, comparison.only_on_target))
        if comparison.gap is not None:
            cause = (
                f"its log starts at offset {comparison.gap[1] + 1}; the first offset is an "
                "estimate that assumes consecutive source offsets"
            )
            found.append(self._gap_incident(tp, comparison.gap, cause))
        stopping = next((one for one in found if one.policy == STOP), None)
        if stopping is not None:
            self._reporter.report(stopping)
            is_gap = stopping.kind is IncidentKind.GAP
            code = error_codes.GAP if is_gap else error_codes.SOURCE_TRUNCATED
            mine.set_source_error(code)
            self._events.compare(mine, mine.source.backoff.next_pause(slow=True))
            return

        def recorded() -> None:
            mine.apply_comparison(comparison)
            if comparison.outcome is ComparisonOutcome.SOURCE_TRUNCATED:
                self._refused.forget_from(tp, comparison.position)
            if comparison.outcome is ComparisonOutcome.MATCHED and comparison.gap is None:
                then()
            else:  # records of the old and the new log must not follow the same stored position
                self._delivery.store_position(mine, then)

        self._reporter.record(found, recorded)

    def _gap_incident(self, tp: TopicPartition, offsets: tuple[int, int], cause: str) -> Incident:
        first, last = offsets
        return new_incident(
            IncidentKind.GAP, tp, offsets, last - first + 1, cause, self._policies.gap
        )

    def _truncation_incident(self, tp: TopicPartition, offsets: tuple[int, int]) -> Incident:
        first, last = offsets
        records = last - first + 1
        cause = f"its log was truncated at offset {first}, for example by an unclean election"
        log_start = self._unknown_truncations.pop(tp, None)
        if log_start is None:
            cause += "; copied records stay on the target"
        else:
            cause += (
                " or earlier; the leader epoch is unknown, so records written at offsets "
                f"{log_start} to {first - 1} after the truncation are not copied"
            )
            first, records = log_start, -1
        policy = self._policies.source_truncated
        return new_incident(
            IncidentKind.SOURCE_TRUNCATED, tp, (first, last), records, cause, policy
        )

    def _retry_later(self, part: FetchPartition, code: int, again: Callable[[], None]) -> None:
        self._parts[part.tp].set_source_error(code)
        pause = part.backoff.next_pause(slow=not error_codes.is_retriable(code))
        self._loop.call_later(pause, lambda: None if self._closing else again())

    def close(self) -> None:
        """Send no more requests to the source."""
        self._closing = True
