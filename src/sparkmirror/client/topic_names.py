# SPDX-License-Identifier: Apache-2.0
"""Derives mirroring from topic names, by the rules of the replication policy.

Names of heartbeats topics contain the aliases of all clusters on their path: `c.b.heartbeats` came
from b to c and from c to this cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparkmirror.policy.replication import ReplicationPolicy

NOT_UPSTREAM = -1  # the number of hops from a cluster that is not upstream


def heartbeat_topics(policy: ReplicationPolicy, names: Iterable[str]) -> set[str]:
    """Return the heartbeats topics, the cluster's own and mirrored ones."""
    return {name for name in names if policy.is_heartbeats_topic(name)}


def checkpoint_topics(policy: ReplicationPolicy, names: Iterable[str]) -> set[str]:
    return {name for name in names if policy.is_checkpoints_topic(name)}


def remote_topics(
    policy: ReplicationPolicy, names: Iterable[str], source: str | None = None
) -> set[str]:
    """Return the remote topics; with `source` only those mirrored from it in one hop."""
    found = set()
    for name in names:
        origin = None if policy.is_internal_topic(name) else policy.topic_source(name)
        if origin is not None and source in (None, origin):
            found.add(name)
    return found


def upstream_clusters(policy: ReplicationPolicy, names: Iterable[str]) -> set[str]:
    """Return all clusters whose heartbeats arrive here, over any number of hops."""
    topics = heartbeat_topics(policy, names)
    return {source for topic in topics for source in clusters_on_path(policy, topic)}


def replication_hops(policy: ReplicationPolicy, names: Iterable[str], alias: str) -> int:
    """Return the number of hops of the shortest path from a cluster; -1 if there is none."""
    counts = (hops_from(policy, topic, alias) for topic in heartbeat_topics(policy, names))
    return min((count for count in counts if count != NOT_UPSTREAM), default=NOT_UPSTREAM)


def hops_from(policy: ReplicationPolicy, topic: str, alias: str) -> int:
    """Return the number of hops from a cluster to a topic; -1 if it is not on the path."""
    for count, source in enumerate(clusters_on_path(policy, topic), 1):
        if source == alias:
            return count
    return NOT_UPSTREAM


def clusters_on_path(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """Yield the clusters on a topic's path, the last one first; stops at a cycle."""
    seen: set[str] = set()
    upstream: str | None = topic
    while upstream is not None:
        source = policy.topic_source(upstream)
        if source is None or source in seen:
            return
        seen.add(source)
        yield source
        upstream = policy.upstream_topic(upstream)
