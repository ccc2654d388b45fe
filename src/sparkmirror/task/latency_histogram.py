# SPDX-License-Identifier: Apache-2.0
"""Latencies of copied records, as histograms with exponential buckets, for percentiles.

Replication latency is MM2's `replication-latency-ms`: from a record's timestamp until it is
durable on the target. It includes the time in the source's backlog, and in an old record all the
time since it was made. Copy latency is from the fetch until then: the time in the mirror. Both are
taken once per record batch, and count as often as the batch has records; the timestamp is the
batch's latest.

Bucket b covers latencies around 2^(b/4) - 1 milliseconds; each bucket is about 19 % above the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Protocol

_PER_DOUBLING = 4


def bucket(milliseconds: float) -> int:
    """Return the bucket of a latency. Negative latencies (clock skew) count as zero."""
    return int(log2(milliseconds + 1.0) * _PER_DOUBLING) if milliseconds > 0.0 else 0


def bucket_milliseconds(of_bucket: int) -> float:
    """Return the middle of a bucket."""
    return float(2 ** ((of_bucket + 0.5) / _PER_DOUBLING) - 1.0)


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """Return a percentile, for example the median for a `share` of 0.5; None without data."""
    total = sum(counts.values())
    if not total:
        return None
    seen = 0
    for one in sorted(counts):
        seen += counts[one]
        if seen >= share * total:
            return bucket_milliseconds(one)
    return bucket_milliseconds(max(counts))


class TimedBatch(Protocol):
    """A record batch that is durable on the target."""

    @property
    def count(self) -> int:
        """How many records it has."""

    @property
    def max_timestamp(self) -> int:
        """The latest timestamp of its records, in milliseconds; -1: they have none."""

    @property
    def fetched_at(self) -> float:
        """When it was fetched, in seconds on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """What is kept of a record batch until its transaction is committed."""

    of_partition: PartitionTimesList
    count: int
    max_timestamp: int
    fetched_at: float


# Of each record batch of a partition since the last report: records, replication latency and copy
# latency in milliseconds. Summed up once a second: that takes less than updating sums and extremes.
PartitionTimesList = list[tuple[int, float, float]]


class Latencies:
    """Both histograms: records by bucket. Also times of commits."""

    __slots__ = ("commit_max_ms", "commit_ms", "commits", "copying", "replication", "untimed_sum")

    def __init__(self) -> None:
        self.replication: Counter[int] = Counter()
        self.copying: Counter[int] = Counter()
        self.commit_ms = self.commit_max_ms = 0.0
        self.clear()

    def add(
        self, of_partition: PartitionTimesList, batch: TimedBatch, now_ms: float, now: float
    ) -> None:
        """Add a record batch that is durable now: wall clock in ms, monotonic clock in seconds."""
        count, copying = batch.count, (now - batch.fetched_at) * 1000
        self.copying[bucket(copying)] += count
        if batch.max_timestamp >= 0:
            latency = now_ms - batch.max_timestamp
            self.replication[bucket(latency)] += count
            of_partition.append((count, latency, copying))
        else:
            self.untimed_sum += copying * count

    def add_commit(self, seconds: float) -> None:
        """Add a commit of positions that took so long."""
        self.commits += 1
        self.commit_ms += seconds * 1000
        self.commit_max_ms = max(self.commit_max_ms, seconds * 1000)

    def clear(self) -> None:
        self.replication.clear()
        self.copying.clear()
        self.untimed_sum = 0.0  # copy latencies of records without a timestamp
        self.commits = 0
        self.commit_ms = self.commit_max_ms = 0.0
