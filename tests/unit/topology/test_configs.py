# SPDX-License-Identifier: Apache-2.0
"""Which configs differ, and alterations on targets that reject some."""

from collections.abc import Mapping

import pytest

from sparkmirror.errors import BrokerError, UnreachableError
from sparkmirror.kafka.descriptions import ConfigEntry, ConfigSource
from sparkmirror.topology.apply_configs import apply_configs
from sparkmirror.topology.configs import (
    AlterTopic,
    desired_configs,
    plan_configs,
    unknown_configs,
)
from sparkmirror.topology.topics import TopicRules

POLICY_VIOLATION = 44
AUTHORIZATION = 29
RULES = TopicRules(
    replicates=lambda _: True,
    remote_name="a.{}".format,
    copies_config=lambda name: name != "min.insync.replicas",
)
WITH_DEFAULTS = TopicRules(
    replicates=lambda _: True, remote_name="a.{}".format, copies_default=lambda _: True
)


def own(name: str, value: str) -> ConfigEntry:
    """A config that was set on the topic."""
    return ConfigEntry(name, value, ConfigSource.DYNAMIC_TOPIC)


def default(name: str, value: str) -> ConfigEntry:
    """A config without override."""
    return ConfigEntry(name, value, ConfigSource.DEFAULT_CONFIG)


def plan(
    source: ConfigEntry, target: ConfigEntry, rules: TopicRules = RULES
) -> dict[str, str | None]:
    actions = plan_configs({"t": "a.t"}, {"t": (source,)}, {"a.t": (target,)}, rules)
    assert len(actions) <= 1
    return dict(actions[0].changes) if actions else {}


@pytest.mark.parametrize(
    ("source", "target", "changes"),
    [
        (own("retention.ms", "1"), own("retention.ms", "1"), {}),
        (own("retention.ms", "1"), own("retention.ms", "2"), {"retention.ms": "1"}),
        (own("retention.ms", "1"), default("retention.ms", "1"), {"retention.ms": "1"}),
        (default("retention.ms", "1"), own("retention.ms", "2"), {"retention.ms": None}),
        (default("retention.ms", "1"), default("retention.ms", "2"), {}),
        (own("min.insync.replicas", "2"), default("min.insync.replicas", "1"), {}),
        (default("min.insync.replicas", "1"), own("min.insync.replicas", "2"), {}),
    ],
)
def test_only_differences_are_planned(
    source: ConfigEntry, target: ConfigEntry, changes: dict[str, str | None]
) -> None:
    """Changes are set back, an unset config is unset, an excluded one is never changed."""
    assert plan(source, target) == changes


def test_a_config_that_the_target_does_not_know_is_passed_over() -> None:
    """An older Kafka version does not list it, and would reject it at every start."""
    source = (own("message.timestamp.before.max.ms", "9"), own("retention.ms", "1"))
    target = (default("retention.ms", "2"),)

    (action,) = plan_configs({"t": "a.t"}, {"t": source}, {"a.t": target}, RULES)

    assert action.changes == {"retention.ms": "1"}
    assert unknown_configs(source, target, RULES) == {"message.timestamp.before.max.ms"}
    assert unknown_configs((default("new.one", "1"),), target, RULES) == set()


@pytest.mark.parametrize("kind", [ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER])
def test_dynamic_broker_configs_count_as_set(kind: ConfigSource) -> None:
    """As in MM2; values from a broker's file are ignored."""
    source = ConfigEntry("retention.ms", "7", kind)
    assert plan(source, default("retention.ms", "1")) == {"retention.ms": "7"}
    from_file = ConfigEntry("retention.ms", "7", ConfigSource.STATIC_BROKER)
    assert plan(from_file, own("retention.ms", "1")) == {}


def test_the_sources_defaults_are_set_if_requested() -> None:
    """With use.defaults.from=source a default is a value like any other."""
    here, there = default("retention.ms", "1"), own("retention.ms", "2")
    assert plan(here, there, WITH_DEFAULTS) == {"retention.ms": "1"}


