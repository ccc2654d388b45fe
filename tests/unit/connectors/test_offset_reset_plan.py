# SPDX-License-Identifier: Apache-2.0
"""What a reset changes, in numbers, and which starts are accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.connectors.offset_reset_plan import (
    LogBounds,
    PlannedReset,
    parse_time,
    planned_reset,
)
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.errors import ArgumentError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.state.offset_resets import OffsetReset

TP = TopicPartition("orders", 3)
ONE = MirroredPartition(TP, "a.orders", "source-1", "target-1")
BOUNDS = LogBounds(100, 500, 50, 450)  # 400 records on the target
STORED = StoredPosition(399, 349, None, -1, "source-1", "target-1")  # stored before 100 more


def plan(offset: int, stored: StoredPosition | None = STORED, **more: bool) -> PlannedReset:
    may_lag = more.pop("may_lag", True)
    reset = replace(OffsetReset(offset, 0), **more)
    return planned_reset(ONE, BOUNDS, stored, reset, may_lag=may_lag)


def test_records_after_the_stored_position_count_as_copied() -> None:
    assert plan(100).position == 500
    assert plan(100, may_lag=False).position == 400


def test_going_back_copies_records_twice() -> None:
    found = plan(300)
    assert (found.twice, found.missing, found.deleted) == (200, 0, 0)
    assert plan(100, replace(STORED, offset=499, downstream=449)).twice == 400


def test_going_forward_leaves_records_out() -> None:
    found = plan(450, may_lag=False)
    assert (found.twice, found.missing) == (0, 50)
    assert plan(450, None).missing == 350


def test_positions_of_a_deleted_topic_do_not_count() -> None:
    other_source = plan(100, replace(STORED, source_topic="source-0"))
    assert other_source.is_other_source
    assert (other_source.twice, other_source.missing) == (0, 0)
    other_target = plan(100, replace(STORED, target_topic="target-0"))
    assert other_target.is_other_target
    assert other_target.position == 400


def test_recopy_needs_an_empty_partition_or_the_flag() -> None:
    assert "400 records" in plan(100, recopy=True).problem
    deleting = plan(100, recopy=True, delete_records=True)
    assert (deleting.problem, deleting.deleted, deleting.twice) == ("", 400, 0)


def test_records_that_would_not_be_copied_again_are_not_deleted() -> None:
    deleting = plan(100, recopy=True, delete_records=True)
    problem = replace(deleting, others="records of clients of 'b'").problem
    assert "also has records of clients of 'b', which this flow does not copy" in problem
    empty = replace(deleting, others="records of c->b", target_start=deleting.target_end)
    assert not empty.problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
        ("1900-01-01", 0),
    ],
)
def test_a_time_without_a_zone_is_in_utc(text: str, expected: int) -> None:
    assert parse_time(text) == expected


def test_another_word_is_refused() -> None:
    with pytest.raises(ArgumentError, match="earliest, latest, an offset"):
        parse_time("yesterday")
