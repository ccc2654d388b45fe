# SPDX-License-Identifier: Apache-2.0
"""What metrics show of a flow beyond its status: sums of what its tasks report, over all epochs.

A FlowStatus owns one and locks. `snapshot` copies what a scrape needs; it shows at most so many
partitions one by one, and the sum of the others.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.model import TopicPartition
from sparkmirror.spark.partition_figures import WINDOW_SECONDS, PartitionFigures, Sample
from sparkmirror.task.messages import Progress, TaskFigures

OTHERS = "(other)"  # no topic can have this name
_MAX_CHECKPOINTS = 2_000  # group positions with a latency, per flow


class StatView(NamedTuple):
    """A Stat at one moment."""

    last: float = math.nan
    average: float = math.nan
    minimum: float = math.nan
    maximum: float = math.nan


@dataclass(slots=True)
class PartitionView:
    """A source partition at one moment, or the sum of several; NaN: unknown."""

    topic: str
    partition: str
    split: int
    lag_records: float
    lag_bytes: float
    lag_seconds: float
    records: int
    bytes: int
    record_rate: float
    byte_rate: float
    age: StatView
    latency: StatView


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by bucket of `latency_histogram`, and their sum in seconds."""

    counts: Mapping[int, int] = field(default_factory=dict)
    total_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task of the current epoch."""

    split: int
    figures: TaskFigures  # sums since the task began, and its last values of the moment


@dataclass(frozen=True, slots=True)
class FlowFiguresView:
    """The figures of a flow at one moment."""

    totals: TaskFigures = field(default_factory=TaskFigures)
    tasks: Sequence[TaskView] = ()
    partitions: Sequence[PartitionView] = ()
    summed_partitions: int = 0  # that are shown as one
    replication_latency: Histogram = field(default_factory=Histogram)
    copy_latency: Histogram = field(default_factory=Histogram)
    request_errors: Mapping[tuple[str, int], int] = field(default_factory=dict)
    checkpoints: Sequence[tuple[Checkpoint, StatView]] = ()
    splits: int = 0
    waiting_splits: int = 0


# What a FlowStatus knows about a partition: its split, position and lag, None: unknown.
PartitionState = tuple[TopicPartition, int, int, int | None]
_MOMENTARY = ("waiting_partitions", "comparing_partitions", "unacked_records", "available_bytes")
_MAXIMA = ("commit_max_ms",)


def _add_figures(one: TaskFigures, other: TaskFigures, *, keeps_moment: bool) -> TaskFigures:
    """Add the counts; the values of the moment are the second one's, or sums."""
    values = []
    for name, a, b in zip(TaskFigures._fields, one, other, strict=True):
        if name in _MAXIMA:
            values.append(max(a, b))
        elif name in _MOMENTARY and not keeps_moment:
            values.append(b)
        else:
            values.append(a + b)
    return TaskFigures(*values)


