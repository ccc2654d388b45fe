# SPDX-License-Identifier: Apache-2.0
"""Decides how a task continues each partition: resume, compare, or use a new producer id.

DescribeProducers returns the last sequence of this flow's producer on the target. If it differs
from the stored resume point, source and target are compared from there (`comparison_runner.py`).
The task keeps producer id and epoch and continues with the next sequence, so the broker appends
only if no other task has written since. A previous task that still runs is refused, or its batches
are recognised as duplicates; a refused task compares again. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task.comparison_runner import ComparisonRunner
from sparkmirror.task.copy_partition import CopyPartition, ResumePoint
from sparkmirror.task.delivery import Delivery
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.producer_registration import ProducerRegistration
from sparkmirror.task.read_control import ReadControl
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.task.written_records import is_sequence_before
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.log_queries import request_log_bounds
from sparkmirror.wire.producer_queries import (
    ActiveProducer,
    ProducerDescriptions,
    describe_producers,
    request_producer_id,
)
from sparkmirror.wire.record_batch import SEQUENCE_MASK


class TakeOver:
    """Takes over the partitions of a task from the previous task."""

    def __init__(
        self,
        loop: EventLoop,
        target: Cluster,
        comparisons: ComparisonRunner,
        truncation: TargetTruncation,
        delivery: Delivery,
        registration: ProducerRegistration,
        read_control: ReadControl,
        reporter: IncidentReporter,
        backoff: Backoff,
    ) -> None:
        self._loop = loop
        self._target = target
        self._comparisons = comparisons
        self._truncation = truncation
        self._delivery = delivery
        self._registration = registration
        self._read_control = read_control
        self._reporter = reporter
        self._backoff = backoff
        self._without_describe: set[TopicPartition] = set()  # leaders without DescribeProducers
        self._refused_at: dict[TopicPartition, ResumePoint] = {}  # by an out-of-order sequence
        self._without_metadata: list[CopyPartition] = []  # they wait for metadata
        self._has_reported_unreadable = False
        self._new_producer: tuple[int, int] | None = None  # the last one of the task
        self._renewed: set[TopicPartition] = set()  # on the target, with that producer
        self._closing = False
        target.metadata_listeners.append(self._on_metadata)

    def start(self, parts: Sequence[CopyPartition]) -> None:
        """Start all partitions of a task; those handed over cleanly resume at once."""
        handed_over = [part for part in parts if part.is_taken_over]
        for part in handed_over:
            part.resume_producer(is_known=False)  # the broker may have expired an idle producer
            self._delivery.on_partition_started(part)
        if handed_over:
            self._read_control.start(handed_over)
        others = [part for part in parts if not part.is_taken_over]
        if others:
            self._begin(others)

    def resume(self, parts: Sequence[CopyPartition]) -> None:
        """Resume copying at exact resume points."""
        for part in parts:
            self._truncation.on_resumed(part)
            part.apply_estimate()
            part.source.stop_at = part.start.stop_at
            part.is_taken_over = True
            part.verify_next_batch = True
            self._delivery.on_partition_started(part)
            part.target.backoff.reset()
            part.set_target_error(error_codes.NONE)
        self._read_control.seek_to_positions(parts)

    def _resume_unless_closing(self, part: CopyPartition) -> None:
        if not self._closing:
            self.resume([part])

    # --- the last sequences on the target

    def _begin(self, parts: Sequence[CopyPartition]) -> None:
        """Request the last sequences of these partitions, and decide how each continues."""
        known: list[CopyPartition] = []
        unknown: list[CopyPartition] = []
        for part in parts:
            (known if self._target.has_metadata(part.target.tp) else unknown).append(part)
        if unknown:
            self._without_metadata += unknown
            self._target.track_topics({part.target.tp.topic for part in unknown})
        if known:
            self._describe_producers(known)

    def _on_metadata(self) -> None:
        """Continue with partitions that waited for metadata."""
        waiting, self._without_metadata = self._without_metadata, []
        if waiting and not self._closing:
            self._begin(waiting)  # the response may have been about other topics

    def _describe_producers(self, parts: Sequence[CopyPartition]) -> None:
        by_target = {part.target.tp: part for part in parts}

        def done(states: ProducerDescriptions) -> None:
            if not self._closing:
                self._decide(by_target, states)

        describe_producers(self._target, by_target, done)

    def compare(self, part: CopyPartition, pause: float) -> None:
        """Take the partition over again after a pause."""
        self._loop.call_later(pause, lambda: None if self._closing else self._begin([part]))

    def on_sequence_lost(self, part: CopyPartition, pause: float) -> None:
        """Handle an out-of-order sequence: compare, or use a new producer id.

        Without DescribeProducers, a second refusal at the same resume point needs a new producer
        id: another comparison would give the same result.
        """
        tp, point = part.target.tp, part.resume_point
        if tp in self._without_describe and self._refused_at.get(tp) == point:
            self._use_new_producer([part])
            return
        self._refused_at[tp] = point
        self.compare(part, pause)

    def _decide(
        self, parts: dict[TopicPartition, CopyPartition], states: ProducerDescriptions
    ) -> None:
        ready: list[CopyPartition] = []
        later: list[CopyPartition] = []
        unreadable: list[CopyPartition] = []
        for tp, part in parts.items():
            code = states.failed.get(tp, error_codes.NONE)
            if code in error_codes.NOT_AUTHORIZED:
                unreadable.append(part)
            elif code == error_codes.UNSUPPORTED_VERSION:
                self._without_describe.add(tp)
                self._comparisons.enqueue(part, None)
            elif code:
                part.set_target_error(code)
                later.append(part)
            elif self._check_producer(part, states.found.get(tp, ())):
                ready.append(part)
        if ready:
            self._backoff.reset()
            self.resume(ready)
        if unreadable:
            self.continue_unread(unreadable)
        if later:
            self._target.refresh_metadata()
            self._loop.call_later(
                self._backoff.next_pause(), lambda: None if self._closing else self._begin(later)
            )
        self._comparisons.start_queued()

    def _check_producer(self, part: CopyPartition, producers: Sequence[ActiveProducer]) -> bool:
        """Return whether nothing was written after the resume point; else handle the partition."""
        state = part.resume_point.producer
        mine = [one for one in producers if one.producer_id == state.producer_id]
        if not mine:
            part.resume_producer(is_known=False)
            if part.estimate is not None:
                self._comparisons.enqueue(part, None)
            else:
                self._check_log_end(part)
            return False
        goal = (mine[0].last_sequence + 1) & SEQUENCE_MASK
        if mine[0].producer_epoch != state.producer_epoch:
            self._reporter.report_at(
                IncidentKind.RESUME_MISMATCH,
                part,
                f"its producer has epoch {mine[0].producer_epoch}, not {state.producer_epoch}; "
                "duplicates are possible",
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
        self._comparisons.enqueue(part, goal)
        return False

    def _check_log_end(self, part: CopyPartition) -> None:
        """Handle a producer id that the broker does not know: it is unused, or it has expired.

        Brokers expire producer ids after a day by default; records written before remain and are
        compared.
        """

        def bounds(_earliest: int, latest: int) -> None:
            if self._closing:
                return
            missing = part.resume_point.downstream + 1 - latest
            if missing > 0:
                self.on_target_end(part, latest)
            elif missing < 0:
                self._comparisons.enqueue(part, None)
                self._comparisons.start_queued()
            else:
                self.resume([part])

        def failed(code: int) -> None:
            part.set_target_error(code)
            self.compare(part, self._backoff.next_pause())

        request_log_bounds(
            self._target, part.target.tp, read_committed=False, done=bounds, failed=failed
        )

    def continue_unread(self, parts: Sequence[CopyPartition]) -> None:
        """Continue at the stored positions without a comparison: at least once."""
        if not self._has_reported_unreadable:
            self._has_reported_unreadable = True
            topic = parts[0].target.tp.topic
            cause = f"{self._target.alias}: {topic} cannot be read; grant READ on the remote topics"
            self._reporter.report_at(IncidentKind.NO_READ, parts[0], cause)
        for part in parts:
            part.is_target_unreadable = True
        self._use_new_producer(parts)

    def _use_new_producer(self, parts: Sequence[CopyPartition]) -> None:
        """Continue at the stored positions with a new producer id, which is registered first.

        Partitions share an id, but none gets the same one twice.
        """
        targets = {part.target.tp for part in parts}

        def got(producer_id: int, producer_epoch: int) -> None:
            use = partial(registered, producer_id, producer_epoch)
            self._registration.register_and(producer_id, use)

        def registered(producer_id: int, producer_epoch: int) -> None:
            if self._closing:
                return
            if self._new_producer != (producer_id, producer_epoch):
                self._new_producer = producer_id, producer_epoch
                self._renewed = set()
            self._renewed |= targets
            for part in parts:
                part.replace_producer(producer_id, producer_epoch)
                self._delivery.store_position(part, partial(self._resume_unless_closing, part))

        def failed(code: int) -> None:
            for part in parts:
                part.set_target_error(code, "cannot obtain a producer id")
            pause = self._backoff.next_pause()
            self._loop.call_later(
                pause, lambda: None if self._closing else self._use_new_producer(parts)
            )

        if self._new_producer is not None and not targets & self._renewed:
            registered(*self._new_producer)
        else:
            request_producer_id(self._target, got, failed)

    def on_target_end(self, part: CopyPartition, latest: int) -> None:
        """Handle a target log that ends before the resume point."""
        missing = part.resume_point.downstream + 1 - latest
        if missing <= 0:  # truncated during the comparison
            self.compare(part, self._backoff.next_pause())
        elif part.resume_point.producer.next_sequence:
            self._truncation.on_truncated(part, missing)
        else:  # this flow has written nothing there
            part.downstream = latest - 1
            self.resume([part])

    def close(self) -> None:
        self._closing = True
