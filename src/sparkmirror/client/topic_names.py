# SPDX-License-Identifier: Apache-2.0
"""What the names of a cluster's topics tell about mirroring, by the rules of its policy.

Heartbeats carry the aliases of all clusters that they passed: `c.b.heartbeats` came from b to c and
from c to here. That is how a cluster knows who is upstream of it, and how far away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparkmirror.policy.replication import ReplicationPolicy

NOT_UPSTREAM = -1  # the number of hops from a cluster that is not upstream


def heartbeat_topics(policy: ReplicationPolicy, names: Iterable[str]) -> set[str]:
    """The topics that hold heartbeats, this cluster's own and mirrored ones."""
    return {name for name in names if policy.is_heartbeats_topic(name)}


def checkpoint_topics(policy: ReplicationPolicy, names: Iterable[str]) -> set[str]:
    """The topics that hold checkpoints."""
    return {name for name in names if policy.is_checkpoints_topic(name)}


def remote_topics(
    policy: ReplicationPolicy, names: Iterable[str], source: str | None = None
) -> set[str]:
    """The topics that were mirrored to this cluster, from `source` in one hop if it is given."""
    found = set()
    for name in names:
        came_from = None if policy.is_internal_topic(name) else policy.topic_source(name)
        if came_from is not None and source in (None, came_from):
            found.add(name)
    return found


def upstream_clusters(policy: ReplicationPolicy, names: Iterable[str]) -> set[str]:
    """All clusters whose heartbeats arrive here, however many hops away."""
    topics = heartbeat_topics(policy, names)
    return {source for topic in topics for source in clusters_on_path(policy, topic)}


def replication_hops(policy: ReplicationPolicy, names: Iterable[str], alias: str) -> int:
    """The number of hops of the shortest way from a cluster to this one; -1 if there is none."""
    counts = (hops_from(policy, topic, alias) for topic in heartbeat_topics(policy, names))
    return min((count for count in counts if count != NOT_UPSTREAM), default=NOT_UPSTREAM)


def hops_from(policy: ReplicationPolicy, topic: str, alias: str) -> int:
    """How many hops a topic is away from a cluster; -1 if it did not pass there."""
    for count, source in enumerate(clusters_on_path(policy, topic), 1):
        if source == alias:
            return count
    return NOT_UPSTREAM


def clusters_on_path(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """The clusters that a topic passed, the last one first; ends where one comes again."""
    seen: set[str] = set()
    upstream: str | None = topic
    while upstream is not None:
        source = policy.topic_source(upstream)
        if source is None or source in seen:
            return
        seen.add(source)
        yield source
        upstream = policy.upstream_topic(upstream)
