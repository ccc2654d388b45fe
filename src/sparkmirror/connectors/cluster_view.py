# SPDX-License-Identifier: Apache-2.0
"""One cluster of a flow as it is, and as other plans would leave it. For planning.

Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.errors import BrokerError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import TopicConfigs, TopicDescription
from sparkmirror.topology.projected_state import ProjectedChanges


class ClusterView:
    """The current and the projected state of one cluster."""

    def __init__(self, client: ClusterClient, changes: ProjectedChanges) -> None:
        self.client = client
        self.admin = ClusterAdmin(client.connection, client)
        self._changes = changes
        self._configs: dict[str, TopicConfigs] = {}
        self._requested: set[str] = set()
        self.cluster_id: str | None = None
        self.brokers = 0
        self.found: dict[str, TopicDescription] = {}
        self.failed: dict[str, BrokerError] = {}

    def read_topics(self) -> None:
        cluster, topics = self.admin.cluster(), self.admin.topics()
        self.cluster_id, self.brokers = cluster.cluster_id, len(cluster.brokers)
        self.found, self.failed = topics.found, topics.failed

    @property
    def topics(self) -> dict[str, TopicDescription]:
        """All current and projected topics."""
        return self._changes.projected_topics(self.found)

    def configs(self, names: Iterable[str]) -> dict[str, TopicConfigs]:
        """Return current or projected configs; reads each topic once."""
        requested = list(names)
        new = [name for name in requested if name in self.found and name not in self._requested]
        if new:
            self._requested.update(new)
            self._configs |= self.admin.topic_configs(new).found
        known = [n for n in requested if n in self._configs or n in self._changes.created]
        return {n: self._changes.projected_configs(n, self._configs.get(n, ())) for n in known}
