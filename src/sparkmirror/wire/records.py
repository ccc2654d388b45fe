# SPDX-License-Identifier: Apache-2.0
"""The records inside a record batch, read.

    length          varint   bytes that follow
    attributes      i8       unused
    timestampDelta  varint   from the batch's baseTimestamp
    offsetDelta     varint   from the batch's baseOffset
    key, value               each: length varint (-1: null), bytes
    headers                  count varint, then key and value as above (a key is never null)

A *frame* is one such record. What lies behind its offset delta (key, value and headers) is an
opaque slice to everybody who only moves records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire import codecs
from sparkmirror.wire.record_batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, RecordBatch

# Where a frame lies: its attributes byte, its offset delta, the slice behind it, its end; then
# the two deltas. A plain tuple, because one is made for every record.
RecordSpan = tuple[int, int, int, int, int, int]

_MORE = 0x80  # the bit of a varint's byte that says that another one follows
_MOST_SHIFT = 63
_MASK = (1 << 64) - 1
_HALF = 1 << 63


class RawRecord(NamedTuple):
    """One record as far as moving it needs to know."""

    offset: int
    timestamp: int  # what a consumer sees: the append time if the batch has LogAppendTime
    body: bytes  # key, value and headers, encoded


class Record(NamedTuple):
    """One record taken apart."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    timestamp: int
    attributes: int


def decompressed_records(batch: RecordBatch) -> bytes:
    """The records of a batch without their compression."""
    return codecs.decompress(batch.attributes & CODEC_MASK, batch.view[HEADER_SIZE:])


def raw_records(view: memoryview, base_offset: int = 0) -> Iterator[RawRecord]:
    """Every record of a record batch, its first offset being `base_offset`."""
    batch = RecordBatch(view)
    data = decompressed_records(batch)
    base_timestamp, append_time = batch.base_timestamp, _append_time(batch)
    for _at, _offset_at, rest, end, timestamp_delta, offset_delta in locate_records(data, batch):
        timestamp = append_time
        if timestamp is None:
            timestamp = wrap_int64(base_timestamp + timestamp_delta)
        yield RawRecord(base_offset + offset_delta, timestamp, data[rest:end])


def decode_records(view: memoryview) -> list[Record]:
    """Every record of a record batch, taken apart."""
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


def locate_records(  # noqa: C901, PLR0912 - one loop, three times the same five lines
    data: bytes, batch: RecordBatch
) -> Iterator[RecordSpan]:
    """Where each record lies in the decompressed records of a batch.

    The three varints are read in place as far as they have one or two bytes: calls would take
    half of the time.
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
                raise _corrupt(batch, "have lengths or offsets that cannot be")
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
    """Java's arithmetic: what does not fit into 64 bits begins anew at the other end."""
    if -_HALF <= value < _HALF:
        return value
    return ((value + _HALF) & _MASK) - _HALF


def _append_time(batch: RecordBatch) -> int | None:
    return batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None


def _long_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of any length, and the place behind it."""
    value = shift = 0
    while shift <= _MOST_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return value & _MASK, at
        shift += 7
    raise CorruptRecordBatchError("a number in a record has more than ten bytes")


def decode_body(data: bytes) -> tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]:
    """Key, value and headers of a frame's body."""
    headers: list[tuple[bytes, bytes | None]] = []
    try:
        key, at = _sized(data, 0)
        value, at = _sized(data, at)
        count, at = _signed(data, at)
        for _ in range(count):
            name, at = _sized(data, at)
            content, at = _sized(data, at)
            if name is None:
                raise CorruptRecordBatchError("a record has a header without a name")
            headers.append((name, content))
    except IndexError as error:
        raise CorruptRecordBatchError("a record ends too early") from error
    if count < 0 or at != len(data):
        raise CorruptRecordBatchError("a record does not fill its length")
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
