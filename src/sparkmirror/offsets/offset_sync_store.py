# SPDX-License-Identifier: Apache-2.0
"""Keeps offset syncs and translates source offsets to the target.

Each source partition has 64 slots, slot 0 with the newest sync, slot 63 with the oldest usable one;
neighbours often hold the same sync. The spacing grows with the age, so a position near the end is
translated exactly and one far behind at least roughly.

For slots i < j that hold different upstream offsets:

    A  slot 0 holds the latest sync
    B  S[i].upstream <= S[j].upstream + 2^j - 2^i         no slot is too old for its index
    C  S[i].upstream >= S[j].upstream + 2^max(i - 2, 0)   syncs are far enough apart to last long
    D  slot 63 holds the earliest usable sync

Sums wrap at 64 bits as in Java, because with the same syncs both must keep the same slots.
"""

from __future__ import annotations

from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.model import TopicPartition

SLOTS = 64
TOO_OLD = -1  # the result for an offset before every usable sync

_LAST = SLOTS - 1
_SIGN = 1 << 63
_WRAP = 1 << 64


class OffsetSyncStore:
    """The syncs of all partitions of one source. Not thread-safe.

    `must_read_to_end`: no earlier checkpoints are known, so of the syncs that exist at the start
    only the newest is used; an older one could move a group backwards.
    """

    def __init__(self, must_read_to_end: bool) -> None:
        self._must_read_to_end = must_read_to_end
        self._is_done = False
        self._slots: dict[TopicPartition, tuple[OffsetSync, ...]] = {}

    def start_translation(self) -> None:
        """Start translating: all syncs that existed at the start have been added."""
        self._is_done = True

    def add(self, sync: OffsetSync) -> None:
        """Add the next sync, in the order of the log."""
        slots = self._slots.get(sync.topic_partition)
        trusts_only_newest = self._must_read_to_end and not self._is_done
        if slots is None or trusts_only_newest or sync.upstream_offset < slots[0].upstream_offset:
            self._slots[sync.topic_partition] = (sync,) * SLOTS
        else:
            self._slots[sync.topic_partition] = _with_newest(slots, sync)

    def syncs(self, topic_partition: TopicPartition) -> tuple[OffsetSync, ...]:
        """The 64 slots of a partition, newest first; empty if it has no sync."""
        return self._slots.get(topic_partition, ())

    def translate(self, topic_partition: TopicPartition, upstream: int) -> int | None:
        """Return the target offset at which a group at `upstream` may continue.

        None: nothing is known (yet). -1: the offset is older than all usable syncs. Records may be
        missing on the target between two syncs, so the result is at most one past a sync.
        """
        if topic_partition not in self._slots or not self._is_done:
            return None
        sync = self.nearest(topic_partition, upstream)
        if sync is None:
            return TOO_OLD
        return sync.downstream_offset + (sync.upstream_offset < upstream)

    def nearest(self, topic_partition: TopicPartition, upstream: int) -> OffsetSync | None:
        """Return the newest sync at or before an offset; None if all usable ones are newer."""
        slots = self._slots.get(topic_partition, ())
        return next((sync for sync in slots if sync.upstream_offset <= upstream), None)


def _with_newest(old: tuple[OffsetSync, ...], newest: OffsetSync) -> tuple[OffsetSync, ...]:
    """Return the slots after adding a sync that is not before the newest one.

    Each slot that violates B gets the next old sync that fits, slot by slot, until one may stay:
    the rest is unchanged.
    """
    slots = list(old)
    slots[0] = candidate = newest
    source = 0  # the old slot to be offered next
    for slot in range(1, SLOTS):
        above = slots[slot - 1]
        while True:
            offered = old[source]
            is_apart = _is_apart(above, offered, slot - 1)
            is_usable = (
                is_apart
                and _is_near(above, offered, slot - 1, slot)
                and (slot == _LAST or _is_apart(offered, slots[slot + 1], slot))
            )
            is_repeated = source < _LAST and old[source + 1] is offered
            if is_usable:
                candidate = offered
            passes_on = is_repeated or not is_apart
            if is_usable or passes_on:
                source += 1
            if not passes_on or source >= slot:
                break
        if _is_near(above, slots[slot], slot - 1, slot):
            break
        slots[slot] = candidate
    return tuple(slots)


def _is_near(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    """Invariant B between slots i and j."""
    limit = _signed(older.upstream_offset + (1 << j) - (1 << i))
    return newer is older or limit < 0 or newer.upstream_offset <= limit


def _is_apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    """Invariant C for slot i and any after it."""
    limit = _signed(older.upstream_offset + (1 << max(i - 2, 0)))
    return newer is older or 0 <= limit <= newer.upstream_offset


def _signed(number: int) -> int:
    """Wrap to 64 bits as Java's long does."""
    return (number + _SIGN) % _WRAP - _SIGN
