# SPDX-License-Identifier: Apache-2.0
"""What a cluster's metadata answers say about topics: who leads what, topic ids, errors.

Brokers learn of a new leader one after the other, and any of them may be asked. An answer with an
older leader epoch than a known one of the same topic id is stale and changes nothing. Without
topic ids the last answer counts: a topic that was recreated begins at epoch 0 again.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from sparkmirror.model import TopicPartition


class PartitionLeader(NamedTuple):
    """The broker that leads a partition, and since when."""

    node: int
    leader_epoch: int


class MetadataCache:
    """Filled by `learn`, topic by topic; everything else only reads."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, PartitionLeader] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.topic_names: dict[uuid.UUID, str] = {}
        self.topic_errors: dict[str, int] = {}
        self._epochs: dict[str, dict[int, int]] = {}  # topic -> partition -> newest leader epoch

    def has_response(self, topic: str) -> bool:
        """Whether the cluster has said anything about a topic, an error included."""
        return topic in self._epochs or topic in self.topic_errors

    def is_found(self, topic: str) -> bool:
        """Whether the last answer about a topic was not an error."""
        return topic in self._epochs and topic not in self.topic_errors

    def update(self, topic: Any) -> bool:
        """Take in one topic of a metadata answer; returns whether it says anything new."""
        if topic.error_code:
            return self._learn_error(topic.name, topic.error_code)
        is_news = self.topic_errors.pop(topic.name, None) is not None
        is_news |= topic.name not in self._epochs
        epochs = self._epochs.setdefault(topic.name, {})
        has_id = self._learn_id(topic.name, getattr(topic, "topic_id", None), epochs)
        for part in topic.partitions:
            index = part.partition_index
            if has_id and part.leader_epoch < epochs.get(index, -1):
                continue
            epochs[index] = part.leader_epoch
            tp = TopicPartition(topic.name, index)
            if part.leader_id < 0:
                is_news |= self.leaders.pop(tp, None) is not None
                continue
            leader = PartitionLeader(part.leader_id, part.leader_epoch)
            if self.leaders.get(tp) != leader:
                self.leaders[tp] = leader
                is_news = True
        return is_news

    def _learn_error(self, topic: str, code: int) -> bool:
        is_news = self.topic_errors.get(topic) != code
        self.topic_errors[topic] = code
        for index in self._epochs.get(topic, ()):
            self.leaders.pop(TopicPartition(topic, index), None)
        return is_news

    def _learn_id(self, topic: str, topic_id: uuid.UUID | None, epochs: dict[int, int]) -> bool:
        """Remember the topic's id, if it has one; epochs of another id do not count any more."""
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
