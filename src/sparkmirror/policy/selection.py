# SPDX-License-Identifier: Apache-2.0
"""Which source topics a flow copies, and which would go round in circles."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.model import Flow
from sparkmirror.policy.filters import TopicFilter
from sparkmirror.policy.replication import IdentityReplicationPolicy, ReplicationPolicy


@dataclass(frozen=True, slots=True)
class Selection:
    """The choice of topics for one flow."""

    flow: Flow
    policy: ReplicationPolicy
    topic_filter: TopicFilter
    heartbeats_replication_enabled: bool = True

    def replicate(self, topic: str) -> bool:
        """Whether the flow copies this topic of its source."""
        wanted = self.topic_filter.should_replicate_topic(topic) or (
            self.heartbeats_replication_enabled and self.policy.is_heartbeats_topic(topic)
        )
        return wanted and not self.policy.is_internal_topic(topic) and not self.is_cycle(topic)

    def is_cycle(self, topic: str) -> bool:
        """Whether the topic has already been on the target, or came from this source before."""
        came_from = self.policy.topic_source(topic)
        if came_from is None:
            return False
        keeps_names = isinstance(self.policy, IdentityReplicationPolicy)
        if came_from == self.flow.target or (came_from == self.flow.source and not keeps_names):
            return True
        upstream = self.policy.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.is_cycle(upstream)
