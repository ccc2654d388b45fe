# SPDX-License-Identifier: Apache-2.0
"""Renders the metric table as Prometheus' text format, version 0.0.4.

The lines are formatted here, not by a client library: a scrape of 2,000 partitions has 40,000, and
an object per line would take longer than everything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

from sparkmirror.metrics.metric import Metric, MetricType, Scope
from sparkmirror.metrics.process_view import ProcessView
from sparkmirror.spark.flow_figures import Histogram
from sparkmirror.task.latency_histogram import bucket_milliseconds

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0, 1800.0, 3600.0, 21600.0, 86400.0,
)  # fmt: skip
_BOUND_TEXTS = tuple(f"{bound:g}" for bound in BOUNDS_SECONDS)
_Rows = list[tuple[str, object]]


def render(metrics: Iterable[Metric], process: ProcessView) -> bytes:
    """Return all metrics of a process. Metrics without a sample are left out."""
    rows: dict[str, _Rows] = {}
    lines: list[str] = []
    for metric in metrics:
        scope = metric.scope
        if scope.name not in rows:
            rows[scope.name] = _scope_rows(scope, process)
        samples = _samples(metric, rows[scope.name])
        if samples:
            lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} {metric.type.value}")
            lines += samples
    lines.append("")
    return "\n".join(lines).encode()


def _scope_rows(scope: Scope, process: ProcessView) -> _Rows:
    return [(_label_text(scope.labels, values), one) for values, one in scope.rows(process)]


@lru_cache(maxsize=100_000)
def _label_text(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = ",".join(
        f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)
    )
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _samples(metric: Metric, rows: _Rows) -> list[str]:
    name, value_of = metric.name, metric.value
    if metric.type is MetricType.HISTOGRAM:
        return [
            line
            for labels, one in rows
            if (histogram := value_of(one)) is not None
            for line in _histogram_lines(name, labels, histogram)
        ]
    if metric.type is MetricType.SUMMARY:
        return [
            line
            for labels, one in rows
            for count, total in [value_of(one)]
            for line in (f"{name}_sum{labels} {total}", f"{name}_count{labels} {count}")
        ]
    return [
        f"{name}{labels} {_number(value)}"
        for labels, one in rows
        if (value := value_of(one)) is not None
    ]


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN; math.isnan takes longer
        return "NaN"
    if value in (math.inf, -math.inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(value)


def _histogram_lines(name: str, labels: str, histogram: Histogram) -> list[str]:
    counts = [0] * (len(BOUNDS_SECONDS) + 1)
    for one, count in histogram.counts.items():
        counts[_bound_index(one)] += count
    prefix = f"{name}_bucket{{{labels[1:-1]}," if labels else f"{name}_bucket{{"
    *cumulative, total = accumulate(counts)
    lines = [
        f'{prefix}le="{bound}"}} {count}'
        for bound, count in zip(_BOUND_TEXTS, cumulative, strict=True)
    ]
    return [
        *lines,
        f'{prefix}le="+Inf"}} {total}',
        f"{name}_sum{labels} {histogram.total_seconds}",
        f"{name}_count{labels} {total}",
    ]


@lru_cache
def _bound_index(bucket: int) -> int:
    """Return the first bound that is not below the middle of a bucket."""
    seconds = bucket_milliseconds(bucket) / 1000
    return next(
        (n for n, bound in enumerate(BOUNDS_SECONDS) if seconds <= bound), len(BOUNDS_SECONDS)
    )
