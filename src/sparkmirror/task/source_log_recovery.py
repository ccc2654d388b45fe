# SPDX-License-Identifier: Apache-2.0
"""A source's log that is not what it was: records gone at its beginning, at its end, or damaged.

Each case has a policy. Under `stop` the partition waits, is tried again now and then, and says so;
otherwise it goes on, once the ledger says what was left out. A partition whose log was cut first
lets the target acknowledge what was read of the lost tail, and stores the cut as its position
before it sends a record from there: so a successor never finds both in what was written after a
stored pair. While both sides are compared, the comparison decides. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, Incident, IncidentKind
from sparkmirror.task.comparison import Comparison, ComparisonOutcome
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.incident_reporter import IncidentReporter, new_incident
from sparkmirror.task.messages import TaskSettings
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.corrupt_batch import offset_after_corrupt_batch
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_partition import UNKNOWN_LEADER_EPOCH, FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_queries import request_epoch_end, request_log_bounds

_MAX_ATTEMPTS = 3  # a damaged record batch is read so often before it counts as damaged on the disk


class RecoveryContext(Protocol):
    """The copy task, as this module needs it."""

    @property
    def is_copying(self) -> bool:
        """Whether the task has not begun to end."""

    def compare_again(self, part: CopyPartition, pause: float) -> None:
        """Compare both sides, from the partition's pair."""

    def cut_while_comparing(self, part: CopyPartition, end: int) -> None:
        """The source of a partition that is being compared ends there, or goes on differently."""

    def store(self, part: CopyPartition, then: Callable[[], None]) -> None:
        """Call `then` when no successor can begin before the partition's present position."""


