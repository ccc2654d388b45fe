# SPDX-License-Identifier: Apache-2.0
"""Remote topic names are MM2's, edge cases included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.policy.replication import (
    BaseReplicationPolicy,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)

SEPARATOR = "replication.policy.separator"
INTERNAL = "replication.policy.internal.topic.separator.enabled"
NAMES = st.text("abc.-_", min_size=1, max_size=12)


def default_policy() -> DefaultReplicationPolicy:
    """The default policy with no key set."""
    policy = DefaultReplicationPolicy()
    policy.configure({})
    return policy


def identity_policy() -> IdentityReplicationPolicy:
    """The identity policy of a flow from `source`."""
    policy = IdentityReplicationPolicy()
    policy.configure({"source.cluster.alias": "source"})
    return policy


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("foo", None, None, "foo"),
        ("foo.", None, None, "foo."),
        (".", None, None, "."),
        ("..", None, None, ".."),
        (".foo", "", "foo", "foo"),
        ("a..b", "a", ".b", "b"),
        ("a.b.c", "a", "b.c", "c"),
        ("orders.v1", "orders", "v1", "v1"),
    ],
)
def test_names_are_taken_apart_as_java_splits_them(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    """Trailing empty pieces do not count; any dotted name looks remote."""
    policy = default_policy()
    found = (policy.topic_source(topic), policy.upstream_topic(topic), policy.original_topic(topic))
    assert (source, upstream, original) == found


@given(st.text("abc-_", min_size=1), NAMES)
def test_a_remote_name_leads_back_to_its_source(alias: str, topic: str) -> None:
    """What `format_remote_topic` joins, the other two take apart, unless dots alone remain."""
    policy = default_policy()
    remote = policy.format_remote_topic(alias, topic)
    if topic.strip("."):
        assert (alias, topic) == (policy.topic_source(remote), policy.upstream_topic(remote))
    else:
        assert policy.topic_source(remote) is None


@given(NAMES)
def test_the_original_topic_is_its_own_original(topic: str) -> None:
    """Following upstream names ends."""
    policy = default_policy()
    original = policy.original_topic(topic)
    assert original == policy.original_topic(original)


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-offsets.C.internal", True),
        ("mm2-offset-syncs.B.internal", True),
        ("A.checkpoints.internal", True),
        ("mm2-offsets_C_internal", False),
        ("mm2-offsets.C", False),
        ("checkpoints.internal", False),
        ("heartbeats", False),
        ("_schemas", False),
    ],
)
def test_internal_topics_are_recognised(topic: str, internal: bool) -> None:
    """MM2's, Kafka's and hidden topics are internal, similar names are not."""
    assert internal == default_policy().is_internal_topic(topic)


@pytest.mark.parametrize(
    ("options", "syncs", "checkpoints"),
    [
        ({}, "mm2-offset-syncs.B.internal", "B.checkpoints.internal"),
        ({SEPARATOR: "__"}, "mm2-offset-syncs__B__internal", "B__checkpoints__internal"),
        (
            {SEPARATOR: "__", INTERNAL: "true"},
            "mm2-offset-syncs__B__internal",
            "B__checkpoints__internal",
        ),
        (
            {SEPARATOR: "__", INTERNAL: "false"},
            "mm2-offset-syncs.B.internal",
            "B.checkpoints.internal",
        ),
        ({INTERNAL: "false"}, "mm2-offset-syncs.B.internal", "B.checkpoints.internal"),
    ],
)
def test_a_separator_shapes_internal_names_unless_told_not_to(
    options: dict[str, str], syncs: str, checkpoints: str
) -> None:
    """The flag counts only beside a separator; heartbeats never change."""
    policy = DefaultReplicationPolicy()
    policy.configure(options)
    assert syncs == policy.offset_syncs_topic("B")
    assert checkpoints == policy.checkpoints_topic("B")
    assert policy.is_checkpoints_topic(checkpoints)
    assert policy.is_internal_topic(syncs)
    assert policy.heartbeats_topic() == "heartbeats"


def test_a_custom_separator_hides_nothing_that_uses_dots() -> None:
    """With `_`, the worker's dotted topics are internal only to the topic filter."""
    policy = DefaultReplicationPolicy()
    policy.configure({SEPARATOR: "_"})
    assert not policy.is_mm2_internal_topic("mm2-offsets.A.internal")
    assert policy.format_remote_topic("us-west", "orders") == "us-west_orders"
    assert not policy.is_heartbeats_topic("us-west.heartbeats")
    assert policy.is_heartbeats_topic("us-west_heartbeats")


def test_the_identity_policy_keeps_names_except_heartbeats() -> None:
    """Ordinary topics keep their name and come from the configured source."""
    policy = identity_policy()
    assert policy.format_remote_topic("source", "orders.v1") == "orders.v1"
    assert policy.topic_source("orders.v1") == "source"
    assert policy.upstream_topic("orders.v1") == "orders.v1"
    assert policy.original_topic("orders.v1") == "orders.v1"
    assert policy.format_remote_topic("source", "heartbeats") == "source.heartbeats"
    assert policy.topic_source("other.heartbeats") == "other"
    assert policy.upstream_topic("other.heartbeats") == "heartbeats"
    assert policy.topic_source("heartbeats") is None
    assert policy.is_heartbeats_topic("a.b.heartbeats")


def test_the_identity_policy_without_a_source_knows_no_source() -> None:
    """The alias may be absent, as in MM2."""
    policy = IdentityReplicationPolicy()
    policy.configure({})
    assert policy.topic_source("orders") is None


def test_a_custom_policy_needs_three_functions_only() -> None:
    """`BaseReplicationPolicy` supplies the rest, with dots in internal names."""

    class Upper(BaseReplicationPolicy):
        def format_remote_topic(self, source_alias: str, topic: str) -> str:
            return f"{source_alias}-{topic}".upper()

        def topic_source(self, topic: str) -> str | None:
            return topic.partition("-")[0] if "-" in topic else None

        def upstream_topic(self, topic: str) -> str | None:
            return topic.partition("-")[2] or None

    policy = Upper()
    assert isinstance(policy, ReplicationPolicy)
    assert policy.original_topic("a-b-heartbeats") == "heartbeats"
    assert policy.is_heartbeats_topic("a-heartbeats")
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"


def test_the_shared_part_alone_is_no_policy() -> None:
    """A policy must say where topics come from."""
    with pytest.raises(NotImplementedError):
        BaseReplicationPolicy().topic_source("x")
    with pytest.raises(NotImplementedError):
        BaseReplicationPolicy().original_topic("x")
