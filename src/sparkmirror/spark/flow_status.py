# SPDX-License-Identifier: Apache-2.0
"""The status of a flow: written by the flow, read by any thread."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import NamedTuple

from sparkmirror.errors import join_sentences
from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.kafka.error_mapping import UNREACHABLE
from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted, format_duration
from sparkmirror.spark.flow_figures import FlowFigures, FlowFiguresView
from sparkmirror.spark.incident_counter import IncidentCounter, IncidentCounts
from sparkmirror.spark.latency_window import LatencyPercentiles, LatencyWindow
from sparkmirror.state.incidents import Incident
from sparkmirror.task.messages import PartitionProgress, Progress
from sparkmirror.wire.error_codes import CONNECTION_LOST, TOPIC_RECREATED, is_retriable

_RATE_WINDOW_SECONDS = 10.0
_SLOW_ACK_SECONDS = 30.0
_IDLE_SECONDS = 60.0  # between two reads of the end offset of a partition that is copied
_SILENT_SECONDS = 5.0  # tasks report every second
_END_SECONDS = 20.0  # an older end offset says nothing about the lag
_UNKNOWN = -1  # position
_log = logging.getLogger(__name__)


class FlowState(Enum):
    """The state of a flow."""

    STARTING = "STARTING"
    STANDBY = "STANDBY"  # another process runs it; this one takes over when that one ends
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"  # a cluster is unreachable or rejects requests; retried
    FAILED = "FAILED"  # needs manual action
    DONE = "DONE"  # a bounded run has copied everything
    PAUSED = "PAUSED"  # on request; heartbeats and checkpoints may continue
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """A flow at one moment."""

    flow: str
    state: FlowState
    reason: str
    topics: int
    partitions: int
    epoch: int
    records: int
    bytes: int
    records_per_second: float
    bytes_per_second: float
    lag: int | None  # records still to copy; None: unknown for at least one partition
    remaining: int | None  # of a bounded run
    bounded_total: int | None
    replication_latency: LatencyPercentiles | None  # None: nothing was acknowledged recently
    copy_latency: LatencyPercentiles | None
    held_bytes: int
    task_cpu_seconds: dict[int, float]  # split -> CPU of its Python process so far
    notice_count: int  # one-time messages that were logged
    problems: tuple[str, ...]
    retriable_only: bool  # every problem may resolve without manual action
    quarantined: int = 0  # topic partitions that need manual action
    incidents: IncidentCounts = field(default_factory=dict)  # since the process started
    recent_incidents: tuple[str, ...] = ()
    group_positions: Mapping[str, int] = field(default_factory=dict)  # by state
    topology_changes: Mapping[str, int] = field(default_factory=dict)  # by kind of change
    trace: str = ""  # the stack trace of a FAILED flow, if useful
    flow_problems: tuple[str, ...] = ()  # problems that belong to no task
    copies: bool = True  # false: it has no partitions, so neither lag nor latency
    known_lag: int | None = None  # of the partitions whose lag is known; None: of none
    unknown_lags: int = 0  # partitions whose lag is unknown
    seconds_since_success: float = 0.0  # of a heartbeat or a round of checkpoints; or the start
    incident_kinds: Mapping[str, int] = field(default_factory=dict)  # incidents by kind
    incident_records: Mapping[str, int] = field(default_factory=dict)  # known records of them
    ledger_entries: int = 0
    # Records that other flows had copied to the source, by source topic and partition.
    skipped_records: Mapping[TopicPartition, int] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)  # cluster -> why, or empty

    @property
    def can_work(self) -> bool:
        """Whether it copies, may copy on request, or stands by; not while it starts or retries."""
        return self.state not in (FlowState.STARTING, FlowState.RETRYING, FlowState.FAILED)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """What one source partition still has to copy; None: unknown."""

    partition: TopicPartition
    position: int | None
    end_offset: int | None  # the last stable offset under read_committed, else the high watermark
    records: int | None


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task of the current epoch: what it copies, and its problems."""

    split: int
    partitions: tuple[TopicPartition, ...]
    failures: tuple[str, ...] = ()  # of partitions that need manual action
    warnings: tuple[str, ...] = ()  # problems that are retried
    copied: tuple[str, ...] = ()  # source topics of which it has copied records
    has_slot: bool = True  # false: Spark runs no task of the split


