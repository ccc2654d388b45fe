# SPDX-License-Identifier: Apache-2.0
"""Where a topic is: its id, which a topic created anew does not share, and who leads what."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from sparkmirror.kafka.cluster_client import LEADER_NOT_AVAILABLE, ClusterClient
from sparkmirror.model import TopicPartition

_NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """What a broker said about one topic; good until somebody answers that it is not so."""

    topic: str
    topic_id: uuid.UUID | None  # brokers before Kafka 2.8 have none
    leaders: tuple[int, ...]  # of each partition; -1 where there is none just now

    @property
    def partitions(self) -> list[TopicPartition]:
        """All of them."""
        return [TopicPartition(self.topic, index) for index in range(len(self.leaders))]

    @property
    def is_served(self) -> bool:
        """Whether every partition has a leader."""
        return _NO_LEADER not in self.leaders

    def by_leader(self, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Those of the partitions that have a leader, by it."""
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in wanted:
            leader = self.leaders[tp.partition]
            if leader != _NO_LEADER:
                found[leader].append(tp)
        return found


def find_topic(client: ClusterClient, topic: str) -> TopicPlace:
    """Ask any broker; BrokerError if we have no such topic, KafkaError if nobody answers."""
    (found,) = client.metadata([topic]).topics
    if found.error_code not in (0, LEADER_NOT_AVAILABLE):
        raise client.error("describing a topic", found.error_code, topic)
    leaders = {one.partition_index: one.leader_id for one in found.partitions}
    return TopicPlace(
        topic,
        found.topic_id if found.topic_id is not None and found.topic_id.int else None,
        tuple(leaders.get(index, _NO_LEADER) for index in range(len(leaders))),
    )
