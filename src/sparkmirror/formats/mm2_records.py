# SPDX-License-Identifier: Apache-2.0
"""The binary records of MM2: checkpoints, heartbeats and offset syncs.

Checkpoint: a consumer group's position on both clusters, in the checkpoints topic.

    key    group STRING | topic STRING (target side) | partition INT32
    value  version INT16 = 0 | upstream offset INT64 | downstream offset INT64 | metadata STRING

Only the value has a version; missing metadata is the empty string.

Heartbeat: proves that a flow is alive, in the heartbeats topic.

    key    source alias STRING | target alias STRING
    value  version INT16 = 0 | timestamp INT64 (milliseconds since 1970)

Only the value has a version.

OffsetSync: two corresponding offsets of a source partition, in the offset-syncs topic.

    key    topic STRING (source side) | partition INT32
    value  upstream offset INT64 | downstream offset INT64

Neither key nor value has a version.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.formats.primitives import (
    FieldReader,
    pack_int16,
    pack_int32,
    pack_int64,
    pack_string,
)
from sparkmirror.model import Flow, TopicPartition

_VERSION = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset and its translation; the topic is named as on the target."""

    group: str
    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        return (
            pack_string(self.group)
            + pack_string(self.topic_partition.topic)
            + pack_int32(self.topic_partition.partition)
        )

    def value(self) -> bytes:
        return (
            pack_int16(_VERSION)
            + pack_int64(self.upstream_offset)
            + pack_int64(self.downstream_offset)
            + pack_string(self.metadata)
        )

    @classmethod
    def from_record(cls, key: bytes, value: bytes) -> Checkpoint:
        group, topic_partition = cls.parse_key(key)
        value_fields = FieldReader(value, "The value of a checkpoint")
        value_fields.version(_VERSION)
        return cls(
            group=group,
            topic_partition=topic_partition,
            upstream_offset=value_fields.int64(),
            downstream_offset=value_fields.int64(),
            metadata=value_fields.string(),
        )

    @staticmethod
    def parse_key(key: bytes) -> tuple[str, TopicPartition]:
        """Return the group and partition of a key; a deletion has nothing else."""
        fields = FieldReader(key, "The key of a checkpoint")
        return fields.string(), TopicPartition(fields.string(), fields.int32())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """When a flow's heartbeat was written on the target."""

    flow: Flow
    timestamp_ms: int

    def key(self) -> bytes:
        return pack_string(self.flow.source) + pack_string(self.flow.target)

    def value(self) -> bytes:
        return pack_int16(_VERSION) + pack_int64(self.timestamp_ms)

    @classmethod
    def from_record(cls, key: bytes, value: bytes) -> Heartbeat:
        key_fields = FieldReader(key, "The key of a heartbeat")
        value_fields = FieldReader(value, "The value of a heartbeat")
        value_fields.version(_VERSION)
        return cls(Flow(key_fields.string(), key_fields.string()), value_fields.int64())


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Upstream and downstream offset of one mirrored record."""

    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        return pack_string(self.topic_partition.topic) + pack_int32(self.topic_partition.partition)

    def value(self) -> bytes:
        return pack_int64(self.upstream_offset) + pack_int64(self.downstream_offset)

    @classmethod
    def from_record(cls, key: bytes, value: bytes) -> OffsetSync:
        key_fields = FieldReader(key, "The key of an offset sync")
        value_fields = FieldReader(value, "The value of an offset sync")
        return cls(
            TopicPartition(key_fields.string(), key_fields.int32()),
            upstream_offset=value_fields.int64(),
            downstream_offset=value_fields.int64(),
        )
