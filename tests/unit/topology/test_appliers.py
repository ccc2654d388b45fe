# SPDX-License-Identifier: Apache-2.0
"""Carrying out a plan: rejected configs are found in few requests, errors are returned."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from sparkmirror.errors import BrokerError, UnreachableError
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.topology.apply_topics import (
    RejectedConfig,
    TopicOutcome,
    apply_topic_plan,
    rejected_config_messages,
    unknown_config_messages,
)
from sparkmirror.topology.topics import CreateTopic, GrowTopic

INVALID_CONFIG = 40
POLICY_VIOLATION = 44


def refusal(code: int, sentence: str = "Refused.") -> BrokerError:
    return BrokerError(sentence, cluster="b", code=code, retriable=False)


def creation(name: str = "t", **configs: str) -> CreateTopic:
    """The creation of a.<name>; config names are written with _ for a dot."""
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return CreateTopic(name, f"a.{name}", 1, 1, dotted)


class PickyCluster:
    """A target with a rule about topics; records existing topics and requests."""

    def __init__(self, judge: Callable[[NewTopic], BrokerError | None]) -> None:
        self.judge = judge
        self.created: dict[str, NewTopic] = {}
        self.requests = 0

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Apply the rule to each topic and keep the accepted ones."""
        self.requests += 1
        results = {topic.name: self.judge(topic) for topic in topics}
        if not validate_only:
            self.created |= {t.name: t for t in topics if results[t.name] is None}
        return results

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, BrokerError | None]:
        """Apply the rule to each topic by its name."""
        return {name: self.judge(NewTopic(name, count, 1)) for name, count in totals.items()}


def refusing(*names: str, says_which: bool) -> Callable[[NewTopic], BrokerError | None]:
    """A rule that rejects these configs, with or without naming them."""

    def judge(topic: NewTopic) -> BrokerError | None:
        for name in names:
            if name in topic.configs:
                what = f"config {name}" if says_which else "it"
                sentence = f"Topic '{topic.name}': {what} is not allowed."
                return refusal(POLICY_VIOLATION, sentence)
        return None

    return judge


@pytest.mark.parametrize("says_which", [True, False])
def test_a_refused_config_is_left_out_and_the_topic_created(says_which: bool) -> None:
    """Only the rejected config is missing, whether or not the broker names it."""
    target = PickyCluster(refusing("segment.bytes", says_which=says_which))
    action = creation(retention_ms="1", segment_bytes="2", cleanup_policy="compact")
    (outcome,) = apply_topic_plan([action], target)
    assert outcome.error is None
    assert [one.name for one in outcome.rejected] == ["segment.bytes"]
    assert target.created["a.t"].configs == {"retention.ms": "1", "cleanup.policy": "compact"}
    assert target.requests <= 6


@pytest.mark.parametrize("says_which", [True, False])
def test_several_refused_configs_are_left_out(says_which: bool) -> None:
    target = PickyCluster(refusing("a.a", "c.c", "e.e", says_which=says_which))
    (outcome,) = apply_topic_plan([creation(a_a="1", b_b="2", c_c="3", d_d="4", e_e="5")], target)
    assert {one.name for one in outcome.rejected} == {"a.a", "c.c", "e.e"}
    assert target.created["a.t"].configs == {"b.b": "2", "d.d": "4"}


def test_a_target_that_refuses_everything_still_gets_the_topic() -> None:
    """After some attempts the topic is created without configs, and all are reported."""
    configs = {f"c_{number}": "1" for number in range(12)}
    target = PickyCluster(refusing(*(f"c.{n}" for n in range(12)), says_which=True))
    (outcome,) = apply_topic_plan([creation(**configs)], target)
    assert outcome.error is None
    assert len(outcome.rejected) == 12
    assert target.created["a.t"].configs == {}


def test_many_topics_with_one_culprit_cost_few_requests() -> None:
    """The result of one topic is used for the others."""
    target = PickyCluster(refusing("segment.bytes", says_which=False))
    actions = [creation(f"t{n}", retention_ms="1", segment_bytes="2") for n in range(100)]
    outcomes = apply_topic_plan(actions, target)
    assert all(outcome.error is None for outcome in outcomes)
    assert len(target.created) == 100
    assert target.requests <= 6


