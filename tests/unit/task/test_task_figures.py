# SPDX-License-Identifier: Apache-2.0
"""What a task reports for metrics."""

from __future__ import annotations

from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition
from sparkmirror.task.messages import PartitionStart, PartitionTimes
from sparkmirror.task.task_figures import drain_times


def partition(number: int) -> CopyPartition:
    return CopyPartition(PartitionStart("t", number, "a.t", 0), ClusterAliases("a", "b"))


def test_times_are_weighted_by_records_and_drained() -> None:
    """The age is what was left of the latency when the batch was fetched."""
    idle, busy = partition(0), partition(1)
    busy.times += [(10, 100.0, 20.0), (30, 200.0, 50.0)]
    times, sums = drain_times([idle, busy])
    latency, copying = 10 * 100 + 30 * 200, 10 * 20 + 30 * 50
    expected = PartitionTimes(1, 40, latency - copying, 80, 150, 150, latency, 100, 200, 200)
    assert times == [expected]
    assert sums == (latency, copying)
    assert drain_times([idle, busy]) == ([], (0, 0))


def test_clocks_that_differ_do_not_make_negative_times() -> None:
    one = partition(0)
    one.times.append((5, -300.0, 20.0))
    times, sums = drain_times([one])
    assert times == [PartitionTimes(0, 5, 0, 0, 0, 0, 0, 0, 0, 0)]
    assert sums == (0, 100)
