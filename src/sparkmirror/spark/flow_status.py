# SPDX-License-Identifier: Apache-2.0
"""Where a flow stands, for people and programs: written by the flow, read by any thread.

The driver's account of a flow's incidents: each is logged and counted once.

The same incident may be reported again, by a task that Spark ran a second time or by the next
epoch; it is known by its identity. Not locked: the owner does that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import Incident, IncidentKind, SeenIncidents
from sparkmirror.task import latency_histogram
from sparkmirror.task.messages import PartitionProgress, Progress
from sparkmirror.wire.error_codes import is_retriable

_RATE_WINDOW_SECONDS = 10.0
_SLOW_ACK_SECONDS = 30.0
_log = logging.getLogger(__name__)

_RECENT = 20
_MAX_LINES_PER_KIND = 10  # of one kind: a flood shall not drown the log
IncidentCounts = dict[tuple[str, int, str], int]  # source topic, partition, kind -> how many


class FlowState(Enum):
    """What a flow is doing."""

    STARTING = "STARTING"
    STANDBY = "STANDBY"  # another process runs it; this one takes over when that one ends
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"  # a cluster is out of reach or refuses; tried again
    FAILED = "FAILED"  # a person must change something
    DONE = "DONE"  # a bounded run has copied everything
    PAUSED = "PAUSED"  # somebody asked for that; heartbeats and checkpoints may go on
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
    lag: int | None  # records still to copy, as far as known
    remaining: int | None  # of a bounded run
    bounded_total: int | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    held_bytes: int
    task_cpu_seconds: dict[int, float]  # split -> CPU of its Python process so far
    notice_count: int  # things that happened once and were logged
    problems: tuple[str, ...]
    retriable_only: bool  # every trouble may go away by itself
    quarantined: int = 0  # topic partitions that will not move by themselves
    incidents: IncidentCounts = field(
        default_factory=dict
    )  # such as gaps, since the process started
    recent_incidents: tuple[str, ...] = ()
    group_positions: Mapping[str, int] = field(default_factory=dict)  # by state
    topology_changes: Mapping[str, int] = field(default_factory=dict)  # by what was done
    trace: str = ""  # where in the program a FAILED flow failed, if that is of use
    flow_problems: tuple[str, ...] = ()  # those troubles that belong to no task


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task of a flow's present epoch: what it copies, and what is wrong with that."""

    split: int
    partitions: tuple[TopicPartition, ...]
    failures: tuple[str, ...] = ()  # of partitions that will not move by themselves
    warnings: tuple[str, ...] = ()  # all that is tried again
    copied: tuple[str, ...] = ()  # source topics of which it has copied something


@dataclass(slots=True)
class _Partition:
    position: int
    split: int = -1  # which task copies it
    downstream: int = -1
    end_offset: int = -1
    stop_at: int | None = None
    first: int = 0
    counted_records: int = 0
    counted_bytes: int = 0
    trouble_code: int = 0
    trouble: str = ""


@dataclass(slots=True)
class _Task:
    attempt: int
    held_bytes: int = 0
    cpu_seconds: float = 0.0
    trouble: str = ""
    unacked_seconds: float = 0.0


@dataclass(slots=True)
class _Totals:
    records: int = 0
    bytes: int = 0
    history: deque[tuple[float, int, int]] = field(default_factory=deque)
    latency: Counter[int] = field(default_factory=Counter)
    latency_history: deque[tuple[float, dict[int, int]]] = field(default_factory=deque)