@dataclass(slots=True)
class _Partition:
    position: int
    split: int = -1  # the task that copies it
    downstream: int = -1
    end_offset: int = -1
    stop_at: int | None = None
    first: int = 0
    counted_records: int = 0
    counted_bytes: int = 0
    counted_skipped: int = 0
    problem_code: int = 0
    problem: str = ""
    reported_at: float = -math.inf  # by a task of this epoch
    end_read_at: float = -math.inf  # the end offset, by a task or the driver

    @property
    def lag(self) -> int:
        return max(self.end_offset - self.position, 0)

    def is_watched(self, healthy_splits: Collection[int]) -> bool:
        """Whether a task waits at the partition's end, and would report new records."""
        return (
            self.split in healthy_splits
            and not self.problem
            and self.position >= self.end_offset
            and min(self.reported_at, self.end_read_at) > -math.inf
        )

    def is_lag_known(self, now: float, healthy_splits: Collection[int]) -> bool:
        is_recent = now - self.end_read_at <= _END_SECONDS or self.is_watched(healthy_splits)
        if self.position < 0 or self.end_offset < 0 or not is_recent:
            return False
        # The position of a recreated or truncated log says nothing about the log's records.
        is_foreign = self.problem_code == TOPIC_RECREATED
        return not (self.problem and (is_foreign or self.end_offset < self.position))


class _InOrder(NamedTuple):
    """The sorted partitions, and the dicts that they are of: sorting takes longer than the rest."""

    parts: Mapping[TopicPartition, _Partition]
    others: Mapping[TopicPartition, _Partition]
    size: int
    partitions: list[tuple[TopicPartition, _Partition]]


@dataclass(slots=True)
class _Task:
    attempt: int
    held_bytes: int = 0
    cpu_seconds: float = 0.0
    problem: str = ""
    unacked_seconds: float = 0.0
    reported_at: float = -math.inf


@dataclass(slots=True)
class _Totals:
    records: int = 0
    bytes: int = 0
    skipped: Counter[TopicPartition] = field(default_factory=Counter)
    history: deque[tuple[float, int, int]] = field(default_factory=deque)
    replication_latency: LatencyWindow = field(
        default_factory=lambda: LatencyWindow(_RATE_WINDOW_SECONDS)
    )
    copy_latency: LatencyWindow = field(default_factory=lambda: LatencyWindow(_RATE_WINDOW_SECONDS))


