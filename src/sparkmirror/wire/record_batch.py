# SPDX-License-Identifier: Apache-2.0
"""The record batch (magic 2): its header, and the fields that are rewritten for the target.

    offset  field                 type   value for the target
    0       baseOffset            i64    0, as a produce request must
    8       batchLength           i32    bytes after this field
    12      partitionLeaderEpoch  i32    -1
    16      magic                 i8     2
    17      crc                   u32    CRC-32C of everything from attributes on
    21      attributes            i16    bits 0-2 codec, 3 LogAppendTime, 4 transactional,
                                         5 control, 6 delete horizon
    23      lastOffsetDelta       i32
    27      baseTimestamp         i64    the delete horizon if bit 6 is set
    35      maxTimestamp          i64    the append time if bit 3 is set
    43      producerId            i64    the task's
    51      producerEpoch         i16    the task's
    53      baseSequence          i32    the task's
    57      count                 i32
    61      records

The CRC does not cover the fields before attributes, so they can change freely; any other change
needs a new CRC. A record batch is a view into the receive buffer and is patched in place, so the
payload is never copied.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator

from crc32c import crc32c

from sparkmirror.errors import CorruptRecordBatchError

HEADER = struct.Struct(
    ">"
    "q"  # baseOffset
    "i"  # batchLength
    "i"  # partitionLeaderEpoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # lastOffsetDelta
    "q"  # baseTimestamp
    "q"  # maxTimestamp
    "q"  # producerId
    "h"  # producerEpoch
    "i"  # baseSequence
    "i"  # count
)
HEADER_SIZE = HEADER.size
LENGTH_OVERHEAD = 12  # baseOffset and batchLength are not counted in batchLength
CRC_START = 21  # attributes
_MAGIC_AT = 16
_PREFIX = struct.Struct(">qi")
_OUTSIDE_CRC = struct.Struct(">qi i")  # baseOffset, batchLength, partitionLeaderEpoch
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
MAGIC = 2
SEQUENCE_MASK = 0x7FFFFFFF  # sequences wrap from 2^31 - 1 to 0
_MARKER = struct.Struct(">h")
_ABORT_MARKER = 0


class RecordBatch:
    """One record batch inside a receive buffer; parses the header only."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "max_timestamp",
        "next_offset",
        "producer_id",
        "view",
    )

    def __init__(self, view: memoryview) -> None:
        self.view = view
        try:
            (
                self.base_offset,
                _length,
                self.leader_epoch,
                magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                _producer_epoch,
                _base_sequence,
                self.count,
            ) = HEADER.unpack_from(view)
        except struct.error as error:
            raise CorruptRecordBatchError("a record batch is shorter than its header") from error
        # The offset after the last one of this record batch.
        self.next_offset: int = self.base_offset + self.last_offset_delta + 1
        if magic != MAGIC:
            raise _other_format(self.base_offset, magic)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction marker, written by a broker."""
        return bool(self.attributes & CONTROL)

    @property
    def producer_epoch(self) -> int:
        epoch: int = _PRODUCER.unpack_from(self.view, _PRODUCER_AT)[1]
        return epoch

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def has_records(self) -> bool:
        """Whether it has records; compaction may remove all of them."""
        return bool(self.count)

    @property
    def has_holes(self) -> bool:
        """Whether compaction removed records, so that the offsets are not contiguous."""
        return bool(self.last_offset_delta + 1 != self.count)

    def verify(self, lowest: int = 0) -> None:
        """Raise CorruptRecordBatchError if CRC, record count or base offset do not match.

        The CRC does not cover the base offset, which must not be below `lowest`.
        """
        if crc32c(self.view[CRC_START:]) != self.crc:
            raise CorruptRecordBatchError(
                f"the record batch at offset {self.base_offset} does not match its CRC"
            )
        if not 0 <= self.count <= self.last_offset_delta + 1 > 0:
            raise CorruptRecordBatchError(
                f"the record batch at offset {self.base_offset} has a record count of "
                f"{self.count} for {self.last_offset_delta + 1} offsets"
            )
        if self.base_offset < lowest:
            raise CorruptRecordBatchError(
                f"a record batch has base offset {self.base_offset}, but the previous one ends at "
                f"{lowest}"
            )

    def is_abort_marker(self) -> bool:
        """Whether this control batch aborts its producer's transaction."""
        records = self.view[HEADER_SIZE:]
        # length, attributes, timestamp delta, offset delta, key length: one byte each, except the
        # timestamp delta, which is a varint; then the key: version i16, type i16.
        position = 2
        try:
            while records[position] & 0x80:
                position += 1
            (marker,) = _MARKER.unpack_from(records, position + 5)
        except (IndexError, struct.error) as error:
            raise CorruptRecordBatchError(
                f"the transaction marker at offset {self.base_offset} is truncated"
            ) from error
        return bool(marker == _ABORT_MARKER)