class FlowStatus:
    """The live figures of one flow."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._lock = threading.Lock()
        self._state = FlowState.STARTING
        self._reason = ""
        self._trace = ""
        self._awaited = 0  # tasks; once all have reported, the flow runs
        self._running = ""  # what to say then
        self._epoch = 0
        self._parts: dict[TopicPartition, _Partition] = {}
        self._tasks: dict[int, _Task] = {}
        self._notes: dict[str, str] = {}
        self._notices = 0
        self._incidents = IncidentCounter(flow)
        self._topology_changes: Counter[str] = Counter()
        self._totals = _Totals()

    def restarted(self) -> FlowStatus:
        """For the same flow begun anew: what counts up goes on, all else is new."""
        made = FlowStatus(self._flow)
        with self._lock:
            made._epoch = self._epoch
            made._notices = self._notices
            made._totals.records = self._totals.records
            made._totals.bytes = self._totals.bytes
            made._incidents = self._incidents
            made._topology_changes = self._topology_changes
            made._lock = self._lock  # of what both share: a late thread may still use it
        return made

    @property
    def name(self) -> str:
        """What messages call the flow."""
        return self._flow

    @property
    def epoch(self) -> int:
        """The number of the last epoch."""
        with self._lock:
            return self._epoch

    def set_state(self, state: FlowState, reason: str = "", trace: str = "") -> None:
        """Change the state; a trace says where in the program it failed."""
        with self._lock:
            self._state, self._reason, self._awaited = state, reason, 0
            self._trace = trace

    def await_reports(self, tasks: int, reason: str = "") -> None:
        """The flow runs as soon as so many tasks of this epoch have reported."""
        with self._lock:
            if self._state is not FlowState.RUNNING or self._reason != reason:
                self._awaited, self._running = tasks, reason

    def set_problem(self, topic: str, trouble: str) -> None:
        """Keep or clear (with an empty text) a trouble that belongs to no task."""
        with self._lock:
            if trouble:
                self._notes[topic] = trouble
            else:
                self._notes.pop(topic, None)

    def count_change(self, what: str, times: int = 1) -> None:
        """Count a change of the target's topics, configs or rights, such as `created`."""
        with self._lock:
            self._topology_changes[what] += times

    def add_incidents(self, incidents: Iterable[Incident]) -> None:
        """Log and count what a task or the driver met; what is known already is passed over."""
        with self._lock:
            self._incidents.add(incidents)

    def begin_epoch(
        self,
        number: int,
        starts: Sequence[tuple[TopicPartition, int, int | None]],
        splits: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """A new plan: topic partition, position and, in a bounded run, where it ends.

        `splits` says which task copies which topic partition.
        """
        with self._lock:
            assigned = splits or {}
            self._epoch = number
            old, self._parts, self._tasks = self._parts, {}, {}
            for tp, position, stop_at in starts:
                before = old.get(tp)
                self._parts[tp] = _Partition(
                    position=position,
                    split=assigned.get(tp, -1),
                    stop_at=stop_at,
                    end_offset=before.end_offset if before else -1,
                    first=before.first if before else position,
                    trouble=before.trouble if before else "",
                    trouble_code=before.trouble_code if before else 0,
                )

    def on_progress(self, progress: Progress) -> None:
        """Take a task's report."""
        now = time.monotonic()
        for sentence in progress.notices:
            _log.warning("%s: %s", self._flow, sentence)
        self.add_incidents(progress.incidents)
        with self._lock:
            self._notices += len(progress.notices)
            before = self._tasks.get(progress.split)
            is_new = before is None or before.attempt != progress.attempt
            for one in progress.partitions:
                self._add_partition(one, from_zero=is_new)
            self._tasks[progress.split] = _Task(
                progress.attempt,
                progress.held_bytes,
                progress.cpu_seconds,
                progress.error,
                progress.oldest_unacked_seconds,
            )
            if 0 < self._awaited <= len(self._tasks):
                self._state, self._reason, self._awaited = FlowState.RUNNING, self._running, 0
                self._trace = ""
            totals = self._totals
            totals.history.append((now, totals.records, totals.bytes))
            while totals.history[0][0] < now - _RATE_WINDOW_SECONDS and len(totals.history) > 1:
                totals.history.popleft()
            counts = dict(progress.latency)
            latency_histogram.add_counts(totals.latency, counts)
            totals.latency_history.append((now, counts))
            while totals.latency_history[0][0] < now - _RATE_WINDOW_SECONDS:
                for bucket, count in totals.latency_history.popleft()[1].items():
                    totals.latency[bucket] -= count

    def _add_partition(self, one: PartitionProgress, *, from_zero: bool) -> None:
        part = self._parts.get(TopicPartition(one.topic, one.partition))
        if part is None:
            return
        if from_zero:  # the first report of an attempt names every partition
            part.counted_records = part.counted_bytes = 0
        self._totals.records += one.records - part.counted_records
        self._totals.bytes += one.bytes - part.counted_bytes
        part.counted_records, part.counted_bytes = one.records, one.bytes
        part.position, part.downstream = one.position, one.downstream
        part.end_offset = max(one.end_offset, one.position)
        part.trouble_code, part.trouble = one.error_code, one.error

    def snapshot(self) -> FlowSnapshot:
        """The figures now."""
        now = time.monotonic()
        with self._lock:
            parts = list(self._parts.values())
            totals = self._totals
            history = [one for one in totals.history if one[0] >= now - _RATE_WINDOW_SECONDS]
            spent = now - history[0][0] if history else 0.0
            records = totals.records - history[0][1] if history else 0
            size = totals.bytes - history[0][2] if history else 0
            known = [p for p in parts if p.end_offset >= 0]
            bounded = [p for p in parts if p.stop_at is not None]
            codes = [p.trouble_code for p in parts if p.trouble]
            return FlowSnapshot(
                flow=self._flow,
                state=self._state,
                reason=self._reason,
                topics=len({tp.topic for tp in self._parts}),
                partitions=len(parts),
                epoch=self._epoch,
                records=totals.records,
                bytes=totals.bytes,
                records_per_second=records / spent if spent > 0.5 else 0.0,  # noqa: PLR2004
                bytes_per_second=size / spent if spent > 0.5 else 0.0,  # noqa: PLR2004
                lag=sum(max(p.end_offset - p.position, 0) for p in known) if known else None,
                remaining=sum(max((p.stop_at or 0) - p.position, 0) for p in bounded)
                if bounded
                else None,
                bounded_total=sum(max((p.stop_at or 0) - p.first, 0) for p in bounded)
                if bounded
                else None,
                latency_p50_ms=latency_histogram.percentile(totals.latency, 0.5),
                latency_p99_ms=latency_histogram.percentile(totals.latency, 0.99),
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
                flow_problems=tuple(dict.fromkeys(self._notes.values())),
            )

    def tasks(self) -> tuple[TaskSnapshot, ...]:
        """The tasks of the present epoch, in their order; none before the first one."""
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
            if part.trouble:
                (warnings if is_retriable(part.trouble_code) else failures)[part.trouble] = None
        task = self._tasks.get(split)
        if task is not None and task.trouble:
            warnings[task.trouble] = None
        if task is not None and task.unacked_seconds > _SLOW_ACK_SECONDS:
            warnings[_slow(task.unacked_seconds)] = None
        copied = dict.fromkeys(tp.topic for tp, part in parts if part.counted_records)
        partitions = tuple(tp for tp, _ in parts)
        return TaskSnapshot(split, partitions, tuple(failures), tuple(warnings), tuple(copied))

    def _problems(self, parts: Sequence[_Partition]) -> tuple[str, ...]:
        found = [part.trouble for part in parts if part.trouble]
        found += self._notes.values()
        found += [task.trouble for task in self._tasks.values() if task.trouble]
        slowest = max((task.unacked_seconds for task in self._tasks.values()), default=0.0)
        if slowest > _SLOW_ACK_SECONDS:
            found.append(_slow(slowest))
        return tuple(dict.fromkeys(found))


def _slow(seconds: float) -> str:
    return f"the target has acknowledged nothing for {seconds:.0f} s"


class IncidentCounter:
    """What happened to one flow since the process started."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._known = SeenIncidents()
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._recent: deque[str] = deque(maxlen=_RECENT)

    def add(self, incidents: Iterable[Incident]) -> None:
        """Log and count what has not been seen before."""
        lines: Counter[IncidentKind] = Counter()
        for one in incidents:
            if not self._known.is_new(one):
                continue
            self._counts[one.topic, one.partition, str(one.kind)] += 1
            self._recent.append(str(one))
            lines[one.kind] += 1
            if lines[one.kind] <= _MAX_LINES_PER_KIND:
                _log.warning("%s: %s", self._flow, one)
        for kind, count in lines.items():
            if count > _MAX_LINES_PER_KIND:
                _log.warning("%s: %s: %d more", self._flow, kind, count - _MAX_LINES_PER_KIND)

    @property
    def counts(self) -> IncidentCounts:
        """How many of each kind, by source partition."""
        return dict(self._counts)

    @property
    def recent(self) -> tuple[str, ...]:
        """The latest ones in words, oldest first."""
        return tuple(self._recent)
