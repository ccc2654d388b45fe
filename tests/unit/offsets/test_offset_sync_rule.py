# SPDX-License-Identifier: Apache-2.0
"""Offset syncs are due when MM2 would write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_sync_rule import OffsetSyncQueue, OffsetSyncRule

TP = TopicPartition("t", 0)


class RecordByRecord:
    """MM2's rule, applied after every record."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.previous_source = self.previous_target = self.last_synced = -1

    def see(self, source: int, target: int) -> bool:
        """Whether this record needs a sync."""
        due = (
            self.last_synced == -1
            or target - (self.last_synced + 1) >= self.most
            or source - self.previous_source != 1
            or target < self.previous_target
        )
        if due:
            self.last_synced = target
        self.previous_source, self.previous_target = source, target
        return due


def test_the_sequence_of_mm2s_own_test() -> None:
    """With a lag of 50."""
    rule = OffsetSyncRule(50)
    pairs = [(0, 100), (2, 102), (3, 152), (4, 153), (5, 154), (6, 203), (7, 204), (2, 206)]
    pairs += [(3, 207), (4, 3), (5, 4)]
    due = [bool(rule.add_run(*pair, 1)) for pair in pairs]
    assert due == [True, True, False, True, False, False, True, True, False, True, False]


@pytest.mark.parametrize("most", [0, -1])
def test_with_a_lag_of_nothing_every_record_is_due(most: int) -> None:
    """Of a long run, the last few."""
    rule = OffsetSyncRule(most)
    assert rule.add_run(0, 0, 1) == [(0, 0)]
    assert rule.add_run(1, 1, 500) == [(1, 1), *((n, n) for n in range(485, 501))]


@given(
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(-30, 3), st.integers(-30, 3), st.integers(1, 60)), max_size=30),
)
def test_runs_are_decided_as_record_by_record(most: int, steps: list[tuple[int, int, int]]) -> None:
    """The same pairs, of a long run its beginning and the last of them."""
    rule, model = OffsetSyncRule(most), RecordByRecord(most)
    source = target = 100
    for source_gap, target_gap, length in steps:
        source, target = max(source + source_gap, 0), max(target + target_gap, 0)
        due = [n for n in range(length) if model.see(source + n, target + n)]
        expected = [n for n in due if n == 0] + [n for n in due if n][-16:]
        assert rule.add_run(source, target, length) == [(source + n, target + n) for n in expected]
        source, target = source + length, target + length


def test_what_is_not_due_waits_for_the_next_flush() -> None:
    """Then the newest pair of every partition is sent."""
    queue = OffsetSyncQueue(100)
    queue.add_run(TP, 0, 10, 5)
    assert queue.drain() == [OffsetSync(TP, 0, 10)]
    assert not queue.is_due
    queue.add_run(TP, 5, 15, 5)
    assert not queue.is_due
    queue.promote()
    assert queue.drain() == [OffsetSync(TP, 9, 19)]
    queue.promote()
    assert queue.drain() == []


def test_while_syncs_cannot_be_written_the_first_and_the_newest_are_kept() -> None:
    """Java cannot translate positions before the first sync; memory is limited."""
    queue = OffsetSyncQueue(100)
    for n in range(100):
        queue.add_run(TP, n * 1_000, n * 1_000, 1_000)
    queue.promote()
    found = [sync.upstream_offset for sync in queue.drain()]
    assert found[0] == 0
    assert found[-1] == 99_999
    assert len(found) == 65
    assert found == sorted(found)


def test_going_back_makes_earlier_syncs_worthless() -> None:
    """Java must see the lower offset first, or it keeps obsolete syncs."""
    queue = OffsetSyncQueue(100)
    queue.add_run(TP, 5_000, 5_000, 10)
    queue.add_run(TP, 0, 5_010, 1)
    assert queue.drain() == [OffsetSync(TP, 0, 5_010)]
    queue.add_run(TP, 1, 5_011, 1)
    queue.add_run(TP, 2, 3, 1)
    assert queue.drain() == [OffsetSync(TP, 2, 3)]


@pytest.mark.parametrize("length", [1, 3])
def test_partitions_have_rules_of_their_own(length: int) -> None:
    """In the order in which they became due."""
    queue = OffsetSyncQueue(10)
    other = TopicPartition("t", 1)
    queue.add_run(other, 0, 0, length)
    queue.add_run(TP, 7, 3, length)
    assert [sync.topic_partition for sync in queue.drain()] == [other, TP]
