# SPDX-License-Identifier: Apache-2.0
"""Answers about one cluster that mirroring flows into: who is upstream, where groups may go on.

What Java's MirrorClient answers, from the same topics. A `MirrorClient` belongs to one thread.
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

log = logging.getLogger(__name__)

_CHECKPOINTS_PARTITION = 0


class MirrorClient(Closable):
    """Connects at the first question; a context manager that closes what it opened.

    `properties` are those of Java's MirrorClientConfig: `bootstrap.servers`, the replication
    policy's keys, security keys, `admin.` and `consumer.` in front of those for one client only.
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
        """A client for one cluster of an MM2 properties file."""
        _require_text("path", str(path or ""))
        _require_text("alias", alias)
        return cls(MirrorConfig.load(Path(path)).client_settings(alias))

    def close(self) -> None:
        """Closes the connections; a later question would open them again."""
        self._admin.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """The policy that tells by a topic's name where it came from."""
        return self._policy

    def heartbeat_topics(self) -> set[str]:
        """The topics that hold heartbeats, this cluster's own and mirrored ones."""
        return topic_names.heartbeat_topics(self._policy, self._topics())

    def checkpoint_topics(self) -> set[str]:
        """The topics that hold checkpoints."""
        return topic_names.checkpoint_topics(self._policy, self._topics())

    def upstream_clusters(self) -> set[str]:
        """All clusters whose heartbeats arrive here, however many hops away."""
        return topic_names.upstream_clusters(self._policy, self._topics())

    def remote_topics(self, source: str | None = None) -> set[str]:
        """The topics that were mirrored to here, from `source` in one hop if it is given."""
        return topic_names.remote_topics(self._policy, self._topics(), source)

    def replication_hops(self, alias: str) -> int:
        """The number of hops of the shortest way from a cluster to here; -1 if there is none."""
        _require_text("alias", alias)
        return topic_names.replication_hops(self._policy, self._topics(), alias)

    def remote_consumer_offsets(
        self,
        group_or_pattern: str | re.Pattern[str],
        remote_alias: str,
        timeout_seconds: float = 60.0,
    ) -> GroupOffsets:
        """Where groups of cluster `remote_alias` may go on here, by group and partition.

        A text is one group's name; a compiled pattern must match a name as a whole. Groups that
        have no checkpoint are not in the answer. Checkpoints are read as Java reads them, those
        of open transactions included; unlike Java's the answer is complete, or
        `UnreachableError` if that takes longer than `timeout_seconds`.
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
                f"Topic '{topic}' of cluster '{self._consumer.alias}' holds {found.malformed} "
                f"records that are no checkpoints; they were passed over. The first one is "
                f"{found.first_malformed}"
            )
        return found.offsets

    def translate(
        self, topic: str, partition: int, offset: int, remote_alias: str | None = None
    ) -> Translation | None:
        """Where a record of a cluster upstream lies here: for any offset, not only committed ones.

        `topic` is the upstream cluster's name for it. Its `fit` says how good the answer is: exact,
        before (the copy began later), after (not copied yet), near. None if nothing of the topic
        partition was mirrored. `remote_alias` may be left out if one cluster only is mirrored here.
        """
        return self._map(remote_alias).to_target(
            _topic_partition(topic, partition), _offset(offset)
        )

    def translate_back(
        self, topic: str, partition: int, offset: int, remote_alias: str | None = None
    ) -> Translation | None:
        """Where a record of a remote topic here lies upstream; `topic` is the name upstream."""
        return self._map(remote_alias).to_source(
            _topic_partition(topic, partition), _offset(offset)
        )

    def _map(self, remote_alias: str | None) -> MapTopic:
        """The offset map, read as far as it goes now."""
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
        """All topics that we may see, without Kafka's own; one with a problem is there as well."""
        answers = self._admin.topics()
        named = {name for name, topic in answers.found.items() if not topic.is_internal}
        return named | answers.failed.keys()

    def _too_slow(self, topic: str, timeout_seconds: float) -> UnreachableError:
        alias = self._consumer.alias
        return UnreachableError(
            f"Cluster '{alias}' did not deliver all of topic '{topic}' within "
            f"{timeout_seconds:g} s. Allow more time, or check that its brokers are well.",
            cluster=alias,
        )


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"{name} must be a text that is not empty, and is {value!r}.")


def _require_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float) or value < 0:
        raise ArgumentError(f"{name} must be a number of seconds from 0 on, and is {value!r}.")


def _topic_partition(topic: str, partition: int) -> TopicPartition:
    _require_text("topic", topic)
    return TopicPartition(topic, _offset(partition, "partition"))


def _offset(number: int, name: str = "offset") -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ArgumentError(f"{name} must be a whole number, 0 or more, not {number!r}.")
    return number
