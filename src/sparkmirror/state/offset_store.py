# SPDX-License-Identifier: Apache-2.0
"""The positions of a flow in Connect's offsets topic, on the target or the worker's cluster.

The driver reads them and writes the first position of a topic partition. Tasks write all others,
with the records of `state/position_records.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkmirror.formats.connect_json import encode
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.state.offset_resets import OffsetReset, parse_resets, reset_owner
from sparkmirror.state.position_records import parse_positions, position_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sparkmirror.kafka.cluster_client import ClusterClient
    from sparkmirror.kafka.log_records import LogRecord
    from sparkmirror.model import TopicPartition
    from sparkmirror.wire.settings import ConnectionSettings


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """All positions and requested resets of a connector; the offsets topic's partition count."""

    positions: dict[TopicPartition, StoredPosition]
    partitions: int
    resets: dict[TopicPartition, OffsetReset] = field(default_factory=dict)  # also refused ones


class OffsetStore:
    """The stored positions of one connector and source cluster."""

    def __init__(
        self, connection: ConnectionSettings, topic: str, *, connector: str, source_alias: str
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._connector = connector
        self._source_alias = source_alias

    def read(self, timeout_seconds: float = 60.0) -> StoredPositions:
        """Read all positions. The topic is read to its high watermark, committed records only.

        The last stable offset would hide positions behind another client's open transaction.
        """
        requests: list[LogRecord] = []
        prefix = encode([reset_owner(self._connector)])[:-1]

        def collect_requests(records: Iterable[LogRecord]) -> Iterator[LogRecord]:
            for record in records:
                if record.key is not None and record.key.startswith(prefix):
                    requests.append(record)
                else:
                    yield record

        with TopicLog(self._connection, self._topic) as log:
            positions = parse_positions(
                collect_requests(log.read_to_end(timeout_seconds)),
                self._connector,
                self._source_alias,
                log.partitions,
            )
            resets = parse_resets(requests, self._connector, self._source_alias)
            return StoredPositions(positions, log.partitions, resets)

    def write(self, positions: Mapping[TopicPartition, StoredPosition | None]) -> None:
        """Store positions, or delete them (None). Blocks until all replicas have them."""
        with TopicLog(self._connection, self._topic) as log:
            by_partition: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
            for tp, stored in positions.items():
                record = position_record(
                    self._connector, self._source_alias, tp, stored, log.partitions
                )
                by_partition.setdefault(record.partition, []).append((record.key, record.value))
            log.append(by_partition)

    def write_resets(self, resets: Mapping[TopicPartition, OffsetReset | None]) -> None:
        """Request resets, or delete requests (None). Blocks until all replicas have them."""
        with TopicLog(self._connection, self._topic) as log:
            by_partition: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
            for tp, one in resets.items():
                owner = reset_owner(self._connector)
                key = SourceOffsetKey(owner, self._source_alias, tp).key()
                where = partition_for_key(key, log.partitions)
                by_partition.setdefault(where, []).append((key, one.value() if one else None))
            log.append(by_partition)


class StoredPositionReader:
    """Follows the stored positions of one connector: each `read` fetches only what is new.

    The caller closes the client. Not thread-safe.
    """

    def __init__(
        self, client: ClusterClient, topic: str, *, connector: str, source_alias: str
    ) -> None:
        self._log = TopicLog(client.connection, topic, client=client)
        self._connector = connector
        self._source_alias = source_alias
        self._since: dict[TopicPartition, int] = {}
        self._positions: dict[TopicPartition, StoredPosition] = {}

    def read(self, timeout_seconds: float) -> Mapping[TopicPartition, StoredPosition]:
        """Return all positions as they are now."""
        with self._log as log:
            if log.was_replaced(self._since):
                self._since.clear()
                self._positions.clear()
            since = dict(self._since)  # kept if the read fails halfway
            records = list(log.read_to_end(timeout_seconds, since))
            changed = parse_positions(records, self._connector, self._source_alias, log.partitions)
        self._since = since
        for record in records:
            named = SourceOffsetKey.from_key(record.key) if record.key is not None else None
            if named is not None and self._is_ours(named):
                self._positions.pop(named.topic_partition, None)  # deleted, unless in `changed`
        self._positions |= changed
        return self._positions

    def _is_ours(self, named: SourceOffsetKey) -> bool:
        return named.connector == self._connector and named.cluster == self._source_alias
