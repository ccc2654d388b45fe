# SPDX-License-Identifier: Apache-2.0
"""Finds the positions of partitions that no task copies now. Reads both clusters, writes nothing.

The rules are those of `start_positions`. A position is unknown (None) if the stored one is not
valid for the source topic, or if nothing says where copying would start. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.backlog import initial_offsets, starting_positions
from sparkmirror.connectors.source_topics import MirroredPartition, topic_rules
from sparkmirror.errors import BrokerError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.state.offset_store import StoredPositionReader
from sparkmirror.topology.topics import mirrored_topics, remote_names
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings

_TIMEOUT_SECONDS = 5.0  # an unreachable target must not delay the source's end offsets for longer


class IdlePositions(Closable):
    """The partitions of one flow and their positions, read from Kafka."""

    def __init__(self, settings: FlowSettings, policy: FlowPolicy) -> None:
        self._settings = settings
        self._rules = topic_rules(policy, settings.flow)
        self.source = ClusterClient(_impatient(settings.source_admin))
        self.target = ClusterClient(_impatient(settings.target_admin))
        self.is_state_on_target = settings.state_cluster == settings.target_admin
        self._state = (
            self.target
            if self.is_state_on_target
            else ClusterClient(_impatient(settings.state_cluster))
        )
        self._stored = StoredPositionReader(
            self._state,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        self.source_admin = ClusterAdmin(self.source.connection, self.source)

    def close(self) -> None:
        for client in (self.source, self.target, self._state):
            client.close()

    def partitions(self) -> list[MirroredPartition]:
        """Read the partitions that the flow mirrors; ClusterError."""
        topics = mirrored_topics(self.source_admin.topics().found, self._rules)
        return [
            MirroredPartition(
                TopicPartition(name, index),
                remote,
                str(topics[name].topic_id) if topics[name].topic_id else None,
                None,
            )
            for name, remote in remote_names(topics, self._rules).items()
            for index in range(topics[name].partitions)
        ]

    def positions(self, partitions: list[MirroredPartition]) -> dict[TopicPartition, int | None]:
        """Read where these would be copied next; ClusterError."""
        stored = self._stored_positions()
        new = [one.source for one in partitions if not _is_valid(one, stored.get(one.source))]
        first = self.source_admin.earliest_offsets(new).found if new else {}
        reset = self._settings.fetch.auto_offset_reset
        level = self._settings.fetch.isolation_level
        end = self.source_admin.end_offsets(new, level).found if new and reset == "latest" else {}
        in_group = initial_offsets(self._settings, self.source) if new else {}
        found = starting_positions(
            partitions, stored, first, end, self._settings, in_group=in_group
        )
        return {one.source: found.positions.get(one.source) for one in partitions}

    def _stored_positions(self) -> Mapping[TopicPartition, StoredPosition]:
        """Return the stored positions; none before the flow has created the topic."""
        try:
            return self._stored.read(_TIMEOUT_SECONDS)
        except BrokerError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return {}


def _is_valid(one: MirroredPartition, stored: StoredPosition | None) -> bool:
    return stored is not None and stored.source_topic in (None, one.topic_id)


def _impatient(connection: ConnectionSettings) -> ConnectionSettings:
    return replace(
        connection,
        connect_timeout_seconds=min(connection.connect_timeout_seconds, _TIMEOUT_SECONDS),
        request_timeout_seconds=min(connection.request_timeout_seconds, _TIMEOUT_SECONDS),
    )
