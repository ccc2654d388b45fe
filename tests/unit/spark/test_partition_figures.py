# SPDX-License-Identifier: Apache-2.0
"""Windows and lag in time of one partition, by a manual clock."""

from __future__ import annotations

import pytest

from sparkmirror.spark.partition_figures import PartitionFigures
from sparkmirror.task.messages import PartitionTimes


def times(latency: int, records: int = 1) -> PartitionTimes:
    return PartitionTimes(0, records, 0, 0, 0, 0, latency * records, latency, latency, latency)


def test_a_window_forgets_after_two_samples() -> None:
    """The last value stays."""
    one = PartitionFigures()
    one.count(100.0, 60, 600)
    one.add_times(100.0, times(500, 60))
    one.count(131.0, 30, 300)
    one.add_times(131.0, times(100, 30))
    both = one.window(140.0)
    assert both is not None
    assert (both.records, both.latency_min, both.latency_max) == (90, 100, 500)
    assert both.seconds(140.0) == 40.0
    later = one.window(170.0)
    assert later is not None
    assert (later.records, later.latency_max) == (30, 100)
    assert one.window(200.0) is None
    assert (one.records, one.latency) == (90, 100)


def test_a_young_window_counts_as_one_sample() -> None:
    """As Kafka's rates: a first second is no reason for a huge one."""
    one = PartitionFigures()
    one.count(100.0, 60, 600)
    window = one.window(101.0)
    assert window is not None
    assert window.records / window.seconds(101.0) == 2.0


def test_lag_in_time_is_since_the_end_passed_the_position() -> None:
    """Interpolated between two observations of the end."""
    one = PartitionFigures()
    one.observe(100.0, 50, 50)
    assert one.lag_seconds(100.0, 50, 0) == 0.0
    one.observe(110.0, 50, 150)  # 10 records per second came
    assert one.lag_seconds(110.0, 50, 100) == 10.0
    one.observe(120.0, 100, 150)  # half of them are copied
    assert one.lag_seconds(120.0, 100, 50) == pytest.approx(15.0)
    one.observe(121.0, 150, 150)
    assert one.lag_seconds(121.0, 150, 0) == 0.0


def test_lag_from_before_the_start_is_told_by_the_last_copied_record() -> None:
    """Without one it is unknown."""
    one = PartitionFigures()
    one.observe(100.0, 50, 150)
    assert one.lag_seconds(105.0, 50, 100) is None
    one.add_times(105.0, times(60_000))
    assert one.lag_seconds(107.0, 60, 90) == 62.0


def test_a_partition_that_stays_behind_keeps_few_observations() -> None:
    """And still knows the time within what was thinned out."""
    one = PartitionFigures()
    one.observe(0.0, 0, 0)
    for second in range(1, 1_000):
        one.observe(float(second), 0, 10 * second)
    assert len(one._ends) <= 65
    assert one.lag_seconds(1_000.0, 0, 9_990) == pytest.approx(1_000.0)
    one.observe(1_000.0, 5_000, 10_000)
    assert one.lag_seconds(1_000.0, 5_000, 5_000) == pytest.approx(500.0, abs=40)
