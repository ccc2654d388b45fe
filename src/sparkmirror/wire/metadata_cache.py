# SPDX-License-Identifier: Apache-2.0
"""Topic metadata of one cluster: leaders, topic ids and errors.

Requests go to any broker, and brokers learn of a new leader at different times. For a partition of
the same topic id, a response with an older leader epoch is stale and is ignored. Without topic ids
the last response counts, because a recreated topic starts at epoch 0 again.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from sparkmirror.model import TopicPartition


class PartitionLeader(NamedTuple):
    """The node id and leader epoch of a partition's leader."""

    node: int
    leader_epoch: int


class MetadataCache:
    """`update` writes it, topic by topic; all other access is read-only."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, PartitionLeader] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.topic_names: dict[uuid.UUID, str] = {}
        self.topic_errors: dict[str, int] = {}
        self._epochs: dict[str, dict[int, int]] = {}  # topic -> partition -> newest leader epoch

    def has_response(self, topic: str) -> bool:
        """Whether a response described the topic, or had an error for it."""
        return topic in self._epochs or topic in self.topic_errors

    def is_found(self, topic: str) -> bool:
        """Whether the last response described the topic without an error."""
        return topic in self._epochs and topic not in self.topic_errors

    def update(self, topic: Any) -> bool:
        """Process one topic of a metadata response; returns whether anything changed."""
        if topic.error_code:
            return self._set_error(topic.name, topic.error_code)
        is_changed = self.topic_errors.pop(topic.name, None) is not None
        is_changed |= topic.name not in self._epochs
        epochs = self._epochs.setdefault(topic.name, {})
        has_id = self._set_id(topic.name, getattr(topic, "topic_id", None), epochs)
        for part in topic.partitions:
            index = part.partition_index
            if has_id and part.leader_epoch < epochs.get(index, -1):
                continue
            epochs[index] = part.leader_epoch
            tp = TopicPartition(topic.name, index)
            if part.leader_id < 0:
                is_changed |= self.leaders.pop(tp, None) is not None
                continue
            leader = PartitionLeader(part.leader_id, part.leader_epoch)
            if self.leaders.get(tp) != leader:
                self.leaders[tp] = leader
                is_changed = True
        return is_changed

    def _set_error(self, topic: str, code: int) -> bool:
        is_changed = self.topic_errors.get(topic) != code
        self.topic_errors[topic] = code
        for index in self._epochs.get(topic, ()):
            self.leaders.pop(TopicPartition(topic, index), None)
        return is_changed

    def _set_id(self, topic: str, topic_id: uuid.UUID | None, epochs: dict[int, int]) -> bool:
        """Store the topic's id, if it has one; a new id resets the known epochs."""
        if topic_id is None or not topic_id.int:
            return False
        old = self.topic_ids.get(topic)
        if old != topic_id:
            if old is not None:
                self.topic_names.pop(old, None)
                epochs.clear()
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic
        return True
