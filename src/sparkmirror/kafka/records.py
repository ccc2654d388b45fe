# SPDX-License-Identifier: Apache-2.0
"""Takes the record batches of a fetched partition apart into records, for small topics only.

    record   length VARINT | attributes INT8 | timestamp delta VARINT | offset delta VARINT
             key length VARINT (-1: null) | key | value length VARINT (-1: null) | value | headers

Varints are zigzag. Works with every codec of `wire`, whatever the broker recompressed to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire import codecs
from sparkmirror.wire.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    RecordBatch,
    split,
)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a topic's log."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """The records of one fetch and where the next one starts, beyond markers and holes."""

    records: list[LogRecord]
    next_offset: int


def decode_fetched(
    data: memoryview, partition: int, start: int, aborted: Iterable[tuple[int, int]]
) -> Fetched:
    """The records at or after `start`, without those of aborted transactions.

    `aborted` holds (producer id, first offset) pairs as the broker listed them for this fetch.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction[1])
    aborting: set[int] = set()
    records: list[LogRecord] = []
    next_offset = start
    for batch in split(data):
        batch.verify()
        while waiting and waiting[0][1] < batch.next_offset:
            aborting.add(waiting.pop(0)[0])
        if batch.is_control:
            # The cleaner may leave a marker's batch without the marker.
            if batch.count and batch.is_abort_marker():
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            records.extend(r for r in _records(batch, partition) if r.offset >= start)
        next_offset = max(next_offset, batch.next_offset)
    return Fetched(records, next_offset)


def _records(batch: RecordBatch, partition: int) -> Iterator[LogRecord]:
    data = bytes(codecs.decompress(batch.attributes & CODEC_MASK, batch.view[HEADER_SIZE:]))
    appended = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    position = 0
    try:
        for _ in range(batch.count):
            length, position = _varint(data, position)
            following = position + length
            timestamp_delta, position = _varint(data, position + 1)
            offset_delta, position = _varint(data, position)
            key, position = _field(data, position)
            value, position = _field(data, position)
            timestamp = batch.base_timestamp + timestamp_delta if appended is None else appended
            yield LogRecord(partition, batch.base_offset + offset_delta, timestamp, key, value)
            position = following
    except IndexError as error:
        raise CorruptRecordBatchError(
            f"the records of the batch at offset {batch.base_offset} end too early"
        ) from error


def _field(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position)
    if length < 0:
        return None, position
    return data[position : position + length], position + length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), position
