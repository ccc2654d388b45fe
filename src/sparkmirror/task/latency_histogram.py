# SPDX-License-Identifier: Apache-2.0
"""Latencies in buckets: cheap to record per record batch, small to send, good for percentiles.

Bucket b covers latencies around 2^(b/4) - 1 milliseconds, so neighbours differ by a fifth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

_PER_DOUBLING = 4


def bucket(milliseconds: float) -> int:
    """The bucket that a latency falls into; negative ones (clocks differ) count as zero."""
    return int(math.log2(max(milliseconds, 0.0) + 1.0) * _PER_DOUBLING)


def bucket_milliseconds(of_bucket: int) -> float:
    """The middle of a bucket."""
    return float(2 ** ((of_bucket + 0.5) / _PER_DOUBLING) - 1.0)


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The latency below which `share` of the counted record batches stayed."""
    total = sum(counts.values())
    if not total:
        return None
    seen = 0
    for one in sorted(counts):
        seen += counts[one]
        if seen >= share * total:
            return bucket_milliseconds(one)
    return bucket_milliseconds(max(counts))


def add_counts(into: Counter[int], more: Mapping[int, int] | tuple[tuple[int, int], ...]) -> None:
    """Add counts to counts."""
    for one, count in dict(more).items():
        into[one] += count
