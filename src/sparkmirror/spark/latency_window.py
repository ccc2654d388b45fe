# SPDX-License-Identifier: Apache-2.0
"""Percentiles of the latencies that tasks reported recently. Its owner locks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from sparkmirror.task import latency_histogram


@dataclass(frozen=True, slots=True)
class LatencyPercentiles:
    """Percentiles over the records that were acknowledged recently."""

    p50_ms: float
    p99_ms: float


class LatencyWindow:
    """The histograms of the last seconds, added up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._counts: Counter[int] = Counter()
        self._history: deque[tuple[float, dict[int, int]]] = deque()

    def add(self, now: float, counts: Iterable[tuple[int, int]]) -> None:
        """Add a report: records by bucket of `latency_histogram`."""
        report = dict(counts)
        if report:
            self._counts.update(report)
            self._history.append((now, report))
        self._drop_old(now)

    def percentiles(self, now: float) -> LatencyPercentiles | None:
        """Return them; None if no record was acknowledged recently."""
        self._drop_old(now)
        p50 = latency_histogram.percentile(self._counts, 0.5)
        p99 = latency_histogram.percentile(self._counts, 0.99)
        return None if p50 is None or p99 is None else LatencyPercentiles(p50, p99)

    def _drop_old(self, now: float) -> None:
        while self._history and self._history[0][0] < now - self._seconds:
            for bucket, count in self._history.popleft()[1].items():
                self._counts[bucket] -= count
                if not self._counts[bucket]:
                    del self._counts[bucket]
