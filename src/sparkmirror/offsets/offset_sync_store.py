# SPDX-License-Identifier: Apache-2.0
"""What is remembered of the offset syncs, and what a source offset is on the target.

Of each source partition 64 slots are kept, slot 0 with the newest sync, slot 63 with the oldest one
that may be used; neighbours often hold the same sync. The farther back, the wider the spacing, so a
group close to the end is translated exactly and one far behind at least roughly.

For slots i < j that hold different upstream offsets:

    A  slot 0 holds the latest sync that was seen
    B  S[i].upstream <= S[j].upstream + 2^j - 2^i         no slot is too old for its place
    C  S[i].upstream >= S[j].upstream + 2^max(i - 2, 0)   syncs are far enough apart to last long
    D  slot 63 holds the earliest sync that may be used

Sums wrap at 64 bits as in Java, because with the same syncs both must keep the same slots.
"""

from __future__ import annotations

from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.model import TopicPartition

SLOTS = 64
TOO_OLD = -1  # the answer for an offset before every sync that may be used

_LAST = SLOTS - 1
_SIGN = 1 << 63
_WRAP = 1 << 64


class OffsetSyncStore:
    """The syncs of all partitions of one source; belongs to one thread.

    `must_read_to_end`: no earlier checkpoints are known, so of the syncs that were there at the
    start only the newest is trusted; an older one could move a group backwards.
    """

    def __init__(self, must_read_to_end: bool) -> None:
        self._must_read_to_end = must_read_to_end
        self._is_done = False
        self._slots: dict[TopicPartition, tuple[OffsetSync, ...]] = {}

    def start_translation(self) -> None:
        """All syncs that were there at the start have been seen; translation begins."""
        self._is_done = True

    def add(self, sync: OffsetSync) -> None:
        """Take the next sync of the topic, in the order of the log."""
        slots = self._slots.get(sync.topic_partition)
        trusts_only_newest = self._must_read_to_end and not self._is_done
        if slots is None or trusts_only_newest or sync.upstream_offset < slots[0].upstream_offset:
            self._slots[sync.topic_partition] = (sync,) * SLOTS
        else:
            self._slots[sync.topic_partition] = _with_newest(slots, sync)

    def syncs(self, topic_partition: TopicPartition) -> tuple[OffsetSync, ...]:
        """The 64 slots of a partition, newest first; empty if no sync of it was seen."""
        return self._slots.get(topic_partition, ())

    def translate(self, topic_partition: TopicPartition, upstream: int) -> int | None:
        """The target offset from which a group that stands at `upstream` may go on.

        None: nothing is known (yet). -1: the offset is older than anything usable. Between two
        syncs records may be missing on the target, so the answer is never more than one past one.
        """
        if topic_partition not in self._slots or not self._is_done:
            return None
        sync = self.nearest(topic_partition, upstream)
        if sync is None:
            return TOO_OLD
        return sync.downstream_offset + (sync.upstream_offset < upstream)

    def nearest(self, topic_partition: TopicPartition, upstream: int) -> OffsetSync | None:
        """The newest sync at or before an offset; None: it is older than anything usable."""
        slots = self._slots.get(topic_partition, ())
        return next((sync for sync in slots if sync.upstream_offset <= upstream), None)


def _with_newest(old: tuple[OffsetSync, ...], newest: OffsetSync) -> tuple[OffsetSync, ...]:
    """The slots after a sync that is not before the newest one.

    Each slot that B no longer allows gets the next old sync that fits, slot by slot, until one is
    found that may stay: from there on nothing has changed.
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
    """Invariant C for slot i and any behind it."""
    limit = _signed(older.upstream_offset + (1 << max(i - 2, 0)))
    return newer is older or 0 <= limit <= newer.upstream_offset


def _signed(number: int) -> int:
    """The number as Java's long holds it."""
    return (number + _SIGN) % _WRAP - _SIGN
