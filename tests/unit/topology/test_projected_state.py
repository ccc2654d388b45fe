# SPDX-License-Identifier: Apache-2.0
"""The projected state of a cluster after other plans."""

from uuid import UUID

from sparkmirror.kafka.descriptions import ConfigEntry, ConfigSource, TopicDescription
from sparkmirror.model import Flow
from sparkmirror.topology.configs import AlterTopic, plan_configs
from sparkmirror.topology.flow_plan import MoveGroup
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.projected_state import ProjectedChanges, cluster_of, merge_actions
from sparkmirror.topology.topics import CreateTopic, GrowTopic, TopicRules, plan_topics

RULES = TopicRules(lambda _: True, lambda name: f"a.{name}")
THERE = {"a.t": TopicDescription("a.t", UUID(int=7), 1, 1)}


def test_a_plan_that_is_reckoned_with_is_not_planned_again() -> None:
    """Creations, growth and alterations all count as done."""
    source = {
        "t": TopicDescription("t", UUID(int=1), 3, 1),
        "u": TopicDescription("u", UUID(int=2), 2, 1),
    }
    own = ConfigEntry("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC)
    configs = {"t": (own,), "u": (own,)}
    shown = (ConfigEntry("retention.ms", "9", ConfigSource.DYNAMIC_TOPIC),)
    changes = ProjectedChanges()
    plan = plan_topics(source, THERE, configs, RULES, 1)
    alterations = plan_configs({"t": "a.t"}, configs, {"a.t": shown}, RULES)
    assert [type(one) for one in (*plan.actions, *alterations)] == [
        GrowTopic,
        CreateTopic,
        AlterTopic,
    ]
    for action in (*plan.actions, *alterations):
        changes.add(action)
    there = changes.projected_topics(THERE)
    assert plan_topics(source, there, configs, RULES, 1).actions == ()
    entries = {
        "a.t": changes.projected_configs("a.t", shown),
        "a.u": changes.projected_configs("a.u", ()),
    }
    assert plan_configs({"t": "a.t", "u": "a.u"}, configs, entries, RULES) == []
    assert there["a.t"].topic_id == UUID(int=7)


def test_a_value_that_is_taken_back_is_not_the_topics_own_any_more() -> None:
    changes = ProjectedChanges()
    changes.add(AlterTopic("t", "a.t", {"retention.ms": None}, {"retention.ms": "9"}))
    shown = (ConfigEntry("retention.ms", "9", ConfigSource.DYNAMIC_TOPIC),)
    copy = plan_configs(
        {"a.t": "b.a.t"}, {"a.t": changes.projected_configs("a.t", shown)}, {"b.a.t": shown}, RULES
    )
    assert [one.changes for one in copy] == [{"retention.ms": None}]


def test_what_is_found_counts_more_than_what_is_planned() -> None:
    """Another client may have created it already."""
    changes = ProjectedChanges()
    changes.add(CreateTopic("t", "a.t", 5, 1, {}))
    assert changes.projected_topics(THERE)["a.t"].partitions == 1


def test_more_of_the_same_becomes_one_action() -> None:
    """With the previous state of the first action."""
    first = [
        GrowTopic("t", "a.t", 1, 3),
        AlterTopic("t", "a.t", {"x": "1"}, {"x": None}),
        MoveGroup("g", "a.t", 0, None, 5),
    ]
    more = [
        GrowTopic("t", "a.t", 3, 5),
        AlterTopic("t", "a.t", {"x": "2", "y": "3"}, {"x": "1", "y": None}),
        CreateTopic("u", "a.u", 1, 1, {}),
    ]
    assert merge_actions(first, more) == [
        GrowTopic("t", "a.t", 1, 5),
        AlterTopic("t", "a.t", {"x": "2", "y": "3"}, {"x": None, "y": None}),
        MoveGroup("g", "a.t", 0, None, 5),
        CreateTopic("u", "a.u", 1, 1, {}),
    ]


def test_only_some_internal_topics_are_on_the_source() -> None:
    flow = Flow("a", "b")
    assert cluster_of(CreateInternalTopic(Side.SOURCE, "s", 1, 1, {}), flow) == "a"
    assert cluster_of(CreateInternalTopic(Side.TARGET, "s", 1, 1, {}), flow) == "b"
    assert cluster_of(CreateTopic("t", "a.t", 1, 1, {}), flow) == "b"
