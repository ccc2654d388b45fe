# SPDX-License-Identifier: Apache-2.0
"""A partition's log as the broker keeps it on disk: what no consumer shows.

Segments are record batches, one after the other, so their headers tell how records were cut,
compressed and marked. Only for clusters of one broker on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatch

from sparkmirror.devcluster.cluster import LocalCluster

_HEADER = DefaultRecordBatch.HEADER_STRUCT
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
_LENGTH_OVERHEAD = 12


class LoggedBatch(NamedTuple):
    """The header of a record batch in the log, and its bytes."""

    base_offset: int
    last_offset: int
    count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    raw: bytes

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _CODEC

    @property
    def has_append_time(self) -> bool:
        """The broker's time counts, not the producer's."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction, or its marker."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """The cleaner has noted when the tombstones in here may go."""
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def has_holes(self) -> bool:
        """The cleaner took records out."""
        return self.last_offset - self.base_offset + 1 != self.count


def logged_batches(cluster: LocalCluster, topic: str, partition: int = 0) -> list[LoggedBatch]:
    """Every record batch that the partition's log holds now."""
    return list(_batches(log_bytes(cluster, topic, partition)))


def log_bytes(cluster: LocalCluster, topic: str, partition: int = 0) -> bytes:
    """The partition's segments, joined; read again if the cleaner swaps one meanwhile."""
    [broker] = cluster.brokers
    folder = broker.data / f"{topic}-{partition}"
    while True:
        segments = sorted(folder.glob("*.log"))
        try:
            content = b"".join(segment.read_bytes() for segment in segments)
        except FileNotFoundError:
            continue
        if segments and segments == sorted(folder.glob("*.log")):
            return content


def _batches(content: bytes) -> Iterator[LoggedBatch]:
    at = 0
    while at + _HEADER.size <= len(content):
        (
            base,
            length,
            _leader_epoch,
            _magic,
            _crc,
            attributes,
            delta,
            first,
            newest,
            producer,
            epoch,
            *rest,
        ) = _HEADER.unpack_from(content, at)
        end = at + _LENGTH_OVERHEAD + length
        if end > len(content):
            return  # being written
        yield LoggedBatch(
            base,
            base + delta,
            rest[-1],
            attributes,
            first,
            newest,
            producer,
            epoch,
            content[at:end],
        )
        at = end
