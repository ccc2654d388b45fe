# SPDX-License-Identifier: Apache-2.0
"""Go on where a predecessor was cut off, by compare-and-append.

The leaders of the target say which sequence of this flow's producer came last. If it is not the
one of the stored pair, both sides are compared from the pair on (`comparison.py`). The successor
keeps producer id and epoch and goes on with the next sequence, so the broker appends only if
nothing landed since: a predecessor that wakes up is refused or recognised as a duplicate, and
who is refused compares again. The first record batch acknowledged is read back once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task.comparison import Comparison, ComparisonOutcome
from sparkmirror.task.copy_partition import CopyPartition, ResumePoint
from sparkmirror.task.delivery import Delivery
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.messages import OtherWriter
from sparkmirror.task.read_control import ReadControl
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.task.written_records import is_sequence_before
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.fetch_protocol import FetchLimits
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_queries import request_log_bounds
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer
from sparkmirror.wire.outgoing import AbortedTransaction, OutgoingBatch
from sparkmirror.wire.producer_queries import (
    ActiveProducer,
    ProducerDescriptions,
    describe_producers,
    request_producer_id,
)
from sparkmirror.wire.record_batch import HEADER_SIZE, SEQUENCE_MASK, split_batches
from sparkmirror.wire.records import raw_records

_MAX_RUNNING = 64  # comparisons; what they hold is bounded by the fetchers' budgets
_READ_BYTES = 1 << 20
_ANSWER_BYTES = 8 << 20
_READ_TIMEOUT_SECONDS = 3.0  # what was appended becomes readable within this, or the leader changed
OFFSET_NOT_AVAILABLE = 78  # OFFSET_NOT_AVAILABLE
_REPORT_AFTER_SECONDS = 3.0  # a comparison that takes longer is shown in the status
_INTERVAL_SECONDS = 60.0  # how often one partition is searched for other writers


class Successor(Protocol):
    """The copy task, as its take-over needs it."""

    def read_on(self) -> None:
        """Room was made for more of the source."""

    def resume_copying(self, parts: Sequence[CopyPartition]) -> None:
        """The partitions' pairs are exact: copy on from there."""


@dataclass(slots=True)
class _Readback:
    """A stretch of the target's log that is read once, between two of our record batches."""

    part: CopyPartition
    reader: FetchPartition
    expected: OutgoingBatch | None  # our record batch at the end of the stretch, to be seen there


