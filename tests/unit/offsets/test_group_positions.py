# SPDX-License-Identifier: Apache-2.0
"""Group positions, new checkpoints, and commits on the target."""

from __future__ import annotations

import pytest

from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.kafka.descriptions import CommittedOffset, GroupListing
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_positions import (
    GroupPosition,
    GroupPositionState,
    GroupRules,
    new_checkpoints,
    plan_commits,
    translate_group,
    with_log_start,
)
from sparkmirror.offsets.offset_map import Fit, Translation

TP = TopicPartition("t", 0)
REMOTE = TopicPartition("a.t", 0)
RULES = GroupRules(lambda topic: topic != "filtered", lambda topic: f"a.{topic}")


def found(offset: int, translation: Translation | None, log_start: int = 0) -> GroupPosition:
    """The position of one committed offset."""
    (one,) = translate_group(
        "g", {TP: CommittedOffset(offset, "m")}, RULES, lambda _tp, _offset: translation
    )
    return with_log_start(one, log_start)


@pytest.mark.parametrize(
    ("translation", "state", "is_placed", "is_exact"),
    [
        (Translation(7, Fit.EXACT), GroupPositionState.TRANSLATED, True, True),
        (Translation(7, Fit.NEAR), GroupPositionState.TRANSLATED, True, False),
        (Translation(7, Fit.AFTER), GroupPositionState.CATCHING_UP, True, False),
        (Translation(7, Fit.BEFORE), GroupPositionState.TOO_OLD, False, False),
        (None, GroupPositionState.NOT_MIRRORED, False, False),
    ],
)
def test_every_translation_has_a_state(
    translation: Translation | None, state: GroupPositionState, is_placed: bool, is_exact: bool
) -> None:
    """And a reason if it is not exact."""
    one = found(5, translation)
    assert one.state is state
    assert one.target == REMOTE
    assert (one.is_placed, one.is_exact) == (is_placed, is_exact)
    assert bool(one.reason) is not is_exact


def test_behind_the_log_start_is_distinguished_from_older_than_the_copy() -> None:
    """The source has deleted records of the group."""
    assert (
        found(5, Translation(0, Fit.BEFORE), log_start=6).state
        is GroupPositionState.BEHIND_LOG_START
    )
    assert found(6, Translation(0, Fit.BEFORE), log_start=6).state is GroupPositionState.TOO_OLD


def test_a_filtered_topic_is_not_even_translated() -> None:
    """It has no name on the target."""
    tp = TopicPartition("filtered", 0)
    (one,) = translate_group("g", {tp: CommittedOffset(1)}, RULES, lambda *_: pytest.fail("asked"))
    assert one.state is GroupPositionState.FILTERED
    assert one.target is None


@pytest.mark.parametrize(
    ("upstream", "downstream", "fit", "last", "is_news"),
    [
        (10, 10, Fit.EXACT, None, True),
        (10, 10, Fit.EXACT, (10, 10), False),  # a repeat
        (11, 11, Fit.EXACT, (10, 10), True),  # moved on
        (5, 5, Fit.EXACT, (10, 10), True),  # the group went back
        (5, 9, Fit.NEAR, (10, 10), True),  # the group went back, by a rough answer
        (10, 8, Fit.NEAR, (10, 10), False),  # a worse answer to the same question
        (12, 10, Fit.NEAR, (10, 10), False),
        (10, 12, Fit.NEAR, (10, 10), True),  # a better answer to the same question
        (10, 8, Fit.EXACT, (10, 10), True),  # the target lost records
        (10, 8, Fit.AFTER, (10, 10), False),
    ],
)
def test_checkpoints_that_say_something_new(
    upstream: int, downstream: int, fit: Fit, last: tuple[int, int] | None, is_news: bool
) -> None:
    """MM2's rules, and exact translations always."""
    one = found(upstream, Translation(downstream, fit))
    known = {("g", REMOTE): Checkpoint("g", REMOTE, *last)} if last else {}
    expected = [Checkpoint("g", REMOTE, upstream, downstream, "m")] if is_news else []
    assert new_checkpoints([one], known) == expected


@pytest.mark.parametrize("translation", [None, Translation(0, Fit.BEFORE)])
def test_what_has_no_place_has_no_checkpoint(translation: Translation | None) -> None:
    """It is not synced either."""
    one = found(3, translation)
    assert new_checkpoints([one], {}) == []
    plan = plan_commits([one], {}, {})
    assert plan.writes == {}
    assert plan.positions == [one]


@pytest.mark.parametrize(
    ("group", "there", "writes", "state"),
    [
        (
            None,
            None,
            True,
            GroupPositionState.TRANSLATED,
        ),  # a group without commits on the target
        ("Empty", None, True, GroupPositionState.TRANSLATED),
        ("Empty", 9, True, GroupPositionState.TRANSLATED),
        ("Empty", 10, False, GroupPositionState.SYNCED),
        ("Empty", 11, False, GroupPositionState.AHEAD),
        ("Dead", 3, True, GroupPositionState.TRANSLATED),
        ("Stable", None, False, GroupPositionState.ACTIVE),
        ("Stable", 3, False, GroupPositionState.ACTIVE),
        ("Reconciling", 3, False, GroupPositionState.ACTIVE),
    ],
)
def test_idle_groups_move_forward_and_others_not_at_all(
    group: str | None, there: int | None, writes: bool, state: GroupPositionState
) -> None:
    """MM2's safety rules."""
    one = found(20, Translation(10, Fit.EXACT))
    groups = {"g": GroupListing("g", group, "classic", "consumer")} if group else {}
    on_target = {"g": {REMOTE: CommittedOffset(there)}} if there is not None else {}
    plan = plan_commits([one], groups, on_target)
    assert plan.writes == ({"g": {REMOTE: CommittedOffset(10, "m")}} if writes else {})
    assert [one.state for one in plan.positions] == [state]


def test_a_group_the_copy_has_not_reached_is_set_as_far_as_it_goes() -> None:
    """Its state says that copying continues."""
    plan = plan_commits([found(20, Translation(10, Fit.AFTER))], {}, {})
    assert plan.writes == {"g": {REMOTE: CommittedOffset(10, "m")}}
    assert [one.state for one in plan.positions] == [GroupPositionState.CATCHING_UP]
