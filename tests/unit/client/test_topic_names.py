# SPDX-License-Identifier: Apache-2.0
"""Topic names show what is upstream, as in Java's MirrorClient."""

from __future__ import annotations

import pytest

from sparkmirror.client.topic_names import (
    checkpoint_topics,
    heartbeat_topics,
    hops_from,
    remote_topics,
    replication_hops,
    upstream_clusters,
)
from sparkmirror.policy.replication import (
    BaseReplicationPolicy,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
)

DEFAULT = DefaultReplicationPolicy()


def identity(source_alias: str | None = None) -> IdentityReplicationPolicy:
    """The policy that keeps names; `source_alias` as its one source."""
    policy = IdentityReplicationPolicy()
    policy.configure({} if source_alias is None else {"source.cluster.alias": source_alias})
    return policy


def separated(separator: str) -> DefaultReplicationPolicy:
    """The default policy with another separator."""
    policy = DefaultReplicationPolicy()
    policy.configure({"replication.policy.separator": separator})
    return policy


def test_heartbeat_topics_are_recognised_by_their_origin() -> None:
    """`heartbeats` under any number of aliases; nothing that only looks like it."""
    heartbeats = {"heartbeats", "source1.heartbeats", "source2.source1.heartbeats"}
    others = {"heartbeats!", "!heartbeats", "source1heartbeats", "source1-heartbeats", "topic"}
    assert heartbeat_topics(DEFAULT, heartbeats | others) == heartbeats


def test_checkpoint_topics_are_recognised_by_their_suffix() -> None:
    """An alias must stand before `.checkpoints.internal`."""
    checkpoints = {"source1.checkpoints.internal", "a.b.checkpoints.internal"}
    others = {
        "checkpoints.internal",
        "checkpoints-internal",
        "checkpoints.internal!",
        "!checkpoints.internal",
        "source1checkpointsinternal",
        "source1.checkpoints",
    }
    assert checkpoint_topics(DEFAULT, checkpoints | others) == checkpoints


@pytest.mark.parametrize(
    ("topic", "alias", "expected"),
    [
        ("topic", "source", -1),
        ("source", "source", -1),
        ("sourcetopic", "source", -1),
        ("source1.topic", "source2", -1),
        ("source1.topic", "source1", 1),
        ("source2.source1.topic", "source1", 2),
        ("source2.source1.topic", "source2", 1),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source4", -1),
        ("source1.source2.source1.topic", "source3", -1),  # a loop
    ],
)
def test_hops_are_counted_along_the_name(topic: str, alias: str, expected: int) -> None:
    """One for the cluster named first, -1 for one that is not in the name or behind a loop."""
    assert hops_from(DEFAULT, topic, alias) == expected


def test_a_policy_that_loses_the_way_ends_the_count() -> None:
    """A remote topic without an upstream name ends the path."""

    class Forgetful(DefaultReplicationPolicy):
        def upstream_topic(self, _topic: str) -> str | None:
            return None

    assert hops_from(Forgetful(), "b.a.topic", "b") == 1
    assert hops_from(Forgetful(), "b.a.topic", "a") == -1


def test_the_shortest_way_of_all_heartbeats_counts() -> None:
    """Only heartbeats count; a direct path is shorter."""
    names = [
        "topic1",
        "topic2",
        "heartbeats",
        "source1.heartbeats",
        "source1.source2.heartbeats",
        "source3.source2.source1.heartbeats",
        "source5.topic",
    ]
    distances = {f"source{n}": replication_hops(DEFAULT, names, f"source{n}") for n in range(1, 6)}
    assert distances == {"source1": 1, "source2": 2, "source3": 1, "source4": -1, "source5": -1}
    assert replication_hops(DEFAULT, [], "source1") == -1


def test_upstream_clusters_are_gathered_from_all_heartbeats() -> None:
    """Five sources from three heartbeat topics; other remote topics do not count."""
    names = [
        "topic1",
        "topic2",
        "heartbeats",
        "source1.heartbeats",
        "source1.source2.heartbeats",
        "source3.source4.source5.heartbeats",
        "source6.topic",
    ]
    assert upstream_clusters(DEFAULT, names) == {f"source{n}" for n in range(1, 6)}
    assert upstream_clusters(DEFAULT, ["heartbeats", "topic"]) == set()


def test_a_loop_of_heartbeats_ends() -> None:
    """A repeated name is followed once."""
    assert upstream_clusters(DEFAULT, ["a.b.a.b.heartbeats"]) == {"a", "b"}


