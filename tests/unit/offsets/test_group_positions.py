# SPDX-License-Identifier: Apache-2.0
"""Where groups stand, which checkpoints are news, and what may be set on the target."""

from __future__ import annotations

import pytest

from sparkmirror.formats.checkpoint import Checkpoint
from sparkmirror.kafka.descriptions import Committed, Group
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_positions import (
    GroupPosition,
    GroupRules,
    State,
    locate,
    new_checkpoints,
    plan_sync,
)
from sparkmirror.offsets.offset_map import Fit, Translation

TP = TopicPartition("t", 0)
REMOTE = TopicPartition("a.t", 0)
RULES = GroupRules(lambda topic: topic != "filtered", lambda topic: f"a.{topic}")


def found(offset: int, translation: Translation | None, log_start: int = 0) -> GroupPosition:
    """Where one committed offset was located."""
    (one,) = locate(
        "g", {TP: Committed(offset, "m")}, RULES, lambda _tp, _offset: translation, {TP: log_start}
    )
    return one


@pytest.mark.parametrize(
    ("translation", "state", "is_placed", "is_exact"),
    [
        (Translation(7, Fit.EXACT), State.TRANSLATED, True, True),
        (Translation(7, Fit.NEAR), State.TRANSLATED, True, False),
        (Translation(7, Fit.AFTER), State.CATCHING_UP, True, False),
        (Translation(7, Fit.BEFORE), State.TOO_OLD, False, False),
        (None, State.NOT_MIRRORED, False, False),
    ],
)
def test_every_translation_has_a_state(
    translation: Translation | None, state: State, is_placed: bool, is_exact: bool
) -> None:
    """And a reason where it is not exact."""
    one = found(5, translation)
    assert one.state is state
    assert one.target == REMOTE
    assert (one.is_placed, one.is_exact) == (is_placed, is_exact)
    assert bool(one.reason) is not is_exact


def test_behind_the_log_start_is_told_apart_from_older_than_the_copy() -> None:
    """The group has lost records on the source itself."""
    assert found(5, Translation(0, Fit.BEFORE), log_start=6).state is State.BEHIND_LOG_START
    assert found(6, Translation(0, Fit.BEFORE), log_start=6).state is State.TOO_OLD


def test_a_filtered_topic_is_not_even_translated() -> None:
    """It has no name on the target."""
    tp = TopicPartition("filtered", 0)
    (one,) = locate("g", {tp: Committed(1)}, RULES, lambda *_: pytest.fail("asked"), {})
    assert one.state is State.FILTERED
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
    """MM2's rules, and exact answers always."""
    one = found(upstream, Translation(downstream, fit))
    known = {("g", REMOTE): Checkpoint("g", REMOTE, *last)} if last else {}
    expected = [Checkpoint("g", REMOTE, upstream, downstream, "m")] if is_news else []
    assert new_checkpoints([one], known) == expected


@pytest.mark.parametrize("translation", [None, Translation(0, Fit.BEFORE)])
def test_what_has_no_place_has_no_checkpoint(translation: Translation | None) -> None:
    """Nor is it synced."""
    one = found(3, translation)
    assert new_checkpoints([one], {}) == []
    plan = plan_sync([one], {}, {})
    assert plan.writes == {}
    assert plan.positions == [one]


@pytest.mark.parametrize(
    ("group", "there", "writes", "state"),
    [
        (None, None, True, State.SYNCED),  # a group that nobody has seen on the target
        ("Empty", None, True, State.SYNCED),
        ("Empty", 9, True, State.SYNCED),
        ("Empty", 10, False, State.SYNCED),
        ("Empty", 11, False, State.AHEAD),
        ("Dead", 3, True, State.SYNCED),
        ("Stable", None, False, State.ACTIVE),
        ("Stable", 3, False, State.ACTIVE),
        ("Reconciling", 3, False, State.ACTIVE),
    ],
)
def test_idle_groups_move_forward_and_others_not_at_all(
    group: str | None, there: int | None, writes: bool, state: State
) -> None:
    """MM2's safety rules."""
    one = found(20, Translation(10, Fit.EXACT))
    groups = {"g": Group("g", group, "classic", "consumer")} if group else {}
    on_target = {"g": {REMOTE: Committed(there)}} if there is not None else {}
    plan = plan_sync([one], groups, on_target)
    assert plan.writes == ({"g": {REMOTE: Committed(10, "m")}} if writes else {})
    assert [one.state for one in plan.positions] == [state]


def test_a_group_the_copy_has_not_reached_is_set_as_far_as_it_goes() -> None:
    """Its state says that more is to come."""
    plan = plan_sync([found(20, Translation(10, Fit.AFTER))], {}, {})
    assert plan.writes == {"g": {REMOTE: Committed(10, "m")}}
    assert [one.state for one in plan.positions] == [State.CATCHING_UP]
