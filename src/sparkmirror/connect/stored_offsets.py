# SPDX-License-Identifier: Apache-2.0
"""The stored offsets of a connector, as Connect's offsets topic has them.

The topic is on the worker's cluster; for an exactly-once connector it is on the target.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connect.offset_alterations import OffsetRecord
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.kafka.topic_log import KeyValue, TopicLog

_SECONDS = 30.0
JsonObject = Mapping[str, Json]


class ConnectorOffsetStore:
    """The offsets of one connector; opens a connection for each call."""

    def __init__(self, connector: str, settings: FlowSettings) -> None:
        self._connector = connector
        self._connection = settings.state_cluster
        self._topic = settings.internal_topics.offsets

    def read(self) -> list[tuple[JsonObject, JsonObject]]:
        """Return every partition with its offset, sorted by key."""
        return [
            (partition, offset)
            for _, (partition, offset) in sorted(self._latest().items())
            if offset is not None
        ]

    def write(self, changes: Sequence[OffsetRecord]) -> None:
        """Set offsets, or delete them; returns when every replica has them."""
        with TopicLog(self._connection, self._topic) as log:
            by_partition: dict[int, list[KeyValue]] = {}
            for one in changes:
                where = partition_for_key(one.key, log.partitions)
                by_partition.setdefault(where, []).append((one.key, one.value))
            log.append(by_partition)

    def delete(self) -> None:
        """Delete all of them."""
        self.write([OffsetRecord(key, None) for key, one in self._latest().items() if one[1]])

    def _latest(self) -> dict[bytes, tuple[JsonObject, JsonObject | None]]:
        found: dict[bytes, tuple[JsonObject, JsonObject | None]] = {}
        with TopicLog(self._connection, self._topic) as log:
            for record in log.read_to_end(_SECONDS):
                partition = self._partition(record.key)
                if partition is None or record.key is None:
                    continue
                found[record.key] = (partition, _fields(record.value))
        return found

    def _partition(self, key: bytes | None) -> JsonObject | None:
        """Return the partition of a key [name, {...}] of this connector, else None."""
        try:
            parts = json.loads(key or b"null")
        except ValueError:
            return None
        match parts:
            case [name, dict() as partition] if name == self._connector:
                return partition
        return None


def _fields(value: bytes | None) -> JsonObject | None:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
