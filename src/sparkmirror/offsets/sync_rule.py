# SPDX-License-Identifier: Apache-2.0
"""When MM2 writes an offset sync, decided for whole runs of records at once.

MM2 asks after every record. Inside a run nothing but the distance to the last sync can change, so
the last record that would have been worth a sync is found by a division; those before it would
have been replaced by it anyway before they were sent.
"""

from __future__ import annotations

from sparkmirror.formats.offset_sync import OffsetSync
from sparkmirror.model import TopicPartition

_NEVER = -1


class SyncRule:
    """What has been synced of one source partition in this task's life."""

    __slots__ = ("_last_synced", "_most", "_previous_source", "_previous_target")

    def __init__(self, most: int) -> None:
        self._most = max(most, 0)  # offset.lag.max
        self._previous_source = _NEVER
        self._previous_target = _NEVER
        self._last_synced = _NEVER  # the target offset of the last sync

    def see(self, source: int, target: int, length: int) -> tuple[int, int] | None:
        """Take a run in; the last pair of it that is worth a sync, if any is."""
        first_in_this_life = self._last_synced == _NEVER
        too_stale = target - (self._last_synced + 1) >= self._most
        gap_upstream = source - self._previous_source != 1
        target_truncated = target < self._previous_target
        due = None
        if first_in_this_life or too_stale or gap_upstream or target_truncated:
            self._last_synced = target
            due = source, target
        self._previous_source = source + length - 1
        self._previous_target = target + length - 1
        whole = (self._previous_target - self._last_synced) // (self._most + 1)
        if whole > 0:
            self._last_synced += whole * (self._most + 1)
            due = source + self._last_synced - target, self._last_synced
        return due


class SyncQueue:
    """The syncs of a task: those to send now, and those that wait for the next flush."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rules: dict[TopicPartition, SyncRule] = {}
        self._pending: dict[TopicPartition, tuple[int, int]] = {}
        self._delayed: dict[TopicPartition, tuple[int, int]] = {}

    @property
    def is_due(self) -> bool:
        """Whether something is to be sent now."""
        return bool(self._pending)

    def see(self, tp: TopicPartition, source: int, target: int, length: int) -> None:
        """So many records were copied."""
        rule = self._rules.get(tp)
        if rule is None:
            rule = self._rules[tp] = SyncRule(self._most)
        due = rule.see(source, target, length)
        last = source + length - 1, target + length - 1
        if due is not None:
            self._delayed.pop(tp, None)
            self._pending[tp] = due
        if due != last:
            self._delayed[tp] = last

    def promote(self) -> None:
        """Positions are stored: the newest pair of every partition goes out as well."""
        self._pending |= self._delayed
        self._delayed.clear()

    def take(self) -> list[OffsetSync]:
        """What is to be sent, oldest first."""
        due = [OffsetSync(tp, *pair) for tp, pair in self._pending.items()]
        self._pending.clear()
        return due