class SourceLogRecovery:
    """What happens to the logs of a task's partitions."""

    def __init__(
        self,
        loop: EventLoop,
        source: Cluster,
        fetcher: Fetcher,
        settings: TaskSettings,
        reporter: IncidentReporter,
        reader: RecoveryContext,
        parts: Mapping[TopicPartition, CopyPartition],
        forget_refused: Callable[[TopicPartition, int], None],
    ) -> None:
        self._loop = loop
        self._forget_refused = forget_refused
        self._source = source
        self._fetcher = fetcher
        self._policies = settings.policies
        self._is_read_committed = settings.fetch.isolation_level == "read_committed"
        self._reporter = reporter
        self._reader = reader
        self._parts = parts
        self._seen_beyond_end: dict[
            TopicPartition, int
        ] = {}  # positions that seemed beyond the end once
        self._unknown_truncations: dict[
            TopicPartition, int
        ] = {}  # where logs begin that were cut somewhere
        # What to do when the target has all that was read.
        self._draining: dict[TopicPartition, Callable[[], None]] = {}
        self._attempts: dict[TopicPartition, tuple[int, int]] = {}  # position, tries

    def check_drained(self) -> None:
        """Go on with partitions whose lost tail has been acknowledged by the target."""
        for tp in [*self._draining]:
            mine = self._parts[tp]
            if not mine.is_taken_over:
                del self._draining[tp]  # both sides are compared instead
            elif mine.target.is_idle:
                self._draining.pop(tp)()

    # --- gone at the beginning or at the end

    def on_out_of_range(self, part: FetchPartition) -> None:
        """Find out what happened to the log, and go on or report."""

        def bounds(earliest: int, latest: int) -> None:
            if part.position < earliest:
                self._handle_gap(part, earliest)
            elif self._seen_beyond_end.get(part.tp) != part.position:
                # Is it, or was it a leader that did not know its own end yet?
                self._seen_beyond_end[part.tp] = part.position
                self._fetcher.seek_later(part, part.position, part.backoff.next_pause())
            elif part.position > latest:
                self._find_truncation(part, earliest, latest)
            else:
                self._handle_restored_log(part, earliest)

        if self._reader.is_copying:
            request_log_bounds(
                self._source,
                part.tp,
                read_committed=False,  # what is behind an open transaction is not lost
                done=bounds,
                failed=lambda code: self._retry_later(
                    part, code, lambda: self.on_out_of_range(part)
                ),
            )

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """The source lost records after this offset, and has been written anew from there."""
        self._handle_truncation(part, end_offset)

    def on_ended_early(self, part: FetchPartition) -> None:
        """A bounded run has read everything and wants more: it ends here if there is no more."""

        def is_waiting() -> bool:
            return self._reader.is_copying and mine.is_taken_over and part.is_at_end

        def bounds(_earliest: int, latest: int) -> None:
            if is_waiting() and part.position >= latest:
                part.stop_at = part.position
                self._fetcher.pause(part)

        def failed(_code: int) -> None:  # what is wrong with the leader, its next answer tells
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
        cause = f"its log begins at offset {earliest}"
        found = self._gap_incident(part.tp, (part.position, earliest - 1), cause)
        if found.policy == STOP:
            self._reporter.report(found)
            self._retry_later(part, error_codes.GAP, lambda: self.on_out_of_range(part))
        else:
            self._after_drain(part, lambda: self._skip_gap(part, earliest, found))

    def _find_truncation(self, part: FetchPartition, earliest: int, latest: int) -> None:
        """The position is beyond the end: the leader epoch tells where the log was cut."""

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
        """Nobody knows where the log was cut; it was not after its present end."""
        if latest > earliest:
            self._unknown_truncations[part.tp] = earliest
        self._handle_truncation(part, latest)

    def _handle_restored_log(self, part: FetchPartition, earliest: int) -> None:
        """The log holds the position, but its leader never saw an epoch that was read before."""
        epoch, part.last_leader_epoch = part.last_leader_epoch, UNKNOWN_LEADER_EPOCH
        if epoch != UNKNOWN_LEADER_EPOCH and part.position > earliest:
            cause = (
                f"its leader does not know leader epoch {epoch}, as if an older copy had been "
                "restored; records at these offsets that were written since then are not copied"
            )
            policy = self._policies.source_truncated
            hit = (earliest, part.position - 1)
            found = new_incident(IncidentKind.SOURCE_TRUNCATED, part.tp, hit, -1, cause, policy)
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
            self._reader.cut_while_comparing(mine, end)
        elif mine.is_taken_over:
            self._after_drain(part, lambda: self._resume_at_truncation(mine, end))

    def _after_drain(self, part: FetchPartition, then: Callable[[], None]) -> None:
        """Call `then` when all that was read is on the target."""
        self._fetcher.pause(part)
        self._draining[part.tp] = then
        self.check_drained()

    def _skip_gap(self, part: FetchPartition, position: int, found: Incident) -> None:
        """Leave out what the source has deleted."""
        mine = self._parts[part.tp]
        self._record_and_resume(mine, position, found, lambda: mine.set_position(position))

    def _resume_at_truncation(self, mine: CopyPartition, end: int) -> None:
        """The source lost its tail: what was read of it is on the target."""
        part = mine.source
        if mine.position <= end:  # what is lost was read, and never arrived
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
            self._forget_refused(part.tp, end)
            mine.truncate_to(end)

        self._record_and_resume(mine, end, found, move)

    def _record_and_resume(
        self, mine: CopyPartition, position: int, found: Incident, move: Callable[[], None]
    ) -> None:
        """Write the ledger entry, then move to the position and store it, then read on there."""
        before = mine.position

        def recorded() -> None:
            if mine.is_taken_over and mine.position == before:  # else it comes here again
                move()
                self._reader.store(mine, stored)

        def stored() -> None:
            if mine.is_taken_over and mine.position == position:
                self._fetcher.resume_at(mine.source, position)

        self._reporter.record([found], recorded)

    # --- what a comparison found

    def on_compared(
        self, mine: CopyPartition, comparison: Comparison, then: Callable[[], None]
    ) -> None:
        """Go on where a comparison ended, once the ledger names what it found; or wait."""
        tp = mine.source.tp
        found: list[Incident] = []
        if comparison.only_on_target is not None:
            found.append(self._truncation_incident(tp, comparison.only_on_target))
        if comparison.gap is not None:
            cause = (
                f"its log begins at offset {comparison.gap[1] + 1}; the first offset is where "
                "copying had come, if the source's offsets had no holes"
            )
            found.append(self._gap_incident(tp, comparison.gap, cause))
        stopping = next((one for one in found if one.policy == STOP), None)
        if stopping is not None:
            self._reporter.report(stopping)
            is_gap = stopping.kind is IncidentKind.GAP
            code = error_codes.GAP if is_gap else error_codes.SOURCE_TRUNCATED
            mine.set_source_error(code)
            self._reader.compare_again(mine, mine.source.backoff.next_pause(slow=True))
            return

        def recorded() -> None:
            mine.apply_comparison(comparison)
            if comparison.outcome is ComparisonOutcome.SOURCE_TRUNCATED:
                self._forget_refused(tp, comparison.position)
            if comparison.outcome is ComparisonOutcome.MATCHED and comparison.gap is None:
                then()
            else:  # what was written before and what comes now must not follow one stored pair
                self._reader.store(mine, then)

        self._reporter.record(found, recorded)

    def _gap_incident(self, tp: TopicPartition, offsets: tuple[int, int], cause: str) -> Incident:
        first, last = offsets
        return new_incident(
            IncidentKind.GAP, tp, offsets, last - first + 1, cause, self._policies.gap
        )

    def _truncation_incident(self, tp: TopicPartition, offsets: tuple[int, int]) -> Incident:
        first, last = offsets
        records = last - first + 1
        cause = f"its log was cut off at offset {first}, as by an unclean leader election"
        begin = self._unknown_truncations.pop(tp, None)
        if begin is None:
            cause += "; what was copied of it stays on the target"
        else:
            cause += (
                f", or before it: no leader epoch tells where. Records at offsets {begin} to "
                f"{first - 1} that were written after the cut are not copied"
            )
            first, records = begin, -1
        policy = self._policies.source_truncated
        return new_incident(
            IncidentKind.SOURCE_TRUNCATED, tp, (first, last), records, cause, policy
        )

    # --- damaged
    def try_skip(self, part: FetchPartition, records: memoryview, text: str) -> bool:
        """The first record batch does not match its checksum; whether it is being skipped."""
        before, tries = self._attempts.get(part.tp, (-1, 0))
        tries = tries + 1 if before == part.position else 1
        self._attempts[part.tp] = (part.position, tries)
        if tries < _MAX_ATTEMPTS:
            return False
        policy = self._policies.corrupt_batch
        following = offset_after_corrupt_batch(records, part.position, part.end_offset)
        last = part.position if following is None else following - 1
        cause = text if following is not None else f"{text}; where it ends cannot be told"
        found = new_incident(
            IncidentKind.CORRUPT_BATCH,
            part.tp,
            (part.position, last),
            -1 if following is None else following - part.position,
            cause,
            STOP if following is None else policy,
        )
        if policy == STOP or following is None:
            self._reporter.report(found)
            return False
        self._fetcher.pause(part)
        self._skip_to(part, following, found)
        return True

    # --- both

    def _skip_to(self, part: FetchPartition, position: int, found: Incident) -> None:
        before = part.position

        def recorded() -> None:
            mine = self._parts[part.tp]
            is_waiting = mine.comparison is None and not mine.is_taken_over
            if part.position != before or is_waiting:
                return  # it was turned back meanwhile, and will come here again
            if mine.target.is_idle and mine.comparison is None:
                mine.set_position(position)
            self._fetcher.resume_at(part, position)

        self._reporter.record([found], recorded)

    def _retry_later(self, part: FetchPartition, code: int, again: Callable[[], None]) -> None:
        self._parts[part.tp].set_source_error(code)
        pause = part.backoff.next_pause(slow=not error_codes.is_retriable(code))
        self._loop.call_later(pause, lambda: again() if self._reader.is_copying else None)