def split_batches(records: memoryview) -> Iterator[RecordBatch]:
    """Yield the complete record batches of a fetch response; skips a truncated last one."""
    position, end = 0, len(records)
    while position + HEADER_SIZE <= end:
        _base, length = _PREFIX.unpack_from(records, position)
        following = position + LENGTH_OVERHEAD + length
        if length < HEADER_SIZE - LENGTH_OVERHEAD:
            _check_format(records[position:])
            raise CorruptRecordBatchError(f"a record batch has an invalid length of {length} bytes")
        if following > end:
            return
        yield RecordBatch(records[position:following])
        position = following
    _check_format(records[position:])


def _check_format(rest: memoryview) -> None:
    """Raise for an older format, whose messages may be shorter than a record batch header."""
    if len(rest) > _MAGIC_AT and rest[_MAGIC_AT] < MAGIC:
        raise _other_format(_PREFIX.unpack_from(rest)[0], rest[_MAGIC_AT])


def _other_format(offset: int, magic: int) -> CorruptRecordBatchError:
    return CorruptRecordBatchError(
        f"the record batch at offset {offset} has message format {magic}; "
        "only format 2 (Kafka 0.11 and newer) can be copied"
    )


def stamp(
    view: memoryview,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    *,
    is_transactional: bool = False,
) -> None:
    """Rewrite a record batch for the target, in place: producer fields, attributes, CRC.

    The source's transactional bit and delete horizon do not apply on the target, where the batch
    may be part of another transaction.
    """
    _OUTSIDE_CRC.pack_into(view, 0, 0, len(view) - LENGTH_OVERHEAD, -1)
    transactional = TRANSACTIONAL if is_transactional else 0
    view[22] = view[22] & ~(TRANSACTIONAL | DELETE_HORIZON) | transactional
    _PRODUCER.pack_into(view, _PRODUCER_AT, producer_id, producer_epoch, sequence)
    struct.pack_into(">I", view, 17, crc32c(view[CRC_START:]))


def encode_varint(value: int) -> bytes:
    """Encode a zigzag varint of up to 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:  # noqa: PLR2004 - seven bits a byte
        return bytes((rest,))
    out = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_batch(
    body: bytes, *, attributes: int, count: int, base_timestamp: int, max_timestamp: int
) -> bytearray:
    """Build a record batch from encoded records; `stamp` adds producer and CRC."""
    out = bytearray(HEADER_SIZE + len(body))
    HEADER.pack_into(
        out,
        0,
        0,
        HEADER_SIZE - LENGTH_OVERHEAD + len(body),
        -1,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        -1,
        -1,
        -1,
        count,
    )
    out[HEADER_SIZE:] = body
    return out


def build_key_value_batch(records: Iterable[tuple[bytes | None, bytes | None]]) -> bytearray:
    """Build an uncompressed record batch with the current time; `stamp` adds producer and CRC."""
    now = int(time.time() * 1000)
    body = bytearray()
    count = 0
    for key, value in records:
        frame = bytearray(b"\x00\x00")  # attributes, timestamp delta
        frame += encode_varint(count)
        for part in (key, value):
            frame += encode_varint(-1 if part is None else len(part))
            frame += part or b""
        frame += b"\x00"  # no headers
        body += encode_varint(len(frame)) + frame
        count += 1
    return encode_batch(
        bytes(body), attributes=0, count=count, base_timestamp=now, max_timestamp=now
    )
