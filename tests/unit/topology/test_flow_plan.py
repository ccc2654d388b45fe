# SPDX-License-Identifier: Apache-2.0
"""Whether a stored plan still applies, the order of its actions, and their text."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.model import Flow
from sparkmirror.topology.acls import GrantAcl, RevokeAcl
from sparkmirror.topology.action_text import describe_action, printable, summarize_actions
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import (
    STAGES,
    Action,
    ChangedAction,
    MoveGroup,
    action_key,
    compare_actions,
    is_destructive,
    sorted_actions,
)
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic
from support.data.plan_strategies import actions

FLOW = Flow("a", "b")
MOVE = MoveGroup("billing", "a.orders", 3, 10, 17)
ACL = AclBinding(
    ResourceType.TOPIC,
    "a.orders",
    PatternType.LITERAL,
    "User:app",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
CREATE = CreateTopic("orders", "a.orders", 6, 3, {"retention.ms": "1"})
ALTER = AlterTopic("views", "a.views", {"retention.ms": "6"}, {"retention.ms": "5"})


def test_the_same_actions_fit() -> None:
    fit = compare_actions([CREATE, ALTER, MOVE], [MOVE, CREATE, ALTER])
    assert (fit.changed, fit.new_actions) == ((), ())


def test_an_action_that_is_not_planned_any_more_does_not_fit() -> None:
    """It was done meanwhile, or is not possible any more."""
    assert compare_actions([CREATE, ALTER], [ALTER]).changed == (ChangedAction(CREATE, None),)


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        (CREATE, replace(CREATE, partitions=7)),
        (CREATE, replace(CREATE, configs={})),
        (ALTER, replace(ALTER, before={"retention.ms": "4"})),
        (GrowTopic("o", "a.o", 1, 4), GrowTopic("o", "a.o", 2, 4)),
        (DeleteTopic("o", "a.o", "id-1"), DeleteTopic("o", "a.o", "id-2")),
        (MOVE, replace(MOVE, before=11)),
        (MOVE, replace(MOVE, before=None)),
        (MOVE, replace(MOVE, after=16)),  # beyond what is translated now
    ],
)
def test_an_action_that_would_be_another_now_does_not_fit(stored: Action, now: Action) -> None:
    """The result has both actions."""
    fit = compare_actions([stored], [now])
    assert (fit.changed, fit.new_actions) == ((ChangedAction(stored, now),), ())


def test_a_group_that_has_gone_on_still_fits() -> None:
    """The group has passed the stored position."""
    assert compare_actions([MOVE], [replace(MOVE, after=25, metadata="new")]).changed == ()


def test_what_is_only_in_the_new_plan_is_news() -> None:
    """It does not affect the stored plan."""
    fit = compare_actions([CREATE], [CREATE, MOVE, ALTER])
    assert (fit.changed, fit.new_actions) == ((), (ALTER, MOVE))


@given(st.lists(actions, unique_by=action_key))
def test_the_order_does_not_depend_on_how_actions_were_found(some: list[Action]) -> None:
    """Stages in order, destructive ones last."""
    ordered = sorted_actions(some)
    assert sorted_actions(reversed(some)) == ordered
    stages = [STAGES.index(type(one)) for one in ordered]
    assert stages == sorted(stages)
    takes_away = [is_destructive(one) for one in ordered]
    assert takes_away == sorted(takes_away)


@given(st.lists(actions, unique_by=action_key))
def test_a_plan_fits_itself(some: list[Action]) -> None:
    fit = compare_actions(some, list(reversed(some)))
    assert (fit.changed, fit.new_actions) == ((), ())


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (
            CREATE,
            "create topic a.orders on b: 6 partitions, 3 replicas, retention.ms=1",
        ),
        (
            CreateInternalTopic(Side.SOURCE, "syncs", 1, -1, {}),
            "create internal topic syncs on a: 1 partition, default replication factor",
        ),
        (GrowTopic("o", "a.o", 1, 4), "grow topic a.o on b: from 1 to 4 partitions"),
        (ALTER, "alter topic a.views on b: retention.ms=6 (was 5)"),
        (
            AlterTopic("o", "a.o", {"x": None, "y": "1"}, {"x": "5", "y": None}),
            "alter topic a.o on b: x back to the default (was 5), y=1 (was not set)",
        ),
        (
            GrantAcl(ACL),
            "grant ACL on b: allow User:app READ from * on topic 'a.orders' (literal)",
        ),
        (MOVE, "move group billing on b: a.orders-3 from 10 to 17"),
        (
            replace(MOVE, before=None, group="\x1b[31m"),
            "move group \\x1b[31m on b: a.orders-3 from no offset to 17",
        ),
        (
            DeleteTopic("o", "a.o", "id"),
            "delete topic a.o on b: with all records, because o was deleted on a",
        ),
    ],
)
def test_actions_are_reported_in_words(action: Action, line: str) -> None:
    """Control characters in names are escaped."""
    assert str(describe_action(action, FLOW)) == line


def test_counts_follow_the_order_of_the_stages() -> None:
    internal = CreateInternalTopic(Side.TARGET, "offsets", 25, 3, {})
    some = [DeleteTopic("o", "a.o", "id"), RevokeAcl(ACL), CREATE, MOVE, internal]
    assert summarize_actions(some) == "2 to create, 1 to move, 1 to revoke, 1 to delete"


@given(st.text())
def test_nothing_unprintable_is_printed(text: str) -> None:
    assert printable(text).isprintable()
