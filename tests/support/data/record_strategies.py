# SPDX-License-Identifier: Apache-2.0
"""Record batches with anything in them that the format allows, written and read by the letter.

kafka-python's record code insists on header names in UTF-8 and on times after 1970; the format
does not. Nothing here uses the package under test.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st
from kafka.record.util import decode_varint, encode_varint

from support.data.record_batches import CODECS, compress, decompress, header, seal

APPEND_TIME = 0x08
_HEADER_SIZE = 61


class GeneratedRecord(NamedTuple):
    """What a consumer sees, byte for byte."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    attributes: int = 0


class GeneratedBatch(NamedTuple):
    """A record batch as a source broker serves it, and the records a consumer finds in it."""

    raw: bytearray
    records: list[GeneratedRecord]
    base_offset: int
    last_offset: int
    codec: int


def encode_batch(
    records: Sequence[GeneratedRecord],
    *,
    base_offset: int,
    last_offset: int,
    codec: int = 0,
    base_timestamp: int = 0,
    append_time: int | None = None,
    attributes: int = 0,
) -> GeneratedBatch:
    """A record batch of these records; with an append time, that is the time of all of them."""
    body = bytearray()
    for one in records:
        frame = bytearray((one.attributes,))
        encode_varint(one.timestamp - base_timestamp, frame.append)
        encode_varint(one.offset - base_offset, frame.append)
        _write_sized(frame, one.key)
        _write_sized(frame, one.value)
        encode_varint(len(one.headers), frame.append)
        for name, value in one.headers:
            _write_sized(frame, name)
            _write_sized(frame, value)
        encode_varint(len(frame), body.append)
        body += frame
    newest = max((one.timestamp for one in records), default=-1)
    raw = seal(
        compress(codec, bytes(body)),
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        leader_epoch=3,
        attributes=codec | attributes | (0 if append_time is None else APPEND_TIME),
        times=(base_timestamp, newest if append_time is None else append_time),
        producer=(-1, -1, -1),
        count=len(records),
    )
    seen = [one if append_time is None else one._replace(timestamp=append_time) for one in records]
    return GeneratedBatch(raw, seen, base_offset, last_offset, codec)


def decode_batch(view: bytes | bytearray | memoryview) -> list[GeneratedRecord]:
    """The records of a whole record batch, its header and CRC checked on the way."""
    head = header(view)
    assert head.validate_crc(), "the CRC does not match"
    assert head.size_in_bytes == len(view)
    data = bytearray(decompress(head.compression_type, bytes(view[_HEADER_SIZE:])))
    found: list[GeneratedRecord] = []
    at = 0
    for _ in range(head.records_count):
        length, at = decode_varint(data, at)
        end = at + length
        attributes = data[at]
        timestamp_delta, at = decode_varint(data, at + 1)
        offset_delta, at = decode_varint(data, at)
        key, at = _read_sized(data, at)
        value, at = _read_sized(data, at)
        count, at = decode_varint(data, at)
        headers = []
        for _ in range(count):
            name, at = _read_sized(data, at)
            content, at = _read_sized(data, at)
            assert name is not None
            headers.append((name, content))
        assert at == end, "a record does not fill its length"
        timestamp = head.first_timestamp + timestamp_delta
        if head.attributes & APPEND_TIME:
            timestamp = head.max_timestamp
        found.append(
            GeneratedRecord(
                head.base_offset + offset_delta, timestamp, key, value, tuple(headers), attributes
            )
        )
    assert at == len(data), "something follows the last record"
    return found


def _write_sized(out: bytearray, content: bytes | None) -> None:
    encode_varint(-1 if content is None else len(content), out.append)
    out += content or b""


def _read_sized(data: bytearray, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(data, at)
    if length < 0:
        return None, at
    return bytes(data[at : at + length]), at + length


# --- generated ones

_BYTES = st.none() | st.binary(max_size=30) | st.binary(min_size=60, max_size=200)
_HEADERS = st.lists(
    st.tuples(st.sampled_from([b"", b"a", b"trace", b"\xff\xfe"]) | st.binary(max_size=5), _BYTES),
    max_size=3,
).map(tuple)
_NOW = 1_700_000_000_000
_ATTRIBUTES = st.sampled_from([0, 0, 0, 7])  # unused, but kept
TIMES = st.integers(_NOW, _NOW + 200) | st.integers(-(2**61), 2**61) | st.just(-1)

_CONTENTS = st.tuples(TIMES, _BYTES, _BYTES, _HEADERS, _ATTRIBUTES)


@st.composite
def batches(
    draw: st.DrawFn, base_offset: int = 0, *, may_have_holes: bool = True, most: int = 40
) -> GeneratedBatch:
    """Any record batch that a broker could serve, from this offset on."""
    holes = may_have_holes and draw(st.booleans())
    gaps = draw(st.lists(st.integers(1, 70 if holes else 1), min_size=1, max_size=most))
    contents = draw(st.lists(_CONTENTS, min_size=1, max_size=4))  # few, repeated: drawing is slow
    offset = base_offset - 1 + (draw(st.integers(0, 3)) if holes else 0)
    records = []
    for gap, content in zip(gaps, itertools.cycle(contents), strict=False):
        offset += gap
        records.append(GeneratedRecord(offset, *content))
    return encode_batch(
        records,
        base_offset=base_offset,
        last_offset=offset + (draw(st.integers(0, 3)) if holes else 0),
        codec=draw(st.sampled_from(CODECS)),
        base_timestamp=draw(st.sampled_from([records[0].timestamp, -1, 0, _NOW])),
        append_time=draw(st.none() | st.none() | TIMES),
    )


@st.composite
def logs(draw: st.DrawFn, *, may_have_holes: bool = True, most: int = 6) -> list[GeneratedBatch]:
    """Record batches that follow each other: many of one record, some of more."""
    found: list[GeneratedBatch] = []
    offset = draw(st.sampled_from([0, 5, 2**40]))
    for size in draw(st.lists(st.sampled_from([1, 1, 1, 2, 40]), min_size=1, max_size=most)):
        one = draw(batches(offset, may_have_holes=may_have_holes, most=size))
        found.append(one)
        offset = one.last_offset + 1 + draw(st.sampled_from([0, 0, 0, 1]))  # a marker, say
    return found
