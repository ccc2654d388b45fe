# SPDX-License-Identifier: Apache-2.0
"""Record batches made and read by others: kafka-python's record code, pyarrow's codecs.

Nothing here uses the package under test, so both sides of a comparison never share a mistake.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
_HEADER = DefaultRecordBatch.HEADER_STRUCT
_JAVA_SNAPPY_MAGIC = b"\x82SNAPPY\x00"


class Record(NamedTuple):
    """What a consumer sees."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def numbered(first: int, count: int, *, timestamp: int = 1_700_000_000_000) -> list[Record]:
    """Plain records with consecutive offsets."""
    return [
        Record(offset, timestamp + offset, b"k%d" % offset, b"value %d " % offset * 3)
        for offset in range(first, first + count)
    ]


def encode(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: int = NONE,
    attributes: int = 0,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 7,
) -> bytearray:
    """A record batch as a source broker would serve it; offsets may have holes."""
    base = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
    for one in records:
        builder.append(one.offset - base, one.timestamp, one.key, one.value, list(one.headers))
    body = bytes(builder.build())[_HEADER.size :] if records else b""
    times = [one.timestamp for one in records] or [-1]
    return seal(
        compress(codec, body),
        base_offset=base,
        last_offset_delta=last - base,
        leader_epoch=leader_epoch,
        attributes=attributes | codec,
        times=(times[0], max(times) if max_timestamp is None else max_timestamp),
        producer=producer,
        count=len(records),
    )


def seal(
    body: bytes,
    *,
    base_offset: int,
    last_offset_delta: int,
    leader_epoch: int,
    attributes: int,
    times: tuple[int, int],
    producer: tuple[int, int, int],
    count: int,
) -> bytearray:
    """The header around already encoded records, with its CRC."""
    out = bytearray(_HEADER.size) + body
    _HEADER.pack_into(
        out,
        0,
        base_offset,
        len(out) - 12,
        leader_epoch,
        2,
        0,
        attributes,
        last_offset_delta,
        *times,
        *producer,
        count,
    )
    struct.pack_into(">I", out, 17, calc_crc32c(out[21:]))
    return out


def marker(
    offset: int, producer_id: int, *, commits: bool, timestamp_delta: bytes = b"\x00"
) -> bytearray:
    """The control batch that ends a transaction, as a broker writes it."""
    key = struct.pack(">hh", 0, 1 if commits else 0)
    value = struct.pack(">hi", 0, 3)  # version, coordinator epoch
    frame = b"\x00" + timestamp_delta + b"\x00" + b"\x08" + key + b"\x0c" + value + b"\x00"
    return seal(
        bytes((len(frame) * 2,)) + frame,
        base_offset=offset,
        last_offset_delta=0,
        leader_epoch=7,
        attributes=0x30,
        times=(1_700_000_000_000, 1_700_000_000_000),
        producer=(producer_id, 0, -1),
        count=1,
    )


def decode(view: bytes | bytearray | memoryview, *, any_snappy: bool = False) -> list[Record]:
    """The records of a whole record batch, its CRC checked."""
    batch = DefaultRecordBatch(bytes(view))
    assert batch.validate_crc(), "the CRC does not match"
    assert batch.size_in_bytes == len(view)
    body = bytes(view[_HEADER.size :])
    if any_snappy and batch.compression_type == SNAPPY and body[:8] != _JAVA_SNAPPY_MAGIC:
        body = raw_snappy(body)  # as librdkafka writes it
    else:
        body = decompress(batch.compression_type, body)
    plain = bytearray(view[: _HEADER.size]) + body
    struct.pack_into(">h", plain, 21, batch.attributes & ~7)
    return [
        Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
        for one in DefaultRecordBatch(plain)
    ]


def header(view: bytes | bytearray | memoryview) -> DefaultRecordBatch:
    """The header fields, read by kafka-python."""
    return DefaultRecordBatch(bytes(view))


def compress(codec: int, body: bytes) -> bytes:
    """Compressed by gzip or pyarrow; snappy in the Java library's framing with small blocks."""
    if codec == NONE:
        return body
    if codec == GZIP:
        return gzip.compress(body)
    if codec == SNAPPY:
        packer = pa.Codec("snappy")
        blocks = [
            packer.compress(body[at : at + 1000], asbytes=True) for at in range(0, len(body), 1000)
        ]
        framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        return _JAVA_SNAPPY_MAGIC + struct.pack(">ii", 1, 1) + framed
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4" if codec == LZ4 else "zstd") as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


def decompress(codec: int, body: bytes) -> bytes:
    """Decompressed by gzip or pyarrow; snappy only in the Java library's framing."""
    if codec == NONE:
        return body
    if codec == GZIP:
        return gzip.decompress(body)
    if codec == SNAPPY:
        assert body[:8] == _JAVA_SNAPPY_MAGIC, "not the framing of the Java snappy library"
        assert body[8:16] == struct.pack(">ii", 1, 1)
        out, at = b"", 16
        while at < len(body):
            (size,) = struct.unpack_from(">i", body, at)
            out += raw_snappy(body[at + 4 : at + 4 + size])
            at += 4 + size
        return out
    stream = pa.input_stream(pa.py_buffer(body), compression="lz4" if codec == LZ4 else "zstd")
    return bytes(stream.read())


def raw_snappy(block: bytes) -> bytes:
    """One raw snappy block; its first varint is the decompressed size."""
    size = shift = 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(block, size, asbytes=True)) if size else b""
