# SPDX-License-Identifier: Apache-2.0
"""Decode the records of a record batch.

    length          varint   bytes that follow
    attributes      i8       unused
    timestampDelta  varint   from the batch's baseTimestamp
    offsetDelta     varint   from the batch's baseOffset
    key, value               each: length varint (-1: null), bytes
    headers                  count varint, then key and value as above (a key is never null)

A *frame* is one encoded record. Copying treats the part after the offset delta (key, value and
headers) as opaque bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire import codecs
from sparkmirror.wire.record_batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, RecordBatch

# Positions in a frame: attributes, offset delta, body, end; then timestamp delta and offset delta.
# A plain tuple, because there is one per record.
RecordSpan = tuple[int, int, int, int, int, int]

_MORE = 0x80  # a varint's continuation bit
_MAX_SHIFT = 63
_MASK = (1 << 64) - 1
_HALF = 1 << 63


class RawRecord(NamedTuple):
    """One record with its key, value and headers still encoded."""

    offset: int
    timestamp: int  # as a consumer sees it: the append time if the batch has LogAppendTime
    body: bytes  # key, value and headers, encoded


class Record(NamedTuple):
    """One decoded record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    timestamp: int
    attributes: int


def decompressed_records(batch: RecordBatch) -> bytes:
    """Decompress the records of a batch."""
    return codecs.decompress(batch.attributes & CODEC_MASK, batch.view[HEADER_SIZE:])


def raw_records(view: memoryview, base_offset: int = 0) -> Iterator[RawRecord]:
    """Yield the records of a record batch; offsets are relative to `base_offset`."""
    batch = RecordBatch(view)
    data = decompressed_records(batch)
    base_timestamp, append_time = batch.base_timestamp, _append_time(batch)
    for _at, _offset_at, rest, end, timestamp_delta, offset_delta in locate_records(data, batch):
        timestamp = append_time
        if timestamp is None:
            timestamp = wrap_int64(base_timestamp + timestamp_delta)
        yield RawRecord(base_offset + offset_delta, timestamp, data[rest:end])


def decode_records(view: memoryview) -> list[Record]:
    """Decode every record of a record batch."""
    batch = RecordBatch(view)
    data = decompressed_records(batch)
    base_timestamp, append_time = batch.base_timestamp, _append_time(batch)
    found: list[Record] = []
    for at, _offset_at, rest, end, timestamp_delta, _offset_delta in locate_records(data, batch):
        timestamp = append_time
        if timestamp is None:
            timestamp = wrap_int64(base_timestamp + timestamp_delta)
        key, value, headers = decode_body(data[rest:end])
        found.append(Record(key, value, headers, timestamp, data[at]))
    return found


def locate_records(  # noqa: C901, PLR0912 - one loop with three inlined varint decoders
    data: bytes, batch: RecordBatch
) -> Iterator[RecordSpan]:
    """Yield the position of each record in the decompressed records of a batch.

    Varints of one or two bytes are decoded inline, because calls would take half of the time.
    """
    at, lowest = 0, 0
    try:
        for _ in range(batch.count):
            length = data[at]
            at += 1
            if length >= _MORE:
                if data[at] < _MORE:
                    length += (data[at] << 7) - _MORE
                    at += 1
                else:
                    length, at = _long_varint(data, at - 1)
            end = at + ((length >> 1) ^ -(length & 1))
            stamp = data[at + 1]
            offset_at = at + 2
            if stamp >= _MORE:
                if data[offset_at] < _MORE:
                    stamp += (data[offset_at] << 7) - _MORE
                    offset_at += 1
                else:
                    stamp, offset_at = _long_varint(data, offset_at - 1)
            delta = data[offset_at]
            rest = offset_at + 1
            if delta >= _MORE:
                if data[rest] < _MORE:
                    delta += (data[rest] << 7) - _MORE
                    rest += 1
                else:
                    delta, rest = _long_varint(data, rest - 1)
            delta = (delta >> 1) ^ -(delta & 1)
            if rest > end or delta < lowest:
                raise _corrupt(batch, "have invalid lengths or offset deltas")
            yield at, offset_at, rest, end, (stamp >> 1) ^ -(stamp & 1), delta
            lowest = delta + 1
            at = end
    except IndexError as error:
        raise _corrupt(batch, "end too early") from error
    if at > len(data):
        raise _corrupt(batch, "end too early")
    if at < len(data) or lowest > batch.last_offset_delta + 1:
        raise _corrupt(batch, "are more than its header says")


def wrap_int64(value: int) -> int:
    """Wrap around at 64 bits, like Java's arithmetic on long."""
    if -_HALF <= value < _HALF:
        return value
    return ((value + _HALF) & _MASK) - _HALF


def _append_time(batch: RecordBatch) -> int | None:
    return batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None


def _long_varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode an unsigned varint of any length; returns its value and the position after it."""
    value = shift = 0
    while shift <= _MAX_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return value & _MASK, at
        shift += 7
    raise CorruptRecordBatchError("a varint in a record has more than ten bytes")


def decode_body(data: bytes) -> tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]:
    """Decode the key, value and headers of a frame."""
    headers: list[tuple[bytes, bytes | None]] = []
    try:
        key, at = _sized(data, 0)
        value, at = _sized(data, at)
        count, at = _signed(data, at)
        for _ in range(count):
            name, at = _sized(data, at)
            content, at = _sized(data, at)
            if name is None:
                raise CorruptRecordBatchError("a record has a header without a key")
            headers.append((name, content))
    except IndexError as error:
        raise CorruptRecordBatchError("a record ends too early") from error
    if count < 0 or at != len(data):
        raise CorruptRecordBatchError("a record is shorter than its length")
    return key, value, headers


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _signed(data, at)
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        raise CorruptRecordBatchError("a record's key, value or header is larger than the record")
    return data[at : at + length], at + length


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _long_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _corrupt(batch: RecordBatch, what: str) -> CorruptRecordBatchError:
    return CorruptRecordBatchError(f"the records of the batch at offset {batch.base_offset} {what}")