class TakeOver:
    """All partitions of a task that were not handed over cleanly."""

    def __init__(
        self,
        loop: EventLoop,
        target: Cluster,
        buffer_bytes: int,
        successor: Successor,
        truncation: TargetTruncation,
        recovery: SourceLogRecovery,
        delivery: Delivery,
        read_control: ReadControl,
        reporter: IncidentReporter,
    ) -> None:
        self._loop = loop
        self._target = target
        self._successor = successor
        self._truncation = truncation
        self._recovery = recovery
        self._delivery = delivery
        self._read_control = read_control
        self._reporter = reporter
        self._fetcher = Fetcher(
            loop,
            target,
            FetchLimits(
                read_committed=False,
                max_bytes=_ANSWER_BYTES,
                max_partition_bytes=_READ_BYTES,
                max_wait_ms=100,
                min_bytes=1,
            ),
            MemoryBudget(max(buffer_bytes // 4, 4 * _READ_BYTES)),
        )
        self._fetcher.log_changes = self
        self._fetcher.on_response = (self.on_fetch_response,)
        self._queue: deque[tuple[CopyPartition, int | None]] = deque()
        self._comparing: dict[TopicPartition, CopyPartition] = {}
        self._readers: dict[TopicPartition, FetchPartition] = {}
        self._since: dict[TopicPartition, float] = {}  # when the target last had more
        self._began: dict[TopicPartition, float] = {}
        self._asking_end: set[TopicPartition] = set()
        # Since when the source has ended before this target offset found its counterpart.
        self._ended: dict[TopicPartition, tuple[int, float]] = {}
        self._timed_out_at: dict[TopicPartition, int] = {}  # the goal that was waited for before
        self._without_describe: set[TopicPartition] = set()  # leaders without DescribeProducers
        self._refused_at: dict[TopicPartition, ResumePoint] = {}  # with an unexpected sequence
        self._readbacks: dict[TopicPartition, _Readback] = {}
        self._last_readback_at: dict[TopicPartition, float] = {}
        self._backoff = Backoff()
        self._without_metadata: list[CopyPartition] = []  # nothing is known yet of their topics
        target.metadata_listeners.append(self._on_metadata)
        self._closing = False
        self._has_reported_unreadable = False

    # --- what the leaders remember

    def begin(self, parts: Sequence[CopyPartition]) -> None:
        """Find out where these partitions stand; `taken_over` follows for each."""
        heard: list[CopyPartition] = []
        unheard: list[CopyPartition] = []
        for part in parts:
            (heard if self._target.has_metadata(part.target.tp) else unheard).append(part)
        if unheard:
            self._without_metadata += unheard
            self._target.track_topics({part.target.tp.topic for part in unheard})
        if heard:
            self._describe_producers(heard)

    def _on_metadata(self) -> None:
        """Metadata arrived: those that waited for it are asked about."""
        unheard, self._without_metadata = self._without_metadata, []
        if unheard and not self._closing:
            self._describe_producers(unheard)

    def _describe_producers(self, parts: Sequence[CopyPartition]) -> None:
        by_target = {part.target.tp: part for part in parts}

        def done(states: ProducerDescriptions) -> None:
            if not self._closing:
                self._decide(by_target, states)

        describe_producers(self._target, by_target, done)

    def compare(self, part: CopyPartition, pause: float = 0.0) -> None:
        """Compare anew, from the last acknowledged pair."""
        self._loop.call_later(pause, lambda: None if self._closing else self.begin([part]))

    def on_sequence_lost(self, part: CopyPartition, pause: float) -> None:
        """The broker expects another sequence: compare, or write as a new producer.

        Where the sequence cannot be asked for, and the same pair is refused again, comparing
        would find the same once more.
        """
        tp, pair = part.target.tp, part.resume_point
        if tp in self._without_describe and self._refused_at.get(tp) == pair:
            self._use_new_producer([part])
            return
        self._refused_at[tp] = pair
        self.compare(part, pause)

    def _decide(
        self, parts: dict[TopicPartition, CopyPartition], states: ProducerDescriptions
    ) -> None:
        ready: list[CopyPartition] = []
        later: list[CopyPartition] = []
        blind: list[CopyPartition] = []
        for tp, part in parts.items():
            code = states.failed.get(tp, error_codes.NONE)
            if code in error_codes.NOT_AUTHORIZED:
                blind.append(part)
            elif code == error_codes.UNSUPPORTED_VERSION:
                self._without_describe.add(tp)
                self._enqueue(part, None)
            elif code:
                part.set_target_error(code)
                later.append(part)
            elif self._check_producer(part, states.found.get(tp, ())):
                ready.append(part)
        if ready:
            self._backoff.reset()
            self._successor.resume_copying(ready)
        if blind:
            self.continue_unread(blind)
        if later:
            self._target.refresh_metadata()
            self._loop.call_later(
                self._backoff.next_pause(), lambda: None if self._closing else self.begin(later)
            )
        self._start_queued()

    def _check_producer(self, part: CopyPartition, producers: Sequence[ActiveProducer]) -> bool:
        """Whether nothing was written after the pair; else sees to the partition."""
        state = part.resume_point.producer
        mine = [one for one in producers if one.producer_id == state.producer_id]
        if not mine:
            part.resume_producer(is_known=False)
            if part.estimate is not None:
                self._enqueue(part, None)
            else:
                self._check_log_end(part)
            return False
        goal = (mine[0].last_sequence + 1) & SEQUENCE_MASK
        if mine[0].producer_epoch != state.producer_epoch:
            self._reporter.report_at(
                IncidentKind.RESUME_MISMATCH,
                part,
                f"its producer has epoch {mine[0].producer_epoch}, not {state.producer_epoch}; "
                "some records may come twice",
            )
            self._use_new_producer([part])
            return False
        part.resume_producer(is_known=True)
        if goal == state.next_sequence and part.estimate is None:
            return True
        if is_sequence_before(goal, state.next_sequence):
            missing = (state.next_sequence - goal) & SEQUENCE_MASK
            self._truncation.on_truncated(part, missing)
            return False
        self._enqueue(part, goal)
        return False

    def _check_log_end(self, part: CopyPartition) -> None:
        """The broker does not know our producer: never heard of it, or has forgotten it.

        It forgets within a day; what was written before is still there, to be compared.
        """

        def bounds(_earliest: int, latest: int) -> None:
            if self._closing:
                return
            missing = part.resume_point.downstream + 1 - latest
            if missing > 0:
                self.on_target_end(part, latest)
            elif missing < 0:
                self._enqueue(part, None)
                self._start_queued()
            else:
                self._successor.resume_copying([part])

        def failed(code: int) -> None:
            part.set_target_error(code)
            self.compare(part, self._backoff.next_pause())

        request_log_bounds(
            self._target, part.target.tp, read_committed=False, done=bounds, failed=failed
        )

    def continue_unread(self, parts: Sequence[CopyPartition]) -> None:
        """The target may not be read: go on at the stored position, at least once."""
        if not self._has_reported_unreadable:
            self._has_reported_unreadable = True
            topic = parts[0].target.tp.topic
            cause = f"{self._target.alias}: {topic} cannot be read; grant READ on the remote topics"
            self._reporter.report_at(IncidentKind.NO_READ, parts[0], cause)
        for part in parts:
            part.is_target_unreadable = True
        self._use_new_producer(parts)

    def _use_new_producer(self, parts: Sequence[CopyPartition]) -> None:
        """Go on at the stored position as a new producer."""

        def got(producer_id: int, producer_epoch: int) -> None:
            for part in parts:
                part.replace_producer(producer_id, producer_epoch)
                self._delivery.store_position(part, partial(self._resume_unless_closing, part))

        def failed(code: int) -> None:
            for part in parts:
                part.set_target_error(code, "no producer id")
            pause = self._backoff.next_pause()
            self._loop.call_later(
                pause, lambda: None if self._closing else self._use_new_producer(parts)
            )

        request_producer_id(self._target, got, failed)

    # --- comparisons

    def _enqueue(self, part: CopyPartition, goal: int | None) -> None:
        self._queue.append((part, goal))

    def _start_queued(self) -> None:
        started: list[CopyPartition] = []
        while self._queue and len(self._comparing) < _MAX_RUNNING:
            part, goal = self._queue.popleft()
            tp, pair = part.target.tp, part.resume_point
            self._cancel_readback(tp)
            moved_back = part.estimate
            part.comparison = Comparison(
                pair.producer,
                pair.position,
                pair.downstream,
                goal,
                leader_epoch=part.leader_epoch,
                estimate=moved_back.estimate if moved_back is not None else None,
            )
            self._comparing[tp] = part
            self._since[tp] = self._began[tp] = time.monotonic()
            self._readers[tp] = FetchPartition(tp, pair.downstream + 1, listener=self)
            started.append(part)
        if started:
            self._fetcher.add(self._readers[part.target.tp] for part in started)
            self._read_control.seek_to_resume_points(started)

    def step(self, part: CopyPartition) -> None:
        """One side has more: compare, and end if that was all."""
        comparison = part.comparison
        if comparison is None:
            return
        done = comparison.step()
        self._read_control.release_compared(part, done)
        reader = self._readers[part.target.tp]
        reader.queued_bytes = comparison.held_bytes
        self._fetcher.on_drained(reader)
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
        self, part: CopyPartition, comparison: Comparison, verdict: ComparisonOutcome
    ) -> None:
        self._remove(part)
        is_different = verdict is ComparisonOutcome.MISMATCH
        if is_different and self._truncation.retry_earlier(part):
            self._start_queued()
            return
        if is_different:
            self._reporter.report_at(
                IncidentKind.RESUME_MISMATCH,
                part,
                f"records after offset {part.resume_point.downstream} on {self._target.alias} "
                f"are not the source's next ones after offset {part.resume_point.position - 1}; "
                "some records may come twice",
            )
        elif comparison.missing_on_target:
            self._reporter.notice(
                f"resume: {part.source.tp}: {comparison.missing_on_target} records before offset "
                f"{comparison.position} are not on {self._target.alias}"
            )
        self._recovery.on_compared(part, comparison, lambda: self._resume_unless_closing(part))
        self._start_queued()

    def _resume_unless_closing(self, part: CopyPartition) -> None:
        if not self._closing:
            self._successor.resume_copying([part])

    def on_source_truncated(self, part: CopyPartition, end: int) -> None:
        """The source of a partition that is being compared goes on differently from there."""
        comparison = part.comparison
        if comparison is None:
            return
        if end < comparison.start or comparison.is_source_unread:
            comparison.truncation_offset = end
            if end >= comparison.start:
                self._read_control.seek_to_resume_points([part])
            self.step(part)
        else:  # it was cut just now
            self._remove(part)
            self.compare(part)
            self._start_queued()

    def _is_source_end_confirmed(self, part: CopyPartition, comparison: Comparison) -> bool:
        """Whether the source has ended here for some seconds, asked after the target was read.

        Our last fetch may be older than what another task of this flow has copied meanwhile, and
        a new leader may not know its own end yet.
        """
        tp, unmatched = part.target.tp, comparison.first_unmatched
        now = time.monotonic()
        known, since = self._ended.get(tp, (-1, now))
        if known == unmatched and now - since > _READ_TIMEOUT_SECONDS:
            return True

        def ended(end: int | None) -> None:
            self._asking_end.discard(tp)
            if end is None or part.comparison is not comparison:
                return
            if comparison.first_unmatched != unmatched:
                return
            if end > part.source.position:
                part.source.is_at_end = False  # it will be read
                self._ended.pop(tp, None)
            elif self._ended.get(tp, (-1, 0.0))[0] != unmatched:
                self._ended[tp] = (unmatched, time.monotonic())

        if tp not in self._asking_end:
            self._asking_end.add(tp)
            self._read_control.request_log_end(part, ended)
        return False

    def read_more(self) -> None:
        """The source's side may have made room for more of the target."""
        if not self._closing:
            self._fetcher.send_fetches()

    def tick(self, now: float) -> None:
        """Called about once a second: what was appended should have become readable."""
        for tp, part in [*self._comparing.items()]:
            comparison = part.comparison
            reader = self._readers[tp]
            self.step(part)
            if tp not in self._comparing or comparison is None:
                continue
            if not (reader.is_at_end and comparison.waits_for_target):
                self._since[tp] = now
            elif now - self._since[tp] > _READ_TIMEOUT_SECONDS:
                self._on_timeout(part, comparison, reader)
                continue
            if now - self._began[tp] < _REPORT_AFTER_SECONDS:
                continue
            if part.error_code in (error_codes.NONE, error_codes.COMPARING):
                self._report_progress(part, reader)
            elif self._queue:  # others may begin meanwhile
                self._remove(part)
                self.compare(part, self._backoff.next_pause())
                self._start_queued()

    def _report_progress(self, part: CopyPartition, reader: FetchPartition) -> None:
        """A comparison takes long: say how far it is."""
        part.set_target_error(
            error_codes.COMPARING,
            f"comparing both sides after offset {part.resume_point.position - 1} of the source: "
            f"read up "
            f"to offset {part.source.position} of {part.source.end_offset} on the source, "
            f"{reader.position} of {reader.end_offset} on the target",
        )

    def _on_timeout(
        self, part: CopyPartition, comparison: Comparison, reader: FetchPartition
    ) -> None:
        """What the leader accepted cannot be read: deleted meanwhile, or not yet replicated."""
        is_gone = reader.log_start_offset > part.resume_point.downstream + 1
        tp = part.target.tp
        if is_gone and self._timed_out_at.get(tp) == comparison.end_sequence:
            comparison.conclude_unreadable()
            self._conclude(part, comparison, ComparisonOutcome.MISMATCH)
            return
        self._remove(part)
        self._start_queued()
        if self._truncation.retry_earlier(part):
            return
        self._timed_out_at[tp] = comparison.end_sequence
        part.set_target_error(
            OFFSET_NOT_AVAILABLE, "the leader has records of ours that cannot be read yet"
        )
        self.compare(part)

    def _remove(self, part: CopyPartition) -> None:
        tp = part.target.tp
        comparison, part.comparison = part.comparison, None
        if comparison is not None:
            self._read_control.release_compared(part, comparison.drain())
        self._comparing.pop(tp, None)
        self._since.pop(tp, None)
        self._began.pop(tp, None)
        self._ended.pop(tp, None)
        self._fetcher.remove(self._readers.pop(tp))

    # --- looking at single stretches

    def start_readback(self, part: CopyPartition, out: OutgoingBatch) -> None:
        """Our record batch is not where it was expected, or is the first: see what is there."""
        tp = part.target.tp
        is_first, part.verify_next_batch = part.verify_next_batch, False
        now = time.monotonic()
        recently = now - self._last_readback_at.get(tp, -_INTERVAL_SECONDS) < _INTERVAL_SECONDS
        if tp in self._readers or part.is_target_unreadable or (recently and not is_first):
            return
        if not is_first:
            self._last_readback_at[tp] = now
        end = out.base_offset + out.count
        reader = FetchPartition(tp, part.resume_point.downstream + 1, stop_at=end, listener=self)
        self._readers[tp] = reader
        self._readbacks[tp] = _Readback(part, reader, out if is_first else None)
        self._fetcher.add([reader])

    def _cancel_readback(self, tp: TopicPartition) -> None:
        if self._readbacks.pop(tp, None) is not None:
            self._fetcher.remove(self._readers.pop(tp))

    def _check_batches(self, look: _Readback, records: memoryview) -> None:
        tp = look.part.target.tp
        for batch in split_batches(records):
            mine = batch.producer_id == look.part.target.producer_id
            if not mine and not batch.is_control and batch.base_offset < (look.reader.stop_at or 0):
                self._reporter.other_writers.add(OtherWriter(*tp, batch.producer_id))
            out = look.expected
            if out is None or batch.base_offset != out.base_offset:
                continue
            look.expected = None
            if batch.view[HEADER_SIZE:] != out.view[HEADER_SIZE:] and [
                frame.body for frame in raw_records(batch.view)
            ] != [frame.body for frame in raw_records(out.view)]:
                self._report_missing(look, out, "is not the one that was sent")

    def _report_missing(self, look: _Readback, out: OutgoingBatch, text: str) -> None:
        """The first record batch after a take-over is not where the target said."""
        runs = out.runs
        self._reporter.report_at(
            IncidentKind.RESUME_MISMATCH,
            look.part,
            f"the record batch at offset {out.base_offset} of {self._target.alias} {text}: source "
            f"offsets {runs[0].first} to {runs[-1].first + runs[-1].length - 1} "
            f"({out.count} records) are missing there",
        )

    # --- from the fetcher, which reads the target here

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],  # noqa: ARG002 - everything counts here
        buffer: SharedBuffer,  # noqa: ARG002 - what is kept is copied
    ) -> int:
        """Record batches of the target, in order."""
        position = part.position
        look = self._readbacks.get(part.tp)
        if look is not None:
            self._check_batches(look, records)
        comparing = self._comparing.get(part.tp)
        try:
            for batch in split_batches(records):
                if batch.next_offset <= position:
                    continue
                if comparing is not None and comparing.comparison is not None:
                    comparing.comparison.add_target_batch(batch)
                position = batch.next_offset
        except CorruptRecordBatchError:
            if position == part.position:
                raise  # else those before it count, and the next fetch begins with it
        if comparing is not None and comparing.comparison is not None:
            part.queued_bytes = comparing.comparison.held_bytes
        return position

    def on_fetch_response(self) -> None:
        """Compare what has come."""
        for part in [*self._comparing.values()]:
            self.step(part)
        self._successor.read_on()
        for tp, look in [*self._readbacks.items()]:
            if look.reader.is_finished:
                if look.expected is not None:
                    self._report_missing(look, look.expected, "is not there")
                self._cancel_readback(tp)

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:
        """The target cannot be read."""
        self._cancel_readback(part.tp)
        comparing = self._comparing.get(part.tp)
        if comparing is None:
            return
        if code in error_codes.NOT_AUTHORIZED or code == error_codes.UNSUPPORTED_VERSION:
            self._remove(comparing)
            self.continue_unread([comparing])
            self._start_queued()
        else:
            comparing.set_target_error(code, text)

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        """The target can be read again."""
        comparing = self._comparing.get(part.tp)
        if comparing is not None:
            comparing.set_target_error(error_codes.NONE)

    def on_out_of_range(self, part: FetchPartition) -> None:
        """The target's log does not hold the pair any more: begin where it begins."""
        self._cancel_readback(part.tp)
        comparing = self._comparing.get(part.tp)
        if comparing is None:
            return

        def bounds(earliest: int, latest: int) -> None:
            if self._comparing.get(part.tp) is not comparing:
                return
            if part.position > latest:
                self._remove(comparing)
                self.on_target_end(comparing, latest)
                self._start_queued()
            else:
                self._fetcher.resume_at(part, max(earliest, part.position))

        def failed(code: int) -> None:
            if self._comparing.get(part.tp) is comparing:
                comparing.set_target_error(code)
                self._remove(comparing)
                self.compare(comparing, self._backoff.next_pause())

        request_log_bounds(self._target, part.tp, read_committed=False, done=bounds, failed=failed)

    def on_target_end(self, part: CopyPartition, latest: int) -> None:
        """The target's log ends before the pair."""
        missing = part.resume_point.downstream + 1 - latest
        if missing <= 0:  # it was cut while it was being read
            self.compare(part, self._backoff.next_pause())
        elif part.resume_point.producer.next_sequence:
            self._truncation.on_truncated(part, missing)
        else:  # nothing there was ours
            part.downstream = latest - 1
            self._successor.resume_copying([part])

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """Never asked for: reading the target names no epochs."""

    def on_ended_early(self, part: FetchPartition) -> None:
        """Nothing to do: a comparison waits for records, a read-back has its own limit."""

    def close(self) -> None:
        """Look no more."""
        self._closing = True
        self._fetcher.close()
