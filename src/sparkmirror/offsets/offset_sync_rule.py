# SPDX-License-Identifier: Apache-2.0
"""When MM2 writes an offset sync, decided for whole runs of records at once.

MM2 asks after every record. Inside a run nothing but the distance to the last sync can change, so
the records that would have been worth a sync are found by a division. Of a long run the last few
are written, as MM2 has no time for all of them either; where a run begins, behind a gap or in a new
task's life, is written always: without it Java had no answer for groups that stand soon after it.
"""

from __future__ import annotations

from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.model import TopicPartition

_NEVER = -1
_MOST_A_RUN = 16
_MOST_WAITING = 64  # of one partition, while they cannot be written
OffsetPair = tuple[int, int]  # upstream and downstream offset


class OffsetSyncRule:
    """What has been synced of one source partition in this task's life."""

    __slots__ = ("_last_synced", "_most", "_previous_source", "_previous_target")

    def __init__(self, most: int) -> None:
        self._most = max(most, 0)  # offset.lag.max
        self._previous_source = _NEVER
        self._previous_target = _NEVER
        self._last_synced = _NEVER  # the target offset of the last sync

    def add_run(self, source: int, target: int, length: int) -> list[OffsetPair]:
        """Take a run in: the pairs of it that are worth a sync, ascending."""
        first_in_this_life = self._last_synced == _NEVER
        too_stale = target - (self._last_synced + 1) >= self._most
        gap_upstream = source - self._previous_source != 1
        target_truncated = target < self._previous_target
        due: list[OffsetPair] = []
        if first_in_this_life or too_stale or gap_upstream or target_truncated:
            self._last_synced = target
            due.append((source, target))
        self._previous_source = source + length - 1
        self._previous_target = target + length - 1
        step = self._most + 1
        whole = max((self._previous_target - self._last_synced) // step, 0)
        first = self._last_synced - target  # from there on, every `step` records
        due += [
            (source + first + n * step, target + first + n * step)
            for n in range(max(whole - _MOST_A_RUN, 0) + 1, whole + 1)
        ]
        self._last_synced += whole * step
        return due


class OffsetSyncQueue:
    """The syncs of a task: those to send now, and those that wait for the next flush."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rules: dict[TopicPartition, OffsetSyncRule] = {}
        self._pending: dict[TopicPartition, list[OffsetPair]] = {}
        self._delayed: dict[TopicPartition, OffsetPair] = {}

    @property
    def is_due(self) -> bool:
        """Whether something is to be sent now."""
        return bool(self._pending)

    def add_run(self, tp: TopicPartition, source: int, target: int, length: int) -> None:
        """So many records were copied."""
        rule = self._rules.get(tp)
        if rule is None:
            rule = self._rules[tp] = OffsetSyncRule(self._most)
        due = rule.add_run(source, target, length)
        last = source + length - 1, target + length - 1
        if due:
            self._delayed.pop(tp, None)
            self._add(tp, due)
        if not due or due[-1] != last:
            self._delayed[tp] = last

    def _add(self, tp: TopicPartition, due: list[OffsetPair]) -> None:
        waiting = self._pending.get(tp, [])
        if waiting and (due[0][0] <= waiting[-1][0] or due[0][1] < waiting[-1][1]):
            waiting = []  # of a past that is no more
        waiting = [*waiting, *due]
        # Where the task began, and the newest.
        self._pending[tp] = waiting[:1] + waiting[1:][-_MOST_WAITING:]

    def promote(self) -> None:
        """Positions are stored: the newest pair of every partition goes out as well."""
        for tp, pair in self._delayed.items():
            self._add(tp, [pair])
        self._delayed.clear()

    def drain(self) -> list[OffsetSync]:
        """What is to be sent, oldest first in each partition."""
        due = [OffsetSync(tp, *pair) for tp, pairs in self._pending.items() for pair in pairs]
        self._pending.clear()
        return due
