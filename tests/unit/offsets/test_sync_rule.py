# SPDX-License-Identifier: Apache-2.0
"""Offset syncs are due when MM2 would write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.offset_sync import OffsetSync
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.sync_rule import Due, SyncQueue, SyncRule

TP = TopicPartition("t", 0)


class RecordByRecord:
    """The rule as MM2 has it: asked after every record."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.previous_source = self.previous_target = self.last_synced = -1

    def see(self, source: int, target: int) -> bool:
        """Whether this record is worth a sync."""
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
    rule = SyncRule(50)
    pairs = [(0, 100), (2, 102), (3, 152), (4, 153), (5, 154), (6, 203), (7, 204), (2, 206)]
    pairs += [(3, 207), (4, 3), (5, 4)]
    due = [rule.see(*pair, 1).latest is not None for pair in pairs]
    assert due == [True, True, False, True, False, False, True, True, False, True, False]


def test_with_a_lag_of_nothing_every_record_is_due() -> None:
    """Of a run, the last."""
    rule = SyncRule(0)
    assert rule.see(0, 0, 1) == Due((0, 0), (0, 0))
    assert rule.see(1, 1, 500) == Due(None, (500, 500))


@given(
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(-30, 3), st.integers(-30, 3), st.integers(1, 60)), max_size=30),
)
def test_runs_are_decided_as_record_by_record(most: int, steps: list[tuple[int, int, int]]) -> None:
    """The last due pair of a run, and what is remembered of it, are the same."""
    rule, model = SyncRule(most), RecordByRecord(most)
    source = target = 100
    for source_gap, target_gap, length in steps:
        source, target = max(source + source_gap, 0), max(target + target_gap, 0)
        begins = model.last_synced == -1
        goes_back = source <= model.previous_source or target < model.previous_target
        expected = None
        for n in range(length):
            if model.see(source + n, target + n):
                expected = source + n, target + n
        anchor = (source, target) if begins or goes_back else None
        assert rule.see(source, target, length) == Due(anchor, expected)
        source, target = source + length, target + length


def test_what_is_not_due_waits_for_the_next_flush() -> None:
    """The newest pair of every partition then goes out."""
    queue = SyncQueue(100)
    queue.see(TP, 0, 10, 5)
    assert queue.take() == [OffsetSync(TP, 0, 10)]
    assert not queue.is_due
    queue.see(TP, 5, 15, 5)
    assert not queue.is_due
    queue.promote()
    assert queue.take() == [OffsetSync(TP, 9, 19)]
    queue.promote()
    assert queue.take() == []


def test_a_newer_sync_takes_the_place_of_one_that_waits() -> None:
    """And what was delayed before it is forgotten."""
    queue = SyncQueue(10)
    queue.see(TP, 0, 0, 1)
    assert queue.take() == [OffsetSync(TP, 0, 0)]
    queue.see(TP, 1, 1, 1)
    queue.see(TP, 5, 2, 1)
    queue.see(TP, 9, 3, 1)
    queue.promote()
    assert queue.take() == [OffsetSync(TP, 9, 3)]


def test_where_a_task_begins_is_written_however_much_follows_at_once() -> None:
    """Java has no answer for a group that stands before the first sync."""
    queue = SyncQueue(100)
    queue.see(TP, 0, 0, 1_000)
    queue.see(TP, 1_000, 1_000, 500)
    queue.promote()
    assert queue.take() == [OffsetSync(TP, 0, 0), OffsetSync(TP, 1_499, 1_499)]


def test_going_back_makes_earlier_syncs_worthless() -> None:
    """Java must see the lower offset first, else it would keep what it knows of the past."""
    queue = SyncQueue(100)
    queue.see(TP, 5_000, 5_000, 1_000)
    queue.take()
    queue.see(TP, 6_000, 6_000, 500)
    queue.see(TP, 0, 6_500, 10_000)
    found = queue.take()
    assert found == [OffsetSync(TP, 0, 6_500), OffsetSync(TP, 9_999, 16_499)]
    queue.see(TP, 10_000, 3, 1)
    assert queue.take() == [OffsetSync(TP, 10_000, 3)]


@pytest.mark.parametrize("length", [1, 3])
def test_partitions_have_rules_of_their_own(length: int) -> None:
    """In the order in which they became due."""
    queue = SyncQueue(10)
    other = TopicPartition("t", 1)
    queue.see(other, 0, 0, length)
    queue.see(TP, 7, 3, length)
    assert [sync.topic_partition for sync in queue.take()] == [other, TP]
