# SPDX-License-Identifier: Apache-2.0
"""Queries for programs that need only one: each opens a client, uses it and closes it.

Corresponds to Java's RemoteClusterUtils. For several queries use one `MirrorClient`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkmirror.client.checkpoints import GroupOffsets
from sparkmirror.client.mirror_client import MirrorClient


def replication_hops(properties: Mapping[str, object], alias: str) -> int:
    """Return the number of hops of the shortest path from cluster `alias`; -1 if there is none."""
    with MirrorClient(properties) as client:
        return client.replication_hops(alias)


def heartbeat_topics(properties: Mapping[str, object]) -> set[str]:
    """Return the heartbeats topics, the cluster's own and mirrored ones."""
    with MirrorClient(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: Mapping[str, object]) -> set[str]:
    """Return the checkpoints topics."""
    with MirrorClient(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: Mapping[str, object]) -> set[str]:
    """Return all clusters whose heartbeats arrive here, over any number of hops."""
    with MirrorClient(properties) as client:
        return client.upstream_clusters()


def translate_offsets(
    properties: Mapping[str, object],
    remote_alias: str,
    group_or_pattern: str | re.Pattern[str],
    timeout_seconds: float = 60.0,
) -> GroupOffsets:
    """Return the translated offsets of groups; see `MirrorClient.remote_consumer_offsets`."""
    with MirrorClient(properties) as client:
        return client.remote_consumer_offsets(group_or_pattern, remote_alias, timeout_seconds)