class FlowStatus:
    """The live status of one flow."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._lock = threading.Lock()
        self._state = FlowState.STARTING
        self._reason = ""
        self._trace = ""
        self._awaited = 0  # tasks; the flow is RUNNING once all have reported
        self._running_reason = ""
        self._epoch = 0
        self._parts: dict[TopicPartition, _Partition] = {}
        self._others: dict[TopicPartition, _Partition] = {}  # in scope, but not in this epoch
        self._scope: frozenset[TopicPartition] | None = None
        self._tasks: dict[int, _Task] = {}
        self._waiting_splits: frozenset[int] = frozenset()
        self._flow_problems: dict[str, str] = {}
        self._unreachable: dict[str, str] = {}  # cluster -> reason; empty: it answers
        self._is_source_unreachable = False
        self._notices = 0
        self._incidents = IncidentCounter(flow)
        self._topology_changes: Counter[str] = Counter()
        self._totals = _Totals()
        self._figures = FlowFigures()
        self._in_order = _InOrder({}, {}, 0, [])
        self._succeeded_at = time.monotonic()

    def restarted(self) -> FlowStatus:
        """Create the status of a restarted flow: counters and positions continue."""
        status = FlowStatus(self._flow)
        with self._lock:
            status._epoch = self._epoch
            status._notices = self._notices
            status._totals.records = self._totals.records
            status._totals.bytes = self._totals.bytes
            status._totals.skipped = self._totals.skipped.copy()
            status._incidents = self._incidents
            status._topology_changes = self._topology_changes
            status._figures = self._figures
            status._succeeded_at = self._succeeded_at
            status._scope = self._scope
            status._unreachable = self._unreachable
            status._is_source_unreachable = self._is_source_unreachable
            status._others = self._others | {
                tp: _without_task(part) for tp, part in self._parts.items()
            }
            status._lock = self._lock  # both share counters, and a late thread may still use them
        return status

    @property
    def name(self) -> str:
        """The flow's name in messages."""
        return self._flow

    @property
    def epoch(self) -> int:
        with self._lock:
            return self._epoch

    def set_state(self, state: FlowState, reason: str = "", trace: str = "") -> None:
        """Set the state; `trace` is the stack trace of a failure."""
        with self._lock:
            self._state, self._reason, self._awaited = state, reason, 0
            self._trace = trace

    def await_reports(self, tasks: int, reason: str = "") -> None:
        """Become RUNNING as soon as this many tasks of the epoch have reported."""
        with self._lock:
            if self._state is not FlowState.RUNNING or self._reason != reason:
                self._awaited, self._running_reason = tasks, reason

    def set_problem(self, topic: str, problem: str) -> None:
        """Set, or clear with an empty string, a problem that belongs to no task."""
        with self._lock:
            if problem:
                self._flow_problems[topic] = problem
            else:
                self._flow_problems.pop(topic, None)

    def set_unreachable(self, cluster: str, reason: str, *, is_source: bool) -> None:
        """Set, or clear with an empty string, why a cluster of the flow cannot be reached.

        Meanwhile a flow that runs or starts is RETRYING, and the lag is unknown without the source.
        """
        with self._lock:
            self._unreachable[cluster] = reason
            if is_source:
                self._is_source_unreachable = bool(reason)

    def set_waiting_splits(self, splits: Collection[int]) -> None:
        """Set the splits of the epoch that have no Spark task."""
        with self._lock:
            self._waiting_splits = frozenset(splits)

    def count_change(self, what: str, times: int = 1) -> None:
        """Count a change of the target's topics, configs or ACLs, such as `created`."""
        with self._lock:
            self._topology_changes[what] += times

    def mark_success(self) -> None:
        """Record that a heartbeat was written, or that a round of checkpoints succeeded."""
        with self._lock:
            self._succeeded_at = time.monotonic()

    def add_checkpoints(self, checkpoints: Iterable[Checkpoint], milliseconds: float) -> None:
        """Count checkpoints that were written so long after they were made."""
        with self._lock:
            self._figures.add_checkpoints(time.monotonic(), checkpoints, milliseconds)

    def add_incidents(self, incidents: Iterable[Incident]) -> None:
        """Log and count incidents that are new."""
        with self._lock:
            self._incidents.add(incidents)

    def begin_epoch(
        self,
        number: int,
        starts: Sequence[tuple[TopicPartition, int, int | None]],
        splits: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Start an epoch: topic partition, position and, in a bounded run, the stop offset.

        `splits` maps topic partitions to tasks.
        """
        with self._lock:
            assigned = splits or {}
            self._epoch = number
            old, self._parts, self._tasks = self._parts, {}, {}
            self._waiting_splits = frozenset()
            self._figures.begin_epoch()
            others = self._others | {tp: _without_task(part) for tp, part in old.items()}
            for tp, position, stop_at in starts:
                before = old.get(tp)
                end = others.pop(tp, None)
                self._parts[tp] = _Partition(
                    position=position,
                    split=assigned.get(tp, -1),
                    stop_at=stop_at,
                    end_offset=end.end_offset if end else -1,
                    end_read_at=end.end_read_at if end else -math.inf,
                    first=before.first if before else position,
                    problem=before.problem if before else "",
                    problem_code=before.problem_code if before else 0,
                )
            self._others = {tp: part for tp, part in others.items() if self._is_in_scope(tp)}

    def on_progress(self, progress: Progress) -> None:
        """Apply a task's report."""
        now = time.monotonic()
        for sentence in progress.notices:
            _log.warning("%s: %s", self._flow, sentence)
        self.add_incidents(progress.incidents)
        with self._lock:
            self._notices += len(progress.notices)
            before = self._tasks.get(progress.split)
            is_new = before is None or before.attempt != progress.attempt
            for one in progress.partitions:
                self._add_partition(one, now, from_zero=is_new, confirms_end=not progress.error)
            self._tasks[progress.split] = _Task(
                progress.attempt,
                progress.held_bytes,
                progress.cpu_seconds,
                progress.error,
                progress.oldest_unacked_seconds,
                now,
            )
            if 0 < self._awaited <= len(self._tasks):
                self._state, self._reason, self._awaited = (
                    FlowState.RUNNING,
                    self._running_reason,
                    0,
                )
                self._trace = ""
            self._figures.on_progress(now, progress)
            totals = self._totals
            totals.history.append((now, totals.records, totals.bytes))
            while totals.history[0][0] < now - _RATE_WINDOW_SECONDS and len(totals.history) > 1:
                totals.history.popleft()
            totals.replication_latency.add(now, progress.replication_latency)
            totals.copy_latency.add(now, progress.copy_latency)

    def set_scope(self, partitions: Iterable[TopicPartition]) -> None:
        """Set which source partitions the flow mirrors, with or without tasks."""
        with self._lock:
            self._scope = frozenset(partitions)
            self._others = {
                tp: self._others.get(tp) or _Partition(_UNKNOWN)
                for tp in self._scope - self._parts.keys()
            }

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Set positions of partitions without a task, as stored in Kafka; None: unknown."""
        with self._lock:
            for tp, part in self._others.items():
                if tp in positions:
                    position = positions[tp]
                    part.position = _UNKNOWN if position is None else position

    @property
    def has_others(self) -> bool:
        """Whether partitions of the flow are in no task, or its partitions are not known yet."""
        with self._lock:
            return bool(self._others) or not self._parts

    def _is_in_scope(self, tp: TopicPartition) -> bool:
        return self._scope is None or tp in self._scope

    def unreported_partitions(self, seconds: float) -> list[TopicPartition]:
        """Return the partitions that no task has reported on for so long, or that have problems.

        A task does not report an idle partition again. That has to be read less often: the task
        would report new records.
        """
        now = time.monotonic()
        with self._lock:
            healthy = self._healthy_splits(now)
            return [
                tp
                for tp, part in chain(self._parts.items(), self._others.items())
                if part.problem
                or now - max(part.reported_at, part.end_read_at)
                > (_IDLE_SECONDS if part.is_watched(healthy) else seconds)
            ]

    def set_end_offsets(self, ends: Mapping[TopicPartition, int]) -> None:
        """Set end offsets that the driver has read."""
        now = time.monotonic()
        with self._lock:
            for tp, end in ends.items():
                part = self._parts.get(tp) or self._others.get(tp)
                if part is not None:
                    part.end_offset = end if part.problem else max(end, part.position)
                    part.end_read_at = now
                    self._figures.of(tp).observe(now, part.position, part.end_offset)

    def _healthy_splits(self, now: float) -> set[int]:
        """Return the splits whose tasks report, and report no unreachable cluster."""
        if self._is_source_unreachable:
            return set()
        return {
            split
            for split, task in self._tasks.items()
            if not task.problem and now - task.reported_at <= _SILENT_SECONDS
        }

    def lags(self) -> tuple[PartitionLag, ...]:
        """Return the lag of every partition, sorted by partition."""
        now = time.monotonic()
        with self._lock:
            healthy = self._healthy_splits(now)
            return tuple(
                PartitionLag(
                    tp,
                    part.position if part.position >= 0 else None,
                    part.end_offset if is_known else None,
                    part.lag if is_known else None,
                )
                for tp, part in self._sorted_partitions()
                for is_known in [part.is_lag_known(now, healthy)]
            )

    def _add_partition(
        self, one: PartitionProgress, now: float, *, from_zero: bool, confirms_end: bool
    ) -> None:
        tp = TopicPartition(one.topic, one.partition)
        part = self._parts.get(tp)
        if part is None:
            return
        if from_zero:  # the first report of an attempt has every partition
            part.counted_records = part.counted_bytes = part.counted_skipped = 0
        records, size = one.records - part.counted_records, one.bytes - part.counted_bytes
        self._totals.records += records
        self._totals.bytes += size
        if one.skipped_records != part.counted_skipped:
            self._totals.skipped[tp] += one.skipped_records - part.counted_skipped
        figures = self._figures.of(tp)
        figures.count(now, records, size)
        part.counted_records, part.counted_bytes = one.records, one.bytes
        part.counted_skipped = one.skipped_records
        part.position, part.downstream = one.position, one.downstream
        if confirms_end and one.end_offset >= 0 and not one.error:
            part.end_offset, part.end_read_at = max(one.end_offset, one.position), now
        else:  # the driver reads it; a task that has not fetched yet reports -1
            part.end_offset = max(one.end_offset, part.end_offset)
        if part.end_offset >= 0:
            figures.observe(now, one.position, part.end_offset)
        part.problem_code, part.problem = one.error_code, one.error
        part.reported_at = now

    def _sorted_partitions(self) -> list[tuple[TopicPartition, _Partition]]:
        parts, others, known = self._parts, self._others, self._in_order
        size = len(parts) + len(others)
        if known.parts is not parts or known.others is not others or known.size != size:
            self._in_order = _InOrder(parts, others, size, sorted((parts | others).items()))
        return self._in_order.partitions

    def figures(self, max_partitions: int) -> FlowFiguresView:
        """Return what metrics show, with at most so many partitions one by one."""
        now = time.monotonic()
        with self._lock:
            healthy = self._healthy_splits(now)
            states = [
                (
                    tp,
                    part.split,
                    part.position,
                    part.lag if part.is_lag_known(now, healthy) else None,
                )
                for tp, part in self._sorted_partitions()
            ]
            splits = len({part.split for part in self._parts.values() if part.split >= 0})
            return self._figures.snapshot(
                now, states, splits, len(self._waiting_splits), max_partitions
            )

    def snapshot(self) -> FlowSnapshot:
        """Return the current status."""
        now = time.monotonic()
        with self._lock:
            parts = list(self._parts.values())
            totals = self._totals
            history = [one for one in totals.history if one[0] >= now - _RATE_WINDOW_SECONDS]
            spent = now - history[0][0] if history else 0.0
            records = totals.records - history[0][1] if history else 0
            size = totals.bytes - history[0][2] if history else 0
            healthy = self._healthy_splits(now)
            everything = [*parts, *self._others.values()]
            known = [part.lag for part in everything if part.is_lag_known(now, healthy)]
            is_scope_known = self._scope is not None or bool(everything)
            bounded = [p for p in parts if p.stop_at is not None]
            codes = [p.problem_code for p in parts if p.problem]
            snapshot = FlowSnapshot(
                flow=self._flow,
                state=self._state,
                reason=self._reason,
                topics=len({tp.topic for tp in chain(self._parts, self._others)}),
                partitions=len(everything),
                epoch=self._epoch,
                records=totals.records,
                bytes=totals.bytes,
                records_per_second=records / spent if spent > 0.5 else 0.0,  # noqa: PLR2004
                bytes_per_second=size / spent if spent > 0.5 else 0.0,  # noqa: PLR2004
                lag=sum(known) if is_scope_known and len(known) == len(everything) else None,
                known_lag=sum(known) if known else None,
                unknown_lags=len(everything) - len(known),
                remaining=sum(max((p.stop_at or 0) - p.position, 0) for p in bounded)
                if bounded
                else None,
                bounded_total=sum(max((p.stop_at or 0) - p.first, 0) for p in bounded)
                if bounded
                else None,
                replication_latency=totals.replication_latency.percentiles(now),
                copy_latency=totals.copy_latency.percentiles(now),
                held_bytes=sum(task.held_bytes for task in self._tasks.values()),
                task_cpu_seconds={i: task.cpu_seconds for i, task in self._tasks.items()},
                notice_count=self._notices,
                incidents=self._incidents.counts,
                recent_incidents=self._incidents.recent,
                quarantined=sum(not is_retriable(code) for code in codes),
                problems=self._problems(parts),
                retriable_only=all(is_retriable(code) for code in codes),
                topology_changes=dict(self._topology_changes),
                trace=self._trace,
                flow_problems=self._shown_flow_problems(),
                unreachable=dict(self._unreachable),
                skipped_records=dict(totals.skipped),
                seconds_since_success=now - self._succeeded_at,
                incident_kinds=self._incidents.kinds,
                incident_records=self._incidents.records,
                ledger_entries=self._incidents.ledger_entries,
            )
        return with_unreachable_clusters(snapshot)

    def tasks(self) -> tuple[TaskSnapshot, ...]:
        """Return the tasks of the current epoch, in order; none before the first one."""
        with self._lock:
            by_split: dict[int, list[tuple[TopicPartition, _Partition]]] = {}
            for tp, part in self._parts.items():
                by_split.setdefault(part.split, []).append((tp, part))
            return tuple(
                self._task(split, parts) for split, parts in sorted(by_split.items()) if split >= 0
            )

    def _task(self, split: int, parts: Sequence[tuple[TopicPartition, _Partition]]) -> TaskSnapshot:
        failures: dict[str, None] = {}
        warnings: dict[str, None] = {}
        for _, part in parts:
            if part.problem:
                (warnings if is_retriable(part.problem_code) else failures)[part.problem] = None
        task = self._tasks.get(split)
        if task is not None and task.problem:
            warnings[task.problem] = None
        if task is not None and task.unacked_seconds > _SLOW_ACK_SECONDS:
            warnings[_slow(task.unacked_seconds)] = None
        copied = dict.fromkeys(tp.topic for tp, part in parts if part.counted_records)
        partitions = tuple(tp for tp, _ in parts)
        has_slot = split not in self._waiting_splits
        if not has_slot:
            warnings = {"has no Spark task yet; its partitions are not copied": None}
        elif reasons := list(filter(None, self._unreachable.values())):
            warnings = dict.fromkeys(reasons)  # the partitions' own warnings are consequences
        return TaskSnapshot(
            split, partitions, tuple(failures), tuple(warnings), tuple(copied), has_slot
        )

    def _shown_flow_problems(self) -> tuple[str, ...]:
        """Return the problems that belong to no task, without those of an unreachable cluster."""
        return without_consequences(self._flow_problems.values(), self._unreachable)

    def _problems(self, parts: Sequence[_Partition]) -> tuple[str, ...]:
        is_unreachable = any(self._unreachable.values())
        lost: Counter[str] = Counter()  # one broker is a problem of thousands of partitions
        found = []
        for part in parts:
            if part.problem_code == CONNECTION_LOST:
                lost[part.problem.partition(": ")[0]] += 1
                if is_unreachable or lost[part.problem.partition(": ")[0]] > 1:
                    continue
            if part.problem:
                found.append(part.problem)
        found += self._shown_flow_problems()
        if self._waiting_splits:
            count = len({part.split for part in parts})
            found.append(
                f"no Spark task for {len(self._waiting_splits)} of {counted(count, 'split')}"
            )
        if not is_unreachable:
            found += [task.problem for task in self._tasks.values() if task.problem]
        slowest = max((task.unacked_seconds for task in self._tasks.values()), default=0.0)
        if slowest > _SLOW_ACK_SECONDS:
            found.append(_slow(slowest))
        return tuple(dict.fromkeys(found))


def with_unreachable_clusters(now: FlowSnapshot) -> FlowSnapshot:
    """Return RETRYING, with the reason, for a flow that cannot run because of a cluster."""
    reasons = join_sentences(now.unreachable.values())
    if not reasons or now.state not in (FlowState.STARTING, FlowState.RUNNING):
        return now
    return replace(now, state=FlowState.RETRYING, reason=reasons)


def without_consequences(
    problems: Iterable[str], unreachable: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the problems once each, without those that only repeat an unreachable cluster."""
    names = [f"Cluster '{cluster}' " for cluster, reason in unreachable.items() if reason]
    return tuple(
        one
        for one in dict.fromkeys(problems)
        if not (any(name in one for name in names) and UNREACHABLE.search(one))
    )


def _without_task(part: _Partition) -> _Partition:
    return _Partition(part.position, end_offset=part.end_offset, end_read_at=part.end_read_at)


def _slow(seconds: float) -> str:
    return f"the target has acknowledged nothing for {format_duration(seconds)}"
