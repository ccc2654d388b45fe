# SPDX-License-Identifier: Apache-2.0
"""Detects recreated topics by their ids. Pure.

A stored position belongs to the topics it was made with. In a recreated topic the same offset is
another record, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import Incident, IncidentKind


@dataclass(frozen=True, slots=True)
class RecreatedPartition:
    """A topic partition whose stored position belongs to a deleted topic."""

    mirrored: MirroredPartition
    stored: StoredPosition
    kind: IncidentKind  # SOURCE_RECREATED or TARGET_RECREATED
    policy: str

    def incident(self, target: str, time_ms: int) -> Incident:
        """Create the incident; its offset is the next one that would have been copied."""
        if self.kind is IncidentKind.SOURCE_RECREATED:
            cause = "copying starts at the beginning of the new topic, after the old records"
        else:
            cause = f"{target}: {self.mirrored.remote_topic}: the records copied before are lost"
        tp, offset = self.mirrored.source, self.stored.offset + 1
        return Incident(
            self.kind, tp.topic, tp.partition, offset, offset, -1, cause, time_ms, self.policy
        )


def find_recreated(
    mirrored: Iterable[MirroredPartition],
    stored: Mapping[TopicPartition, StoredPosition],
    policies: IncidentPolicies,
) -> list[RecreatedPartition]:
    """Return the partitions whose source or remote topic has another id than stored.

    A recreated source topic under policy `stop` is not included: its task detects it and waits.
    """
    found: list[RecreatedPartition] = []
    for one in mirrored:
        position = stored.get(one.source)
        if position is None:
            continue
        if position.source_topic not in (None, one.topic_id):
            if policies.source_recreated == "restart":
                found.append(
                    RecreatedPartition(one, position, IncidentKind.SOURCE_RECREATED, "restart")
                )
        elif one.target_topic_id and position.target_topic not in (None, one.target_topic_id):
            policy = policies.target_recreated
            found.append(RecreatedPartition(one, position, IncidentKind.TARGET_RECREATED, policy))
    return found
