# SPDX-License-Identifier: Apache-2.0
"""Queries about one cluster that is a mirroring target: upstream clusters, group offsets.

Provides what Java's MirrorClient provides, from the same topics. Not thread-safe.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from sparkmirror.client import topic_names
from sparkmirror.client.checkpoints import GroupOffsets, LatestCheckpoints, parse_group_argument
from sparkmirror.config.mirror_client_config import read_client_properties
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import MirrorClientSettings
from sparkmirror.errors import ArgumentError, UnreachableError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Translation
from sparkmirror.policy.loading import load_replication_policy
from sparkmirror.policy.replication import ReplicationPolicy
from sparkmirror.policy.sparkmirror_topics import OFFSET_MAP, offset_map_topic
from sparkmirror.quantities import counted

log = logging.getLogger(__name__)

_CHECKPOINTS_PARTITION = 0


class MirrorClient(Closable):
    """Connects on first use; a context manager that closes its connections.

    `properties` are those of Java's MirrorClientConfig: `bootstrap.servers`, the replication
    policy's keys, security keys; prefix `admin.` or `consumer.` for one client only.
    Every error is a `SparkmirrorError` that names the cluster.
    """

    def __init__(self, properties: Mapping[str, object] | MirrorClientSettings) -> None:
        if not isinstance(properties, MirrorClientSettings):
            properties = read_client_properties(properties)
        naming = properties.naming
        self._policy = load_replication_policy(naming, naming.options)
        self._consumer = properties.consumer
        self._client = ClusterClient(properties.admin)
        self._admin = ClusterAdmin(properties.admin, self._client)
        self._maps: dict[str, MapTopic] = {}

    @classmethod
    def from_file(cls, path: str | Path, alias: str) -> Self:
        """Create a client for one cluster of an MM2 properties file."""
        _require_text("path", str(path or ""))
        _require_text("alias", alias)
        return cls(MirrorConfig.load(Path(path)).client_settings(alias))

    def close(self) -> None:
        """Close the connections. Later calls open them again."""
        self._admin.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """The policy that derives a topic's source from its name."""
        return self._policy

    def heartbeat_topics(self) -> set[str]:
        """Return the heartbeats topics, the cluster's own and mirrored ones."""
        return topic_names.heartbeat_topics(self._policy, self._topics())

    def checkpoint_topics(self) -> set[str]:
        """Return the checkpoints topics."""
        return topic_names.checkpoint_topics(self._policy, self._topics())

    def upstream_clusters(self) -> set[str]:
        """Return all clusters whose heartbeats arrive here, over any number of hops."""
        return topic_names.upstream_clusters(self._policy, self._topics())

    def remote_topics(self, source: str | None = None) -> set[str]:
        """Return the remote topics; with `source` only those mirrored from it in one hop."""
        return topic_names.remote_topics(self._policy, self._topics(), source)

    def replication_hops(self, alias: str) -> int:
        """Return the number of hops of the shortest path from a cluster; -1 if there is none."""
        _require_text("alias", alias)
        return topic_names.replication_hops(self._policy, self._topics(), alias)

    def remote_consumer_offsets(
        self,
        group_or_pattern: str | re.Pattern[str],
        remote_alias: str,
        timeout_seconds: float = 60.0,
    ) -> GroupOffsets:
        """Return translated offsets of groups of cluster `remote_alias`, by group and partition.

        A string is one group's name; a compiled pattern must match the whole name. Groups without a
        checkpoint are missing from the result. As in Java, checkpoints of open transactions count.
        Unlike Java's, the result is complete; raises `UnreachableError` if that takes longer than
        `timeout_seconds`.
        """
        _require_text("remote_alias", remote_alias)
        _require_seconds("timeout_seconds", timeout_seconds)
        found = LatestCheckpoints(parse_group_argument(group_or_pattern))
        topic = self._policy.checkpoints_topic(remote_alias)
        deadline = time.monotonic() + timeout_seconds
        with TopicLog(self._consumer, topic, "read_uncommitted") as checkpoints:
            for record in checkpoints.read_to_end(timeout_seconds):
                if record.partition == _CHECKPOINTS_PARTITION:
                    found.add(record)
                if time.monotonic() > deadline:
                    raise self._too_slow(topic, timeout_seconds)
        if found.malformed:
            log.warning(
                f"Skipped {counted(found.malformed, 'record')} in topic '{topic}' of cluster "
                f"'{self._consumer.alias}' without a valid checkpoint; the first one "
                f"{found.first_malformed}"
            )
        return found.offsets

    def translate(
        self, topic: str, partition: int, offset: int, remote_alias: str | None = None
    ) -> Translation | None:
        """Translate any offset of an upstream cluster to this cluster.

        `topic` is the name on the upstream cluster. `fit` of the result is its precision:
        exact, before (copying started later), after (not copied yet), near. Returns None if nothing
        of the topic partition was mirrored. `remote_alias` is optional if only one cluster is
        mirrored here.

        Uses the offset map on this cluster only. For a topic that also flows back under the same
        name, use `remote_consumer_offsets` or `sparkmirror offsets translate`: a position on a
        record that came from this cluster is known only to the map on the upstream cluster.
        """
        return self._map(remote_alias).to_target(
            _topic_partition(topic, partition), _offset(offset)
        )

    def translate_back(
        self, topic: str, partition: int, offset: int, remote_alias: str | None = None
    ) -> Translation | None:
        """Translate an offset of a remote topic back; `topic` is the name upstream."""
        return self._map(remote_alias).to_source(
            _topic_partition(topic, partition), _offset(offset)
        )

    def _map(self, remote_alias: str | None) -> MapTopic:
        """Return the offset map, refreshed."""
        topic = self._map_topic(remote_alias)
        if topic not in self._maps:
            self._maps[topic] = MapTopic(self._client, topic)
        self._maps[topic].refresh()
        return self._maps[topic]

    def _map_topic(self, remote_alias: str | None) -> str:
        if remote_alias is not None:
            _require_text("remote_alias", remote_alias)
            return offset_map_topic(self._policy, remote_alias)
        found = sorted(name for name in self._topics() if name.startswith(OFFSET_MAP))
        if len(found) != 1:
            raise ArgumentError(
                f"remote_alias must be given: this cluster has {len(found)} offset maps"
                f"{' (' + ', '.join(found) + ')' if found else ''}."
            )
        return found[0]

    def _topics(self) -> set[str]:
        """All visible topics except Kafka's own, including those whose description failed."""
        results = self._admin.topics()
        named = {name for name, topic in results.found.items() if not topic.is_internal}
        return named | results.failed.keys()

    def _too_slow(self, topic: str, timeout_seconds: float) -> UnreachableError:
        alias = self._consumer.alias
        return UnreachableError(
            f"Cluster '{alias}' did not deliver all of topic '{topic}' within "
            f"{timeout_seconds:g} s. Raise the timeout, or check the brokers.",
            cluster=alias,
        )


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"{name} must be a non-empty string, not {value!r}.")


def _require_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float) or value < 0:
        raise ArgumentError(f"{name} must be a number of seconds, 0 or more, not {value!r}.")


def _topic_partition(topic: str, partition: int) -> TopicPartition:
    _require_text("topic", topic)
    return TopicPartition(topic, _offset(partition, "partition"))


def _offset(number: int, name: str = "offset") -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ArgumentError(f"{name} must be an integer, 0 or more, not {number!r}.")
    return number
