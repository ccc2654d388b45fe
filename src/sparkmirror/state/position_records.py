# SPDX-License-Identifier: Apache-2.0
"""Positions as records of Connect's offsets topic, and back: pure functions.

Tasks on executors write these records themselves, so nothing here knows a client or Spark.
The stored offset is that of the last mirrored record; a task resumes at the one after it.
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
    """A record for the offsets topic and the partition it belongs to."""

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
    """The record that stores a position; None deletes it.

    `cluster` is the source's alias, `partitions` the offsets topic's partition count.
    """
    key = SourceOffsetKey(connector, cluster, topic_partition).key()
    value = None
    if position is not None:
        value = position.value()
    return PositionRecord(key, value, partition_for_key(key, partitions))


def parse_positions(
    records: Iterable[KeyedRecord], connector: str, cluster: str, partitions: int
) -> dict[TopicPartition, StoredPosition]:
    """The latest position of every source partition of one connector and source cluster.

    A key that also stands in a partition to which it does not hash (the topic was grown, or
    somebody used another hash) counts only there where Java writes it.
    """
    latest: dict[bytes, bytes | None] = {}
    strays: dict[bytes, bytes | None] = {}
    for record in records:
        if record.key is not None:
            home = partition_for_key(record.key, partitions) == record.partition
            (latest if home else strays)[record.key] = record.value
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
            f"The stored position of {named.topic_partition} of cluster '{named.cluster}' cannot "
            f"be read, and guessing would lose or repeat records: {error} Write a valid offset or "
            f"delete the record."
        ) from error
