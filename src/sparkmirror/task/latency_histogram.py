# SPDX-License-Identifier: Apache-2.0
"""A latency histogram with exponential buckets, for percentiles.

Bucket b covers latencies around 2^(b/4) - 1 milliseconds; each bucket is about 19 % above the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_PER_DOUBLING = 4


def bucket(milliseconds: float) -> int:
    """Return the bucket of a latency. Negative latencies (clock skew) count as zero."""
    return int(math.log2(max(milliseconds, 0.0) + 1.0) * _PER_DOUBLING)


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
