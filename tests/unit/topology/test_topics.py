# SPDX-License-Identifier: Apache-2.0
"""The plan for remote topics, as lists of actions."""

from dataclasses import replace
from uuid import UUID

import pytest

from sparkmirror.kafka.descriptions import ConfigEntry, ConfigSource, TopicDescription
from sparkmirror.topology.topics import (
    CreateTopic,
    GrowTopic,
    TopicPlan,
    TopicRules,
    copied_configs,
    mirrored_topics,
    plan_topics,
    remote_names,
    topics_to_create,
)

RULES = TopicRules(replicates=lambda name: name != "private", remote_name="a.{}".format)
COMPACT = ConfigEntry("cleanup.policy", "compact", ConfigSource.DYNAMIC_TOPIC)


def topics(*described: tuple[str, int]) -> dict[str, TopicDescription]:
    """Topics with these names and partition counts."""
    return {name: TopicDescription(name, UUID(int=1), count, 1) for name, count in described}


def test_a_missing_topic_is_created_like_its_source() -> None:
    """Partition count and configs come from the source, the factor from the settings."""
    plan = plan_topics(topics(("orders", 4)), {}, {"orders": (COMPACT,)}, RULES, 2)
    created = CreateTopic("orders", "a.orders", 4, 2, {"cleanup.policy": "compact"})
    assert plan == TopicPlan(actions=(created,))


def kinds(plan: TopicPlan) -> list[tuple[str, str]]:
    return [(notice.kind, notice.remote) for notice in plan.notices]


def test_a_smaller_remote_topic_is_grown() -> None:
    """It gets as many partitions as its source has."""
    plan = plan_topics(topics(("orders", 4)), topics(("a.orders", 3)), {}, RULES, 2)
    assert plan == TopicPlan(actions=(GrowTopic("orders", "a.orders", 3, 4),))


def test_topics_created_by_another_client_are_reported_with_their_partitions() -> None:
    """Neither created nor grown; existing topics are mirrored."""
    rules = replace(RULES, creates=False)
    source = topics(("orders", 4), ("bills", 3))
    plan = plan_topics(source, topics(("a.bills", 1)), {"orders": (COMPACT,)}, rules, -1)
    assert plan.actions == ()
    assert kinds(plan) == [("too few partitions", "a.bills"), ("missing topic", "a.orders")]
    few, missing = map(str, plan.notices)
    assert missing.endswith("Create it with 4 partitions, cleanup.policy=compact.")
    assert "'a.bills' has 1 of its 3 partitions" in few


def test_an_equal_remote_topic_is_not_changed() -> None:
    plan = plan_topics(topics(("orders", 4)), topics(("a.orders", 4)), {}, RULES, 2)
    assert plan == TopicPlan()


def test_a_larger_remote_topic_is_reported() -> None:
    """Kafka cannot shrink a topic."""
    plan = plan_topics(topics(("orders", 2)), topics(("a.orders", 4)), {}, RULES, 2)
    assert plan.actions == ()
    assert kinds(plan) == [("too many partitions", "a.orders")]
    assert "'a.orders' has 4 partitions" in str(plan.notices[0])


def test_topics_that_do_not_take_part_are_left_out() -> None:
    """The filter selects, and Kafka's own topics are never mirrored."""
    source = topics(("private", 1), ("orders", 1), ("__consumer_offsets", 50))
    source["__consumer_offsets"] = TopicDescription(
        "__consumer_offsets", UUID(int=2), 50, 1, is_internal=True
    )
    assert list(mirrored_topics(source, RULES)) == ["orders"]
    assert topics_to_create(source, {}, RULES) == ["orders"]


def test_only_missing_topics_need_their_configs() -> None:
    """Configs are expensive to read, so existing remote topics do not need them."""
    source = topics(("orders", 1), ("bills", 1))
    assert topics_to_create(source, topics(("a.orders", 1)), RULES) == ["bills"]


def test_a_topic_with_unknown_configs_is_not_created() -> None:
    """With other configs it could delete what the source keeps."""
    plan = plan_topics(topics(("orders", 1), ("bills", 1)), {}, {"bills": ()}, RULES, 1)
    assert plan.actions == (CreateTopic("bills", "a.bills", 1, 1, {}),)
    assert kinds(plan) == [("configs unknown", "a.orders")]
    assert "'orders' is not mirrored yet" in str(plan.notices[0])


def test_two_topics_with_one_remote_name_are_reported() -> None:
    """One creation per remote name."""
    rules = TopicRules(replicates=lambda _: True, remote_name=lambda _: "all")
    plan = plan_topics(topics(("x", 1), ("y", 2)), {}, {"x": (), "y": ()}, rules, 1)
    assert plan.actions == (CreateTopic("x", "all", 1, 1, {}),)
    assert kinds(plan) == [("name collision", "all")]
    assert "'x' and 'y' have the same remote name 'all'" in str(plan.notices[0])


@pytest.mark.parametrize(
    ("entry", "is_copied"),
    [
        (ConfigEntry("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC), True),
        (ConfigEntry("retention.ms", "1", ConfigSource.DYNAMIC_BROKER), True),
        (ConfigEntry("retention.ms", "1", ConfigSource.DYNAMIC_DEFAULT_BROKER), True),
        (ConfigEntry("retention.ms", "1", ConfigSource.STATIC_BROKER), False),
        (ConfigEntry("retention.ms", "1", ConfigSource.DEFAULT_CONFIG), False),
        (ConfigEntry("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC, read_only=True), False),
        (ConfigEntry("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC, sensitive=True), False),
        (ConfigEntry("retention.ms", None, ConfigSource.DYNAMIC_TOPIC), False),
        (ConfigEntry("excluded", "1", ConfigSource.DYNAMIC_TOPIC), False),
    ],
)
def test_configs_are_chosen_as_mm2_does(entry: ConfigEntry, is_copied: bool) -> None:
    """Only what was set for the topic, or dynamically for the brokers, is copied."""
    rules = TopicRules(
        replicates=lambda _: True,
        remote_name=lambda name: name,
        copies_config=lambda name: name != "excluded",
    )
    assert copied_configs([entry], rules) == ({"retention.ms": "1"} if is_copied else {})


def test_source_defaults_are_copied_on_request() -> None:
    """With use.defaults.from=source built-in defaults are copied, static ones never."""
    rules = TopicRules(
        replicates=lambda _: True, remote_name=lambda name: name, copies_default=lambda _: True
    )
    default = ConfigEntry("retention.ms", "1", ConfigSource.DEFAULT_CONFIG)
    static = ConfigEntry("segment.ms", "2", ConfigSource.STATIC_BROKER)
    assert copied_configs([default, static], rules) == {"retention.ms": "1"}


def test_of_two_topics_with_one_remote_name_only_the_first_is_copied() -> None:
    """Two sources of one partition would mix their records."""
    rules = TopicRules(replicates=lambda _: True, remote_name=str.lower)
    assert remote_names(["Orders", "orders", "paid"], rules) == {"Orders": "orders", "paid": "paid"}