def test_what_cannot_be_set_is_left_out() -> None:
    """Read-only and sensitive configs."""
    entries = (
        ConfigEntry("a", "1", ConfigSource.DYNAMIC_TOPIC, read_only=True),
        ConfigEntry("b", None, ConfigSource.DYNAMIC_TOPIC, sensitive=True),
        own("c", "3"),
    )
    assert desired_configs(entries, RULES) == {"c": "3"}


def test_a_topic_that_one_side_did_not_answer_for_is_passed_over() -> None:
    entry = (own("retention.ms", "1"),)
    assert plan_configs({"t": "a.t"}, {"t": entry}, {}, RULES) == []
    assert plan_configs({"t": "a.t"}, {}, {"a.t": entry}, RULES) == []


class PickyCluster:
    """A target that rejects configs; records accepted changes and requests."""

    def __init__(self, *refused: str, says_which: bool, code: int = POLICY_VIOLATION) -> None:
        self.refused = refused
        self.says_which = says_which
        self.code = code
        self.taken: dict[str, dict[str, str | None]] = {}
        self.requests = 0

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Accept all changes of a topic or none."""
        self.requests += 1
        answers = {topic: self.judge(topic, configs) for topic, configs in changes.items()}
        if not validate_only:
            for topic, configs in changes.items():
                if answers[topic] is None:
                    self.taken.setdefault(topic, {}).update(configs)
        return answers

    def judge(self, topic: str, configs: Mapping[str, str | None]) -> BrokerError | None:
        """Return the rejection of a topic, if any."""
        for name in self.refused:
            if name in configs:
                sentence = f"Topic '{topic}': {name if self.says_which else 'it'} is not allowed."
                return BrokerError(sentence, cluster="b", code=self.code, retriable=False)
        return None


def alter(topic: str, **changes: str) -> AlterTopic:
    """An alteration of a.<topic>; config names are written with _ for a dot."""
    dotted = {name.replace("_", "."): value for name, value in changes.items()}
    return AlterTopic(topic, f"a.{topic}", dotted, dict.fromkeys(dotted))


@pytest.mark.parametrize("says_which", [True, False])
def test_the_rest_goes_through_when_some_are_refused(says_which: bool) -> None:
    """Whether or not the target names the rejected ones."""
    cluster = PickyCluster("retention.ms", "segment.ms", says_which=says_which)
    action = alter("t", retention_ms="1", segment_ms="2", retention_bytes="3", cleanup_policy="4")
    [result] = apply_configs([action], cluster)
    assert result.error is None
    assert result.rejected.keys() == {"retention.ms", "segment.ms"}
    assert cluster.taken == {"a.t": {"retention.bytes": "3", "cleanup.policy": "4"}}


def test_a_limit_learned_from_one_topic_is_used_for_the_others() -> None:
    """A thousand topics with the same rejected config take a few requests."""
    cluster = PickyCluster("retention.ms", says_which=False)
    actions = [alter(f"t{n}", retention_ms="1", segment_ms=str(n)) for n in range(1000)]
    results = apply_configs(actions, cluster)
    assert all(one.rejected.keys() == {"retention.ms"} and one.error is None for one in results)
    assert len(cluster.taken) == len(actions)
    assert cluster.requests < 10


def test_a_refusal_that_no_config_is_to_blame_for_is_handed_back() -> None:
    cluster = PickyCluster("retention.ms", says_which=True, code=AUTHORIZATION)
    [result] = apply_configs([alter("t", retention_ms="1")], cluster)
    assert isinstance(result.error, BrokerError)
    assert result.rejected == {}
    assert cluster.taken == {}


def test_a_target_out_of_reach_fails_every_alteration() -> None:

    class Away(PickyCluster):
        def alter_configs(self, *_: object, **__: object) -> dict[str, BrokerError | None]:
            raise UnreachableError("Nobody answers.", cluster="b")

    results = apply_configs([alter("t", a="1"), alter("u", a="1")], Away(says_which=True))
    assert [type(one.error) for one in results] == [UnreachableError, UnreachableError]