class _CheckpointTimes:
    """The latencies of a group position's checkpoints in the window."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: deque[tuple[float, float]] = deque()

    def add(self, now: float, ms: float) -> None:
        self._values.append((now, ms))
        while self._values[0][0] < now - WINDOW_SECONDS:
            self._values.popleft()

    def view(self) -> StatView:
        """Return the statistics of the last window with a checkpoint."""
        values = [ms for _, ms in self._values]
        return StatView(values[-1], sum(values) / len(values), min(values), max(values))


class FlowFigures:
    """The figures of one flow since the process started."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionFigures] = {}
        self._totals = TaskFigures()
        self._tasks: dict[int, TaskFigures] = {}
        self._replication: Counter[int] = Counter()
        self._copying: Counter[int] = Counter()
        self._replication_ms = self._copying_ms = 0
        self._errors: Counter[tuple[str, int]] = Counter()
        self._checkpoints: dict[bytes, tuple[Checkpoint, _CheckpointTimes]] = {}

    def begin_epoch(self) -> None:
        """Forget the tasks of the previous epoch."""
        self._tasks = {}

    def of(self, tp: TopicPartition) -> PartitionFigures:
        """Return the figures of a partition."""
        found = self._partitions.get(tp)
        if found is None:
            found = self._partitions[tp] = PartitionFigures()
        return found

    def on_progress(self, now: float, progress: Progress) -> None:
        """Add a task's report; partitions are counted by the status."""
        new = progress.figures
        self._totals = _add_figures(self._totals, new, keeps_moment=False)
        before = self._tasks.get(progress.split, TaskFigures())
        self._tasks[progress.split] = _add_figures(before, new, keeps_moment=False)
        for bucket, count in progress.replication_latency:
            self._replication[bucket] += count
        for bucket, count in progress.copy_latency:
            self._copying[bucket] += count
        self._replication_ms += progress.latency_sums[0]
        self._copying_ms += progress.latency_sums[1]
        for error in progress.request_errors:
            self._errors[error.side, error.code] += error.times
        for times in progress.times:
            row = progress.partitions[times.row]
            self.of(TopicPartition(row.topic, row.partition)).add_times(now, times)

    def add_checkpoints(self, now: float, checkpoints: Iterable[Checkpoint], ms: float) -> None:
        """Add checkpoints that were written `ms` after they were made."""
        for one in checkpoints:
            key = one.key()
            found = self._checkpoints.get(key)
            if found is None:
                if len(self._checkpoints) >= _MAX_CHECKPOINTS:
                    continue
                found = self._checkpoints[key] = (one, _CheckpointTimes())
            found[1].add(now, ms)

    def snapshot(
        self,
        now: float,
        states: Sequence[PartitionState],
        splits: int,
        waiting_splits: int,
        max_partitions: int,
    ) -> FlowFiguresView:
        """Return the figures; `states` are sorted by partition."""
        views = [self._view(now, one) for one in states[:max_partitions]]
        rest = states[max_partitions:]
        if rest:
            views.append(self._sum(now, rest))
        totals = TaskFigures()
        for figures in self._tasks.values():
            totals = _add_figures(totals, figures, keeps_moment=True)
        moment = {name: getattr(totals, name) for name in _MOMENTARY}
        return FlowFiguresView(
            totals=self._totals._replace(**moment),
            tasks=[TaskView(split, one) for split, one in sorted(self._tasks.items())],
            partitions=views,
            summed_partitions=len(rest),
            replication_latency=Histogram(dict(self._replication), self._replication_ms / 1000),
            copy_latency=Histogram(dict(self._copying), self._copying_ms / 1000),
            request_errors=dict(self._errors),
            checkpoints=[(one, stat.view()) for one, stat in self._checkpoints.values()],
            splits=splits,
            waiting_splits=waiting_splits,
        )

    def _view(self, now: float, state: PartitionState) -> PartitionView:
        tp, split, position, lag = state
        one = self.of(tp)
        window = one.window(now)
        lag_bytes, lag_seconds = _lag_in_bytes_and_seconds(now, one, position, lag)
        age, latency = _stats(window, one.age, one.latency)
        seconds = 1.0 if window is None else window.seconds(now)
        return PartitionView(
            tp.topic,
            str(tp.partition),
            split,
            math.nan if lag is None else lag,
            lag_bytes,
            lag_seconds,
            one.records,
            one.bytes,
            0.0 if window is None else window.records / seconds,
            0.0 if window is None else window.bytes / seconds,
            age,
            latency,
        )

    def _sum(self, now: float, states: Sequence[PartitionState]) -> PartitionView:
        """Return one view of several partitions, without ages and latencies.

        A lag is unknown if one of them is.
        """
        found = PartitionView(OTHERS, "", -1, 0.0, 0.0, 0.0, 0, 0, 0.0, 0.0, StatView(), StatView())
        for tp, _, position, lag in states:
            one = self.of(tp)
            found.records += one.records
            found.bytes += one.bytes
            window = one.window(now)
            if window is not None:
                found.record_rate += window.records / window.seconds(now)
                found.byte_rate += window.bytes / window.seconds(now)
            if lag == 0:
                continue
            found.lag_records += math.nan if lag is None else lag
            lag_bytes, seconds = _lag_in_bytes_and_seconds(now, one, position, lag)
            found.lag_bytes += lag_bytes
            is_longer = seconds > found.lag_seconds or math.isnan(seconds)
            found.lag_seconds = seconds if is_longer else found.lag_seconds
        return found


def _lag_in_bytes_and_seconds(
    now: float, one: PartitionFigures, position: int, lag: int | None
) -> tuple[float, float]:
    if lag is None:
        return math.nan, math.nan
    if not lag:
        return 0.0, 0.0
    size = one.bytes / one.records if one.records > 0 else math.nan
    seconds = one.lag_seconds(now, position, lag)
    return lag * size, math.nan if seconds is None else seconds


def _stats(window: Sample | None, age: float, latency: float) -> tuple[StatView, StatView]:
    if window is None or not window.timed:
        return StatView(age), StatView(latency)
    count = window.timed
    return (
        StatView(age, window.age_sum / count, window.age_min, window.age_max),
        StatView(latency, window.latency_sum / count, window.latency_min, window.latency_max),
    )
