# SPDX-License-Identifier: Apache-2.0
"""When MM2 writes an offset sync, decided for whole runs of records at once.

MM2 asks after every record. Inside a run nothing but the distance to the last sync can change, so
the last record that would have been worth a sync is found by a division; those before it might
have been replaced by it anyway before they were sent. Only an anchor is never replaced: the first
record of a task's life, or one where the source or the target went back. Without it Java would
have no answer for groups that stand soon after it, or an answer of before.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkmirror.formats.offset_sync import OffsetSync
from sparkmirror.model import TopicPartition

_NEVER = -1
Pair = tuple[int, int]  # upstream and downstream offset


class Due(NamedTuple):
    """The pairs of a run that are worth a sync."""

    anchor: Pair | None = None
    latest: Pair | None = None


class SyncRule:
    """What has been synced of one source partition in this task's life."""

    __slots__ = ("_last_synced", "_most", "_previous_source", "_previous_target")

    def __init__(self, most: int) -> None:
        self._most = max(most, 0)  # offset.lag.max
        self._previous_source = _NEVER
        self._previous_target = _NEVER
        self._last_synced = _NEVER  # the target offset of the last sync

    def see(self, source: int, target: int, length: int) -> Due:
        """Take a run in: its first pair if it is an anchor, and the last one that is due."""
        first_in_this_life = self._last_synced == _NEVER
        too_stale = target - (self._last_synced + 1) >= self._most
        gap_upstream = source - self._previous_source != 1
        source_rewound = source <= self._previous_source
        target_truncated = target < self._previous_target
        anchor = latest = None
        if first_in_this_life or source_rewound or target_truncated:
            anchor = source, target
        if anchor is not None or too_stale or gap_upstream:
            self._last_synced = target
            latest = source, target
        self._previous_source = source + length - 1
        self._previous_target = target + length - 1
        whole = (self._previous_target - self._last_synced) // (self._most + 1)
        if whole > 0:
            self._last_synced += whole * (self._most + 1)
            latest = source + self._last_synced - target, self._last_synced
        return Due(anchor, latest)


class SyncQueue:
    """The syncs of a task: those to send now, and those that wait for the next flush."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rules: dict[TopicPartition, SyncRule] = {}
        self._anchors: dict[TopicPartition, Pair] = {}
        self._pending: dict[TopicPartition, Pair] = {}
        self._delayed: dict[TopicPartition, Pair] = {}

    @property
    def is_due(self) -> bool:
        """Whether something is to be sent now."""
        return bool(self._anchors or self._pending)

    def see(self, tp: TopicPartition, source: int, target: int, length: int) -> None:
        """So many records were copied."""
        rule = self._rules.get(tp)
        if rule is None:
            rule = self._rules[tp] = SyncRule(self._most)
        anchor, latest = rule.see(source, target, length)
        last = source + length - 1, target + length - 1
        if anchor is not None:
            self._anchors[tp] = anchor
            self._pending.pop(tp, None)  # of a past that is no more
        if latest is not None:
            self._delayed.pop(tp, None)
        if latest is not None and latest != anchor:
            self._pending[tp] = latest
        if latest != last:
            self._delayed[tp] = last

    def promote(self) -> None:
        """Positions are stored: the newest pair of every partition goes out as well."""
        self._pending |= self._delayed
        self._delayed.clear()

    def take(self) -> list[OffsetSync]:
        """What is to be sent, oldest first."""
        pairs = [*self._anchors.items(), *self._pending.items()]
        self._anchors.clear()
        self._pending.clear()
        return [OffsetSync(tp, *pair) for tp, pair in pairs]
