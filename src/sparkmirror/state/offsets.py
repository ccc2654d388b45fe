# SPDX-License-Identifier: Apache-2.0
"""Reads where a flow stands from Connect's offsets topic on the target.

Only reads: positions are written by the tasks, with the records of `state/positions.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.state.positions import positions_from

if TYPE_CHECKING:
    from sparkmirror.kafka.clients import Connection
    from sparkmirror.model import TopicPartition
    from sparkmirror.state.positions import StoredPosition


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """All positions of a connector, and the offsets topic's partition count to write new ones."""

    positions: dict[TopicPartition, StoredPosition]
    partitions: int


class OffsetStore:
    """The stored positions of one connector and source cluster."""

    def __init__(
        self, connection: Connection, topic: str, *, connector: str, source_alias: str
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._connector = connector
        self._source_alias = source_alias

    def read(self, timeout_seconds: float = 60.0) -> StoredPositions:
        """Everything stored; no positions before the first record was mirrored."""
        with TopicLog(self._connection, self._topic) as log:
            positions = positions_from(
                log.read_to_end(timeout_seconds),
                self._connector,
                self._source_alias,
                log.partitions,
            )
            return StoredPositions(positions, log.partitions)
