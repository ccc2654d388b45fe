# SPDX-License-Identifier: Apache-2.0
"""Heartbeat: a sign of life of one pair of clusters, in the heartbeats topic.

    key    source alias STRING | target alias STRING
    value  version INT16 = 0 | timestamp INT64 (milliseconds since 1970)

The version stands in the value only.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.formats.primitives import FieldReader, pack_int16, pack_int64, pack_string
from sparkmirror.model import Flow

_VERSION = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The moment at which a pair's heartbeat was written on the target."""

    flow: Flow
    timestamp_ms: int

    def key(self) -> bytes:
        """The record's key."""
        return pack_string(self.flow.source) + pack_string(self.flow.target)

    def value(self) -> bytes:
        """The record's value."""
        return pack_int16(_VERSION) + pack_int64(self.timestamp_ms)

    @classmethod
    def from_record(cls, key: bytes, value: bytes) -> Heartbeat:
        """The heartbeat that a record holds."""
        key_fields = FieldReader(key, "The key of a heartbeat")
        value_fields = FieldReader(value, "The value of a heartbeat")
        value_fields.version(_VERSION)
        return cls(Flow(key_fields.string(), key_fields.string()), value_fields.int64())
