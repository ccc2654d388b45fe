# SPDX-License-Identifier: Apache-2.0
"""One cluster of a pair as it is read for a plan, and as other plans would leave it.

Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.errors import BrokerError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import TopicConfigs, TopicDescription
from sparkmirror.topology.projected_state import ProjectedChanges


class ClusterView:
    """One cluster as it is, and as it will be."""

    def __init__(self, client: ClusterClient, changes: ProjectedChanges) -> None:
        self.client = client
        self.admin = ClusterAdmin(client.connection, client)
        self._changes = changes
        self._configs: dict[str, TopicConfigs] = {}
        self._asked: set[str] = set()
        self.cluster_id: str | None = None
        self.brokers = 0
        self.found: dict[str, TopicDescription] = {}
        self.refused: dict[str, BrokerError] = {}

    def read_topics(self) -> None:
        """Read its topics."""
        cluster, topics = self.admin.cluster(), self.admin.topics()
        self.cluster_id, self.brokers = cluster.cluster_id, len(cluster.brokers)
        self.found, self.refused = topics.found, topics.failed

    @property
    def topics(self) -> dict[str, TopicDescription]:
        """All topics that there are or will be."""
        return self._changes.projected_topics(self.found)

    def configs(self, names: Iterable[str]) -> dict[str, TopicConfigs]:
        """The configs that topics have or will have; each is asked for once."""
        wanted = list(names)
        new = [name for name in wanted if name in self.found and name not in self._asked]
        if new:
            self._asked.update(new)
            self._configs |= self.admin.topic_configs(new).found
        known = [n for n in wanted if n in self._configs or n in self._changes.created]
        return {n: self._changes.projected_configs(n, self._configs.get(n, ())) for n in known}
