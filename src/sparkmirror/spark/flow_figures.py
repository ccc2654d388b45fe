# SPDX-License-Identifier: Apache-2.0
"""What metrics show of a flow beyond its status: sums of what its tasks report, over all epochs.

A FlowStatus owns one and locks. `snapshot` copies what a scrape needs; it shows at most so many
partitions one by one, and the sum of the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.model import TopicPartition
from sparkmirror.spark.partition_figures import PartitionFigures, Stat
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


class PartitionState(NamedTuple):
    """What a FlowStatus knows about a partition."""

    source: TopicPartition
    split: int
    position: int
    lag: int | None


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
        self._checkpoints: dict[bytes, tuple[Checkpoint, Stat]] = {}

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
                found = self._checkpoints[key] = (one, Stat())
            found[1].add_value(now, ms)

    def snapshot(
        self,
        now: float,
        states: Sequence[PartitionState],
        splits: int,
        waiting_splits: int,
        max_partitions: int,
    ) -> FlowFiguresView:
        """Return the figures; `states` are sorted by partition."""
        views = [self._view(now, one) for one in states]
        shown, rest = views[:max_partitions], views[max_partitions:]
        if rest:
            shown.append(_sum_of(rest))
        totals = TaskFigures()
        for figures in self._tasks.values():
            totals = _add_figures(totals, figures, keeps_moment=True)
        moment = {name: getattr(totals, name) for name in _MOMENTARY}
        return FlowFiguresView(
            totals=self._totals._replace(**moment),
            tasks=[TaskView(split, one) for split, one in sorted(self._tasks.items())],
            partitions=shown,
            summed_partitions=len(rest),
            replication_latency=Histogram(dict(self._replication), self._replication_ms / 1000),
            copy_latency=Histogram(dict(self._copying), self._copying_ms / 1000),
            request_errors=dict(self._errors),
            checkpoints=[
                (one, _stat_view(stat, now)[1]) for one, stat in self._checkpoints.values()
            ],
            splits=splits,
            waiting_splits=waiting_splits,
        )

    def _view(self, now: float, state: PartitionState) -> PartitionView:
        tp, split, position, lag = state
        one = self.of(tp)
        record_rate, size, _, _ = one.sizes.summary(now)
        if record_rate == 0.0:
            size = one.bytes / one.records if one.records > 0 else math.nan
        lag_bytes = lag_seconds = math.nan
        if lag is not None:
            lag_bytes = lag * size if lag else 0.0
            seconds = one.lag_seconds(now, position, lag)
            lag_seconds = math.nan if seconds is None else seconds
        return PartitionView(
            tp.topic,
            str(tp.partition),
            split,
            math.nan if lag is None else lag,
            lag_bytes,
            lag_seconds,
            one.records,
            one.bytes,
            record_rate,
            record_rate * size if record_rate else 0.0,
            _stat_view(one.age, now)[1],
            _stat_view(one.latency, now)[1],
        )


def _stat_view(stat: Stat, now: float) -> tuple[float, StatView]:
    rate, *summary = stat.summary(now)
    return rate, StatView(stat.last, *summary)


def _sum_of(views: Sequence[PartitionView]) -> PartitionView:
    """Return one view of several partitions; a lag is unknown if one of them is."""
    return PartitionView(
        OTHERS,
        "",
        -1,
        sum(one.lag_records for one in views),
        sum(one.lag_bytes for one in views),
        _known(max, (one.lag_seconds for one in views)),
        sum(one.records for one in views),
        sum(one.bytes for one in views),
        sum(one.record_rate for one in views),
        sum(one.byte_rate for one in views),
        _joined([one.age for one in views]),
        _joined([one.latency for one in views]),
    )


def _joined(stats: Sequence[StatView]) -> StatView:
    averages = [one.average for one in stats if not math.isnan(one.average)]
    return StatView(
        _known(max, (one.last for one in stats)),
        sum(averages) / len(averages) if averages else math.nan,
        _known(min, (one.minimum for one in stats)),
        _known(max, (one.maximum for one in stats)),
    )


def _known(choose: Callable[[list[float]], float], values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return choose(known) if known else math.nan