def test_remote_topics_have_a_source_and_are_not_internal() -> None:
    """Mirrored heartbeats are remote topics; checkpoints, MM2's and Kafka's own topics are not."""
    names = [
        "topic3",
        "source1.topic4",
        "source1.source2.topic5",
        "source3.source4.source5.topic6",
        "source1.heartbeats",
        "heartbeats",
        "source1.checkpoints.internal",
        "mm2-offset-syncs.source1.internal",
        "__consumer_offsets.copy",
    ]
    assert remote_topics(DEFAULT, names) == {
        "source1.topic4",
        "source1.source2.topic5",
        "source3.source4.source5.topic6",
        "source1.heartbeats",
    }
    assert remote_topics(DEFAULT, names, "source1") == {
        "source1.topic4",
        "source1.source2.topic5",
        "source1.heartbeats",
    }
    assert remote_topics(DEFAULT, names, "source2") == set()  # two hops away


def test_another_separator_is_followed_everywhere() -> None:
    """Names with the old separator are local then; `heartbeats` itself never changes."""
    policy = separated("__")
    names = [
        "topic",
        "source1.topic",
        "source1__topic",
        "heartbeats",
        "source2__source1__heartbeats",
        "source3.heartbeats",
        "source1__checkpoints__internal",
        "source1.checkpoints.internal",
    ]
    assert remote_topics(policy, names) == {"source1__topic", "source2__source1__heartbeats"}
    assert heartbeat_topics(policy, names) == {"heartbeats", "source2__source1__heartbeats"}
    assert checkpoint_topics(policy, names) == {"source1__checkpoints__internal"}
    assert upstream_clusters(policy, names) == {"source1", "source2"}
    assert replication_hops(policy, names, "source1") == 2


def test_identity_keeps_heartbeats_apart() -> None:
    """Heartbeats are renamed under this policy too, so hops and clusters are known."""
    names = [
        "topic1",
        "heartbeats",
        "source1.heartbeats",
        "source1.source2.heartbeats",
        "source3.heartbeats",
        "source1heartbeats",
        "source2.topic",
    ]
    policy = identity("source")
    assert heartbeat_topics(policy, names) == set(names[1:5])
    assert upstream_clusters(policy, names) == {"source1", "source2", "source3"}
    distances = [replication_hops(policy, names, f"source{n}") for n in (1, 2, 3, 4)]
    assert distances == [1, 2, 1, -1]


def test_under_identity_every_topic_may_be_remote() -> None:
    """With the source's alias every ordinary topic is; without it none but heartbeats."""
    names = ["topic1", "source1.topic2", "heartbeats", "backup.heartbeats", "__internal"]
    assert remote_topics(identity("primary"), names) == {
        "topic1",
        "source1.topic2",
        "backup.heartbeats",
    }
    assert remote_topics(identity("primary"), names, "primary") == {"topic1", "source1.topic2"}
    assert remote_topics(identity(), names) == {"backup.heartbeats"}


@pytest.mark.parametrize(
    ("topic", "alias", "expected"),
    [
        ("topic", "primary", 1),  # every topic came from there, the policy says
        ("topic", "other", -1),
        ("backup.heartbeats", "backup", 1),
        ("backup.heartbeats", "primary", -1),
        ("heartbeats", "primary", -1),
    ],
)
def test_identity_counts_hops_by_its_own_source(topic: str, alias: str, expected: int) -> None:
    """An unchanged name is followed once."""
    assert hops_from(identity("primary"), topic, alias) == expected


def test_the_source_of_a_topic_under_identity() -> None:
    """The configured source for ordinary topics, the alias in the name for heartbeats."""
    policy = identity("primary")
    topics = ("topic1", "backup.topic1", "backup.heartbeats", "heartbeats")
    assert [policy.topic_source(t) for t in topics] == ["primary", "primary", "backup", None]


def test_a_custom_policy_is_called() -> None:
    """Nothing here depends on the format of a name."""

    class Behind(BaseReplicationPolicy):
        """`orders@a` came from a."""

        def topic_source(self, topic: str) -> str | None:
            return topic.rpartition("@")[2] if "@" in topic else None

        def upstream_topic(self, topic: str) -> str | None:
            return topic.rpartition("@")[0] if "@" in topic else None

        def format_remote_topic(self, source_alias: str, topic: str) -> str:
            return f"{topic}@{source_alias}"

    names = ["orders@a", "heartbeats@a@b", "orders"]
    assert remote_topics(Behind(), names) == {"orders@a", "heartbeats@a@b"}
    assert upstream_clusters(Behind(), names) == {"a", "b"}
    assert replication_hops(Behind(), names, "a") == 2
