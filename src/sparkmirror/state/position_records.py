# SPDX-License-Identifier: Apache-2.0
"""Encodes positions as records of Connect's offsets topic, and decodes them. Pure functions.

Tasks on executors write these records, so nothing here imports a client or Spark. The stored offset
is that of the last mirrored record; a task resumes at the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from sparkmirror.errors import WireError
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkmirror.model import TopicPartition


class PositionRecord(NamedTuple):
    """A record for the offsets topic and its partition."""

    key: bytes
    value: bytes | None
    partition: int


class KeyedRecord(Protocol):
    """A record as read from the offsets topic."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def partition(self) -> int: ...


def position_record(
    connector: str,
    cluster: str,
    topic_partition: TopicPartition,
    position: StoredPosition | None,
    partitions: int,
) -> PositionRecord:
    """Encode a position; None deletes it.

    `cluster` is the source's alias, `partitions` the offsets topic's partition count.
    """
    key = SourceOffsetKey(connector, cluster, topic_partition).key()
    value = None if position is None else position.value()
    return PositionRecord(key, value, partition_for_key(key, partitions))


def parse_positions(
    records: Iterable[KeyedRecord], connector: str, cluster: str, partitions: int
) -> dict[TopicPartition, StoredPosition]:
    """Return the latest position of every source partition of one connector and source cluster.

    A key may also be in a partition to which it does not hash (the topic was grown, or another
    hash was used). Then only the record in Java's partition counts.
    """
    latest: dict[bytes, bytes | None] = {}
    strays: dict[bytes, bytes | None] = {}
    for record in records:
        if record.key is not None:
            is_home = partition_for_key(record.key, partitions) == record.partition
            (latest if is_home else strays)[record.key] = record.value
    positions: dict[TopicPartition, StoredPosition] = {}
    for key, value in (strays | latest).items():
        named = SourceOffsetKey.from_key(key)
        if value is None or named is None:
            continue
        if named.connector == connector and named.cluster == cluster:
            positions[named.topic_partition] = _position(named, value)
    return positions


def _position(named: SourceOffsetKey, value: bytes) -> StoredPosition:
    try:
        return StoredPosition.from_value(value)
    except WireError as error:
        raise WireError(
            f"Cannot read the stored position of {named.topic_partition} of cluster "
            f"'{named.cluster}': {error} Guessing would lose or repeat records: write a valid "
            f"offset, or delete the record."
        ) from error
