# SPDX-License-Identifier: Apache-2.0
"""What metrics show of one source partition: totals, rates, ages, latencies and lag in time.

Rates, averages and extremes cover MM2's window: two samples of 30 seconds, the younger of which is
still filling. Without a record in the window they are unknown, as in Java. Its owner locks.
"""

from __future__ import annotations

import math
from collections import deque

from sparkmirror.task.messages import PartitionTimes

_SAMPLE_SECONDS = 30.0
_SAMPLES = 2
WINDOW_SECONDS = _SAMPLES * _SAMPLE_SECONDS
_MAX_ENDS = 64  # of a partition that is behind; older ones are thinned out


class Sample:
    """Records, bytes and times of one sample of a window."""

    __slots__ = (
        "age_max",
        "age_min",
        "age_sum",
        "began",
        "bytes",
        "latency_max",
        "latency_min",
        "latency_sum",
        "records",
        "timed",
    )

    def __init__(self, began: float) -> None:
        self.began = began
        self.records = self.bytes = 0
        self.timed = self.age_sum = self.latency_sum = 0  # records with a timestamp
        self.age_min: float = math.inf
        self.latency_min: float = math.inf
        self.age_max: float = -math.inf
        self.latency_max: float = -math.inf

    def add_times(self, times: PartitionTimes) -> None:
        """Add the times of a report."""
        _, records, age_sum, age_min, age_max, _, total, low, high, _ = times
        self.timed += records
        self.age_sum += age_sum
        self.latency_sum += total
        self.age_min = min(self.age_min, age_min)
        self.age_max = max(self.age_max, age_max)
        self.latency_min = min(self.latency_min, low)
        self.latency_max = max(self.latency_max, high)

    def add(self, other: Sample) -> None:
        """Add another sample."""
        self.records += other.records
        self.bytes += other.bytes
        self.timed += other.timed
        self.age_sum += other.age_sum
        self.latency_sum += other.latency_sum
        self.age_min = min(self.age_min, other.age_min)
        self.age_max = max(self.age_max, other.age_max)
        self.latency_min = min(self.latency_min, other.latency_min)
        self.latency_max = max(self.latency_max, other.latency_max)
        self.began = min(self.began, other.began)

    def seconds(self, now: float) -> float:
        """Return the time that rates refer to; as in Kafka at least one full sample."""
        return max(now - self.began, _SAMPLE_SECONDS)


_LONG_AGO = Sample(-math.inf)


class PartitionFigures:
    """One source partition, from the start of the process over all epochs."""

    __slots__ = (
        "_copied_at",
        "_current",
        "_ends",
        "_previous",
        "age",
        "bytes",
        "latency",
        "records",
    )

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.age = math.nan  # of the last record batch, in ms
        self.latency = math.nan
        self._current = self._previous = _LONG_AGO
        self._copied_at = 0.0
        self._ends: deque[tuple[float, int]] = deque()  # when the log ended where

    def _sample(self, now: float) -> Sample:
        current = self._current
        if now - current.began < _SAMPLE_SECONDS:
            return current
        self._previous, self._current = current, Sample(now)
        return self._current

    def count(self, now: float, records: int, size: int) -> None:
        """Add copied records. After an abort both may be negative."""
        self.records += records
        self.bytes += size
        if records > 0:
            sample = self._sample(now)
            sample.records += records
            sample.bytes += size

    def add_times(self, now: float, times: PartitionTimes) -> None:
        """Add the times of a report."""
        self.age, self.latency = times.age_last, times.latency_last
        self._sample(now).add_times(times)
        self._copied_at = now

    def window(self, now: float) -> Sample | None:
        """Return the sum of the recent samples; None if there is none."""
        oldest = now - WINDOW_SECONDS
        if self._current.began <= oldest:
            return None
        if self._previous.began <= oldest:
            return self._current
        both = Sample(self._current.began)
        both.add(self._current)
        both.add(self._previous)
        return both

    def observe(self, now: float, position: int, end: int) -> None:
        """Remember where the log ends, to know later when the record at a position came."""
        ends = self._ends
        if position >= end:
            if ends:
                ends.clear()
            ends.append((now, end))
            return
        if not ends or end > ends[-1][1]:
            ends.append((now, end))
        while len(ends) > 1 and ends[1][1] <= position:
            ends.popleft()
        if len(ends) > _MAX_ENDS:
            self._ends = deque([one for n, one in enumerate(ends) if not n % 2 or n == len(ends)])

    def lag_seconds(self, now: float, position: int, lag: int) -> float | None:
        """Return for how long the record at the position has been in the source.

        From when the end of the log was seen to pass the position. If the partition was behind
        already when that began, from the last copied record's timestamp; None if there is none.
        """
        if not lag:
            return 0.0
        if self._ends and self._ends[0][1] <= position:
            seen_at, end = self._ends[0]
            if len(self._ends) == 1:
                return 0.0
            later, next_end = self._ends[1]
            share = (position - end) / (next_end - end)
            return max(now - (seen_at + share * (later - seen_at)), 0.0)
        if math.isnan(self.latency):
            return None
        return self.latency / 1000 + now - self._copied_at
