# SPDX-License-Identifier: Apache-2.0
"""Keys of Connect's offsets topic under which Java's other two connectors store a fixed offset.

    checkpoint  ["<connector name>",{"partition":<n>,"topic":"<remote topic>","group":"<group>"}]
    heartbeat   ["<connector name>",{"sourceClusterAlias":"<A>","targetClusterAlias":"<B>"}]
    value       {"offset":0}

Connect demands an offset of every record; these say nothing and nobody needs them. As for the
source connector, Java looks a key up by its raw bytes, hence the order of fields.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.formats.connect_json import Json, encode
from sparkmirror.model import Flow, TopicPartition

FIXED_OFFSET = encode({"offset": 0})


@dataclass(frozen=True, slots=True)
class CheckpointPartition:
    """What the checkpoint connector stores an offset for; the topic is named as on the target."""

    connector: str
    topic_partition: TopicPartition
    group: str

    def key(self) -> bytes:
        """The record's key, byte for byte as Java writes it."""
        place = self.topic_partition
        fields: dict[str, Json] = {"partition": place.partition, "topic": place.topic}
        return encode([self.connector, fields | {"group": self.group}])


@dataclass(frozen=True, slots=True)
class HeartbeatPartition:
    """What the heartbeat connector stores an offset for."""

    connector: str
    flow: Flow

    def key(self) -> bytes:
        """The record's key, byte for byte as Java writes it."""
        fields: dict[str, Json] = {
            "sourceClusterAlias": self.flow.source,
            "targetClusterAlias": self.flow.target,
        }
        return encode([self.connector, fields])
