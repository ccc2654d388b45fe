# SPDX-License-Identifier: Apache-2.0
"""Cut a record batch anew where it cannot pass as it is.

A broker takes only batches without offset holes, and a start in the middle wants only part of
one. Records are re-cut at the frame level (length, attributes, timestamp delta, offset delta);
key, value and headers stay one opaque slice. The codec stays what it was.

A LogAppendTime batch keeps the producers' times in its records and the append time only in its
header; a consumer of the source sees the append time, so every record is stamped with it.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire import codecs
from sparkmirror.wire.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    RecordBatch,
    encode_varint,
    seal,
)


class Run(NamedTuple):
    """Consecutive source offsets that became consecutive target offsets."""

    first: int
    length: int


class Reframed(NamedTuple):
    """The new record batch, and which source offsets it holds."""

    view: memoryview
    records: int
    runs: tuple[Run, ...]


def needs_reframe(batch: RecordBatch, start: int) -> bool:
    """Whether this record batch cannot be sent byte for byte from `start` on."""
    return batch.has_holes or batch.base_offset < start or bool(batch.attributes & LOG_APPEND_TIME)


def reframe(batch: RecordBatch, start: int) -> Reframed | None:
    """The records at or after `start` as a batch without holes; None if there are none."""
    codec = batch.attributes & CODEC_MASK
    data = codecs.decompress(codec, batch.view[HEADER_SIZE:])
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    base_timestamp = batch.base_timestamp if append_time is None else append_time
    newest = append_time
    stamped = b"\x00" if append_time is not None else None
    body: list[bytes | memoryview] = []
    runs: list[Run] = []
    kept, position = 0, 0
    base_offset = batch.base_offset
    try:
        for _ in range(batch.count):
            length, position = _varint(data, position)
            following = position + length
            attributes = data[position : position + 1]
            stamp_at = position + 1
            delta, offset_at = _varint(data, stamp_at)
            offset_delta, rest = _varint(data, offset_at)
            offset = base_offset + offset_delta
            if offset >= start:
                timestamp_delta = stamped or data[stamp_at:offset_at]
                new_delta = encode_varint(kept)
                size = 1 + len(timestamp_delta) + len(new_delta) + following - rest
                body += (encode_varint(size), attributes, timestamp_delta, new_delta)
                body.append(data[rest:following])
                if append_time is None and (newest is None or base_timestamp + delta > newest):
                    newest = base_timestamp + delta
                if runs and runs[-1].first + runs[-1].length == offset:
                    runs[-1] = Run(runs[-1].first, runs[-1].length + 1)
                else:
                    runs.append(Run(offset, 1))
                kept += 1
            position = following
    except IndexError as error:
        raise CorruptRecordBatchError(
            f"the records of the batch at offset {base_offset} end too early"
        ) from error
    if position > len(data):
        raise CorruptRecordBatchError(f"the last record of the batch at {base_offset} is cut off")
    if not kept or newest is None:
        return None
    sealed = seal(
        codecs.compress(codec, b"".join(body)),
        attributes=batch.attributes & ~LOG_APPEND_TIME,
        count=kept,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
    )
    return Reframed(memoryview(sealed), kept, tuple(runs))


def _varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:  # noqa: PLR2004 - seven bits a byte
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - seven bits a byte
            return (value >> 1) ^ -(value & 1), position
        shift += 7
