# SPDX-License-Identifier: Apache-2.0
"""Which topics a flow copies: filters, heartbeats, internal topics, cycles."""

from __future__ import annotations

import pytest

from sparkmirror.model import Flow
from sparkmirror.policy.filters import DefaultTopicFilter, NamePattern, TopicSelection
from sparkmirror.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy

FLOW = Flow("source", "target")


def topic_filter(*include: str, exclude: tuple[str, ...] = ()) -> DefaultTopicFilter:
    """A filter by lists of patterns."""
    return DefaultTopicFilter(
        NamePattern.compile(include, "topics"), NamePattern.compile(exclude, "topics.exclude")
    )


def selection(
    *include: str, identity: bool = False, separator: str | None = None, heartbeats: bool = True
) -> TopicSelection:
    """The choice of the flow source->target with these patterns."""
    policy = IdentityReplicationPolicy() if identity else DefaultReplicationPolicy()
    options = {"source.cluster.alias": FLOW.source}
    if separator is not None:
        options["replication.policy.separator"] = separator
    policy.configure(options)
    return TopicSelection(FLOW, policy, topic_filter(*include), heartbeats)


@pytest.mark.parametrize(
    ("topic", "copied"),
    [
        ("topic1", True),
        ("other.topic1", True),
        ("other.another.topic1", True),
        ("target.topic1", False),
        ("source.topic1", False),
        ("source.target.topic1", False),
        ("target.source.topic1", False),
        ("other.target.topic1", False),
    ],
)
def test_topics_that_were_on_either_cluster_before_are_cycles(topic: str, copied: bool) -> None:
    """The rule of Kafka 4.4: both aliases count, at any depth."""
    assert copied == selection(".*").should_replicate_topic(topic)


@pytest.mark.parametrize(
    ("topic", "copied"),
    [
        ("topic1", True),
        ("target.topic1", True),
        ("source.target.topic1", True),
        ("heartbeats", True),
        ("othersource.heartbeats", True),
        ("target.heartbeats", False),
        ("source.target.heartbeats", False),
        ("target.source.heartbeats", False),
    ],
)
def test_with_equal_names_only_heartbeats_can_go_round(topic: str, copied: bool) -> None:
    """The identity policy detects no cycle in ordinary names."""
    assert copied == selection(".*", identity=True).should_replicate_topic(topic)


def test_heartbeats_are_copied_although_the_filter_rejects_them() -> None:
    """Mirrored heartbeats count as well."""
    chosen = selection("orders")
    assert chosen.should_replicate_topic("heartbeats")
    assert chosen.should_replicate_topic("us-west.heartbeats")
    assert not chosen.should_replicate_topic("payments")


def test_a_separator_decides_what_a_heartbeats_topic_is() -> None:
    """With `_`, `us-west.heartbeats` is an ordinary name."""
    chosen = selection("orders", separator="_")
    assert not chosen.should_replicate_topic("us-west.heartbeats")
    assert chosen.should_replicate_topic("us-west_heartbeats")


def test_heartbeats_follow_the_filter_when_switched_off() -> None:
    """Without the exception the filter alone decides."""
    assert not selection("orders", heartbeats=False).should_replicate_topic("heartbeats")
    assert not selection(heartbeats=False).should_replicate_topic("heartbeats")
    assert selection(".*", heartbeats=False).should_replicate_topic("heartbeats")


def test_internal_topics_are_never_copied() -> None:
    """Not even if the filter names them."""
    chosen = selection(".*")
    for topic in ("__consumer_offsets", "mm2-offsets.x.internal", "x.checkpoints.internal", ".x"):
        assert not chosen.should_replicate_topic(topic)


def test_a_policy_without_upstream_name_ends_the_search() -> None:
    """A source without an upstream topic is no cycle."""

    class Odd(DefaultReplicationPolicy):
        def upstream_topic(self, topic: str) -> str | None:  # noqa: ARG002 - always None
            return None

    chosen = TopicSelection(FLOW, Odd(), topic_filter(".*"))
    assert not chosen.is_cycle("elsewhere.topic")
    assert chosen.is_cycle("target.topic")


@pytest.mark.parametrize("separator", [".", "_", "-"])
@pytest.mark.parametrize("identity", [False, True])
def test_the_registry_of_producers_is_never_copied(*, separator: str, identity: bool) -> None:
    """All flows share it, so its name does not follow the separator of one of them."""
    chosen = selection(".*", identity=identity, separator=separator)
    assert not chosen.should_replicate_topic("mm2-producers.internal")
