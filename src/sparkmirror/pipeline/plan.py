# SPDX-License-Identifier: Apache-2.0
"""Pure planning: which split holds which topic partitions, and how many splits a flow gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.model import Flow
from sparkmirror.pipeline.contract import PartitionStart, Split


def plan_splits(starts: Sequence[PartitionStart], most: int) -> tuple[Split, ...]:
    """At most `most` splits; partition number i goes to split i mod n, as MM2 assigns its tasks."""
    count = min(most, len(starts))
    return tuple(Split(index, tuple(starts[index::count])) for index in range(count))


def allot_slots(wanted: Mapping[Flow, int], slots: int) -> dict[Flow, int]:
    """How many splits each flow may have at once when `slots` Spark tasks can run.

    Copy tasks are long: a flow without a slot would wait for ever, so every flow gets one first,
    and the rest goes round until it is used up. One slot stays free for short jobs if it can.
    """
    spare = 1 if slots > len(wanted) else 0
    left = max(slots - spare - len(wanted), 0)
    allotted = dict.fromkeys(wanted, 1)
    while left:
        hungry = [flow for flow in wanted if allotted[flow] < wanted[flow]]
        if not hungry:
            break
        for flow in hungry[:left]:
            allotted[flow] += 1
        left -= min(left, len(hungry))
    return allotted