def test_a_refused_config_makes_one_sentence_for_all_topics() -> None:
    target = PickyCluster(refusing("segment.bytes", says_which=True))
    outcomes = apply_topic_plan(
        [creation("x", segment_bytes="2"), creation("y", segment_bytes="2")], target
    )
    (sentence,) = rejected_config_messages(outcomes)
    assert "segment.bytes=2" in sentence
    assert "'a.x' and 1 more" in sentence
    assert "Topic 'a.x': config segment.bytes is not allowed." in sentence


def test_a_config_is_recognised_by_its_whole_name() -> None:
    """A rejection of local.retention.ms is not attributed to retention.ms."""
    target = PickyCluster(refusing("local.retention.ms", says_which=True))
    (outcome,) = apply_topic_plan([creation(retention_ms="1", local_retention_ms="2")], target)
    reason = "Topic 'a.t': config local.retention.ms is not allowed."
    assert outcome.rejected == (RejectedConfig("local.retention.ms", "2", reason),)


def test_a_refusal_that_no_config_is_to_blame_for_is_handed_back() -> None:
    """A policy about the name is an error, and no config is left out."""
    target = PickyCluster(lambda _: refusal(POLICY_VIOLATION, "Names begin with x."))
    action = creation(retention_ms="1")
    (outcome,) = apply_topic_plan([action], target)
    assert isinstance(outcome.error, BrokerError)
    assert outcome == TopicOutcome(action, outcome.error)
    assert str(outcome.error) == "Names begin with x."


def test_an_existing_topic_is_success() -> None:
    target = PickyCluster(lambda _: refusal(36))
    assert [outcome.error for outcome in apply_topic_plan([creation()], target)] == [None]


def test_one_failure_leaves_the_others_alone() -> None:
    """Each action has its own outcome, in the order of the plan."""
    target = PickyCluster(lambda topic: refusal(29) if topic.name == "a.secret" else None)
    outcomes = apply_topic_plan([creation("secret"), creation("open")], target)
    errors = [outcome.error for outcome in outcomes]
    assert isinstance(errors[0], BrokerError)
    assert errors[0].code == 29
    assert errors[1] is None


def test_partitions_added_by_another_client_count_as_success() -> None:
    """INVALID_PARTITIONS means that the topic has grown meanwhile."""
    target = PickyCluster(lambda topic: refusal(37) if topic.name == "a.x" else refusal(29))
    outcomes = apply_topic_plan([GrowTopic("x", "a.x", 1, 2), GrowTopic("y", "a.y", 1, 2)], target)
    assert outcomes[0].error is None
    assert isinstance(outcomes[1].error, BrokerError)


def test_an_unreachable_target_fails_every_action() -> None:
    """The caller plans again when the cluster is reachable."""

    def judge(_topic: NewTopic) -> BrokerError | None:
        raise UnreachableError("Cluster 'b' is down.", cluster="b")

    outcomes = apply_topic_plan([creation(), GrowTopic("x", "a.x", 1, 2)], PickyCluster(judge))
    assert [str(outcome.error) for outcome in outcomes] == ["Cluster 'b' is down."] * 2


def test_a_target_lost_while_looking_for_the_culprit_is_handed_back() -> None:
    """The search for a rejected config needs requests, which may fail, too."""
    answers: list[BrokerError | None] = [refusal(INVALID_CONFIG)]

    def judge(_topic: NewTopic) -> BrokerError | None:
        if not answers:
            raise UnreachableError("Cluster 'b' is down.", cluster="b")
        return answers.pop()

    (outcome,) = apply_topic_plan([creation(retention_ms="1")], PickyCluster(judge))
    assert isinstance(outcome.error, UnreachableError)


def test_an_empty_plan_sends_no_request() -> None:
    target = PickyCluster(lambda _: None)
    assert apply_topic_plan([], target) == []
    assert target.requests == 0


def test_a_config_that_an_old_target_does_not_know_is_no_refusal() -> None:
    """The topic is created without it, and the message is separate from rejections."""
    said = "INVALID_CONFIG (40), Unknown topic config name: remote.storage.enable."

    def judge(topic: NewTopic) -> BrokerError | None:
        return refusal(INVALID_CONFIG, said) if "remote.storage.enable" in topic.configs else None

    target = PickyCluster(judge)
    wanted = creation(remote_storage_enable="true", retention_ms="1")

    outcomes = apply_topic_plan([wanted], target)

    assert target.created["a.t"].configs == {"retention.ms": "1"}
    assert rejected_config_messages(outcomes) == []
    (remark,) = unknown_config_messages(outcomes)
    assert remark.startswith("The target does not know the topic config remote.storage.enable=true")
