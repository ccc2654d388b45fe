# SPDX-License-Identifier: Apache-2.0
"""One question each, for programs that ask once: a client is opened, asked and closed.

What Java offers as RemoteClusterUtils. A program with several questions makes a `MirrorClient`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkmirror.client.checkpoints import GroupOffsets
from sparkmirror.client.mirror_client import MirrorClient


def replication_hops(properties: Mapping[str, object], alias: str) -> int:
    """The number of hops of the shortest way from cluster `alias`; -1 if there is none."""
    with MirrorClient(properties) as client:
        return client.replication_hops(alias)


def heartbeat_topics(properties: Mapping[str, object]) -> set[str]:
    """The topics that hold heartbeats, the cluster's own and mirrored ones."""
    with MirrorClient(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: Mapping[str, object]) -> set[str]:
    """The topics that hold checkpoints."""
    with MirrorClient(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: Mapping[str, object]) -> set[str]:
    """All clusters whose heartbeats arrive at this one, however many hops away."""
    with MirrorClient(properties) as client:
        return client.upstream_clusters()


def translate_offsets(
    properties: Mapping[str, object],
    remote_alias: str,
    group_or_pattern: str | re.Pattern[str],
    timeout_seconds: float = 60.0,
) -> GroupOffsets:
    """Where groups of cluster `remote_alias` may go on; see `remote_consumer_offsets`."""
    with MirrorClient(properties) as client:
        return client.remote_consumer_offsets(group_or_pattern, remote_alias, timeout_seconds)
