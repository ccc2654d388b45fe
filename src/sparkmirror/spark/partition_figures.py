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
_MAX_ENDS = 64  # of a partition that is behind; older ones are thinned out


class Stat:
    """Values in a window: their number, sum and extremes, and the last one of all."""

    __slots__ = ("_current", "_previous", "last")

    def __init__(self) -> None:
        self.last = math.nan
        self._current = _Sample(-math.inf)
        self._previous: _Sample | None = None

    def add(self, now: float, count: int, total: float, low: float, high: float) -> None:
        """Add values; `last` is set by the caller."""
        current = self._current
        if now - current.began >= _SAMPLE_SECONDS:
            is_recent = now - current.began < _SAMPLES * _SAMPLE_SECONDS
            self._previous = current if is_recent else None
            current = self._current = _Sample(now)
        current.count += count
        current.total += total
        current.low = min(current.low, low)
        current.high = max(current.high, high)

    def add_value(self, now: float, value: float) -> None:
        """Add one value."""
        self.last = value
        self.add(now, 1, value, value, value)

    def summary(self, now: float) -> tuple[float, float, float, float]:
        """Return rate of values per second, average, minimum and maximum."""
        oldest = now - _SAMPLES * _SAMPLE_SECONDS
        one, two = self._current, self._previous
        if one.began <= oldest:
            return 0.0, math.nan, math.nan, math.nan
        count, total, low, high, began = one.count, one.total, one.low, one.high, one.began
        if two is not None and two.began > oldest:
            count, total, began = count + two.count, total + two.total, two.began
            low, high = min(low, two.low), max(high, two.high)
        # As Kafka's Rate: a window that has just begun counts as one full sample.
        seconds = max(now - began, _SAMPLE_SECONDS)
        if not count:
            return 0.0, math.nan, math.nan, math.nan
        return count / seconds, total / count, low, high


class _Sample:
    __slots__ = ("began", "count", "high", "low", "total")

    def __init__(self, began: float) -> None:
        self.began = began
        self.count = 0
        self.total = 0.0
        self.low = math.inf
        self.high = -math.inf


class PartitionFigures:
    """One source partition, from the start of the process over all epochs."""

    __slots__ = ("_copied_at", "_ends", "age", "bytes", "latency", "records", "sizes")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.sizes = Stat()  # one value per record, in bytes: rates of records and bytes
        self.age = Stat()  # ms
        self.latency = Stat()  # ms
        self._copied_at = 0.0
        self._ends: deque[tuple[float, int]] = deque()  # when the log ended where

    def count(self, now: float, records: int, size: int) -> None:
        """Add copied records. After an abort both may be negative."""
        self.records += records
        self.bytes += size
        if records > 0:
            self.sizes.add(now, records, size, 0.0, 0.0)

    def add_times(self, now: float, times: PartitionTimes) -> None:
        """Add the times of a report."""
        self.age.last, self.latency.last = times.age_last, times.latency_last
        self.age.add(now, times.records, times.age_sum, times.age_min, times.age_max)
        self.latency.add(
            now, times.records, times.latency_sum, times.latency_min, times.latency_max
        )
        self._copied_at = now

    def observe(self, now: float, position: int, end: int) -> None:
        """Remember where the log ends, to know later when the record at a position came."""
        ends = self._ends
        if position >= end:
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
        if math.isnan(self.latency.last):
            return None
        return self.latency.last / 1000 + now - self._copied_at
