# SPDX-License-Identifier: Apache-2.0
"""OffsetSync: one pair of offsets of a source partition, in the offset-syncs topic.

    key    topic STRING (source side) | partition INT32
    value  upstream offset INT64 | downstream offset INT64

Neither part carries a version.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.formats.primitives import FieldReader, pack_int32, pack_int64, pack_string
from sparkmirror.model import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Upstream and downstream offset of one mirrored record."""

    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        """The record's key."""
        return pack_string(self.topic_partition.topic) + pack_int32(self.topic_partition.partition)

    def value(self) -> bytes:
        """The record's value."""
        return pack_int64(self.upstream_offset) + pack_int64(self.downstream_offset)

    @classmethod
    def from_record(cls, key: bytes, value: bytes) -> OffsetSync:
        """The sync that a record holds."""
        key_fields = FieldReader(key, "The key of an offset sync")
        value_fields = FieldReader(value, "The value of an offset sync")
        return cls(
            TopicPartition(key_fields.string(), key_fields.int32()),
            upstream_offset=value_fields.int64(),
            downstream_offset=value_fields.int64(),
        )
