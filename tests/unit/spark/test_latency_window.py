# SPDX-License-Identifier: Apache-2.0
"""Only what was reported recently counts."""

from __future__ import annotations

from sparkmirror.spark.latency_window import LatencyWindow
from sparkmirror.task import latency_histogram

SLOW, FAST = latency_histogram.bucket(60_000), latency_histogram.bucket(5)


def test_reports_of_all_tasks_are_added_up() -> None:
    window = LatencyWindow(10.0)
    window.add(100.0, [(FAST, 98)])
    window.add(101.0, [(SLOW, 1), (FAST, 1)])
    found = window.percentiles(101.0)
    assert found is not None
    assert 4 < found.p50_ms == found.p99_ms < 6
    window.add(102.0, [(SLOW, 3)])
    found = window.percentiles(102.0)
    assert found is not None
    assert found.p99_ms > 50_000


def test_what_is_old_does_not_count_even_if_no_report_follows() -> None:
    """During an outage no latency is shown, not that of the last records before it."""
    window = LatencyWindow(10.0)
    window.add(100.0, [(SLOW, 10)])
    window.add(105.0, [(FAST, 1)])
    assert window.percentiles(105.0) is not None
    later = window.percentiles(112.0)
    assert later is not None
    assert later.p99_ms < 6
    assert window.percentiles(116.0) is None
    window.add(200.0, [])
    assert window.percentiles(200.0) is None
