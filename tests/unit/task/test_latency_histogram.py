# SPDX-License-Identifier: Apache-2.0
"""Percentiles out of buckets stay close to the true ones."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.task import latency_histogram
from sparkmirror.task.latency_histogram import BatchTimes, Latencies

TIMES = st.lists(st.floats(0, 10_000_000), min_size=1, max_size=200)


@given(times=TIMES, share=st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_within_a_tenth_and_a_fraction_of_a_millisecond(
    times: list[float], share: float
) -> None:
    """Buckets grow by a fifth; their middle is at most a tenth off."""
    counts = Counter(latency_histogram.bucket(one) for one in times)
    true = sorted(times)[max(0, math.ceil(share * len(times)) - 1)]

    found = latency_histogram.percentile(counts, share)

    assert found is not None
    assert abs(found - true) <= 0.1 * (true + 1)


def test_nothing_counted_has_no_percentile() -> None:
    """Not zero: unknown."""
    assert latency_histogram.percentile({}, 0.5) is None
    assert latency_histogram.percentile(Counter({3: 0}), 0.5) is None


@pytest.mark.parametrize("milliseconds", [-5.0, -0.1, 0.0])
def test_clocks_that_differ_count_as_no_latency(milliseconds: float) -> None:
    """A record from the future took no time."""
    assert latency_histogram.bucket(milliseconds) == 0


def test_a_batch_counts_as_often_as_it_has_records() -> None:
    """From its latest timestamp, and from its fetch; without a timestamp only from its fetch."""
    found = Latencies()
    of_partition: latency_histogram.PartitionTimesList = []
    found.add(of_partition, BatchTimes(of_partition, 3, 1_000, 50.0), 61_000, 50.25)
    found.add(of_partition, BatchTimes(of_partition, 2, -1, 50.0), 61_000, 50.25)
    assert found.replication == {latency_histogram.bucket(60_000): 3}
    assert found.copying == {latency_histogram.bucket(250): 5}
    assert of_partition == [(3, 60_000, 250.0)]
    assert found.untimed_sum == 500
    found.clear()
    assert (found.replication, found.copying) == ({}, {})
