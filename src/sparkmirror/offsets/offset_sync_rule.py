# SPDX-License-Identifier: Apache-2.0
"""When MM2 writes an offset sync, decided for whole runs of records.

MM2 decides after every record. Inside a run only the distance to the last sync changes, so a
division finds the records that need a sync. Of a long run only the last few syncs are written, as
MM2 does not keep up with all of them either. The start of a run (after a gap, or of a new task) is
always written: without it Java could not translate positions shortly after it.
"""

from __future__ import annotations

from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.model import TopicPartition

_NEVER = -1
_MAX_PER_RUN = 16
_MAX_PENDING = 64  # of one partition, while they cannot be written
OffsetPair = tuple[int, int]  # upstream and downstream offset


class OffsetSyncRule:
    """The sync state of one source partition during this task."""

    __slots__ = ("_last_synced", "_max_lag", "_previous_source", "_previous_target")

    def __init__(self, max_lag: int) -> None:
        self._max_lag = max(max_lag, 0)  # offset.lag.max
        self._previous_source = _NEVER
        self._previous_target = _NEVER
        self._last_synced = _NEVER  # the target offset of the last sync

    def add_run(self, source: int, target: int, length: int) -> list[OffsetPair]:
        """Add a run. Returns its offset pairs that need a sync, ascending."""
        first_in_this_life = self._last_synced == _NEVER
        too_stale = target - (self._last_synced + 1) >= self._max_lag
        gap_upstream = source - self._previous_source != 1
        target_truncated = target < self._previous_target
        due: list[OffsetPair] = []
        if first_in_this_life or too_stale or gap_upstream or target_truncated:
            self._last_synced = target
            due.append((source, target))
        self._previous_source = source + length - 1
        self._previous_target = target + length - 1
        step = self._max_lag + 1
        whole = max((self._previous_target - self._last_synced) // step, 0)
        first = self._last_synced - target  # from there on, every `step` records
        due += [
            (source + first + n * step, target + first + n * step)
            for n in range(max(whole - _MAX_PER_RUN, 0) + 1, whole + 1)
        ]
        self._last_synced += whole * step
        return due


class OffsetSyncQueue:
    """The syncs of a task: those to send now, and those to send at the next flush."""

    def __init__(self, max_lag: int) -> None:
        self._max_lag = max_lag
        self._rules: dict[TopicPartition, OffsetSyncRule] = {}
        self._pending: dict[TopicPartition, list[OffsetPair]] = {}
        self._delayed: dict[TopicPartition, OffsetPair] = {}

    @property
    def is_due(self) -> bool:
        """Whether something must be sent now."""
        return bool(self._pending)

    def add_run(self, tp: TopicPartition, source: int, target: int, length: int) -> None:
        """Add copied records."""
        rule = self._rules.get(tp)
        if rule is None:
            rule = self._rules[tp] = OffsetSyncRule(self._max_lag)
        due = rule.add_run(source, target, length)
        last = source + length - 1, target + length - 1
        if due:
            self._delayed.pop(tp, None)
            self._add(tp, due)
        if not due or due[-1] != last:
            self._delayed[tp] = last

    def _add(self, tp: TopicPartition, due: list[OffsetPair]) -> None:
        pending = self._pending.get(tp, [])
        if pending and (due[0][0] <= pending[-1][0] or due[0][1] < pending[-1][1]):
            pending = []  # obsolete: offsets went back
        pending = [*pending, *due]
        # Keep the first one of the task and the newest.
        self._pending[tp] = pending[:1] + pending[1:][-_MAX_PENDING:]

    def promote(self) -> None:
        """Positions are stored: also send the newest pair of every partition."""
        for tp, pair in self._delayed.items():
            self._add(tp, [pair])
        self._delayed.clear()

    def drain(self) -> list[OffsetSync]:
        """Return what to send, oldest first in each partition."""
        due = [OffsetSync(tp, *pair) for tp, pairs in self._pending.items() for pair in pairs]
        self._pending.clear()
        return due
