# SPDX-License-Identifier: Apache-2.0
"""A connector's stored offsets, for a client of the REST API: as Connect's offsets topic has them.

They are on the worker's cluster; those of an exactly-once connector are where its records go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sparkmirror.config.connector_offsets import OffsetChange
from sparkmirror.config.settings import FlowSettings
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.murmur2 import partition_for
from sparkmirror.kafka.topic_log import KeyValue, TopicLog

_SECONDS = 30.0
Fields = Mapping[str, Json]


class StoredOffsets:
    """Those of one connector; opens a connection for each call."""

    def __init__(self, connector: str, settings: FlowSettings) -> None:
        self._connector = connector
        self._connection = settings.state
        self._topic = settings.internal_topics.offsets

    def read(self) -> list[tuple[Fields, Fields]]:
        """Every partition with its offset, in the order of their keys."""
        return [
            (partition, offset)
            for _, (partition, offset) in sorted(self._latest().items())
            if offset is not None
        ]

    def write(self, changes: Sequence[OffsetChange]) -> None:
        """Set offsets, or delete them; returns when every replica has them."""
        with TopicLog(self._connection, self._topic) as log:
            by_partition: dict[int, list[KeyValue]] = {}
            for one in changes:
                where = partition_for(one.key, log.partitions)
                by_partition.setdefault(where, []).append((one.key, one.value))
            log.append(by_partition)

    def delete(self) -> None:
        """Forget all of them."""
        self.write([OffsetChange(key, None) for key, one in self._latest().items() if one[1]])

    def _latest(self) -> dict[bytes, tuple[Fields, Fields | None]]:
        found: dict[bytes, tuple[Fields, Fields | None]] = {}
        with TopicLog(self._connection, self._topic) as log:
            for record in log.read_to_end(_SECONDS):
                partition = self._partition(record.key)
                if partition is None or record.key is None:
                    continue
                found[record.key] = (partition, _fields(record.value))
        return found

    def _partition(self, key: bytes | None) -> Fields | None:
        """Of this connector's keys: [name, {...}]."""
        try:
            parts = json.loads(key or b"null")
        except ValueError:
            return None
        match parts:
            case [name, dict() as partition] if name == self._connector:
                return partition
        return None


def _fields(value: bytes | None) -> Fields | None:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
