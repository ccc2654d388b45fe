# SPDX-License-Identifier: Apache-2.0
"""Record batches of other encoders through our parser, and ours through another decoder."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.record_batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    RecordBatch,
    build_key_value_batch,
    encode_varint,
    split_batches,
    stamp,
)
from support.data.record_batches import (
    CODECS,
    Record,
    decode,
    encode,
    header,
    marker,
    numbered,
    seal,
)

GOLDEN = Path(__file__).parent / "golden"


def test_header_fields_are_those_another_encoder_wrote() -> None:
    """Every field that decisions are made on is read from its place."""
    raw = encode(
        numbered(40, 5), attributes=TRANSACTIONAL, producer=(9_000_000_001, 3, 17), codec=3
    )

    batch = RecordBatch(memoryview(raw))

    assert (batch.base_offset, batch.next_offset, batch.count) == (40, 45, 5)
    assert (batch.last_offset_delta, batch.leader_epoch) == (4, 7)
    assert batch.producer_id == 9_000_000_001
    assert batch.max_timestamp == 1_700_000_000_044
    assert batch.attributes == TRANSACTIONAL | 3
    assert batch.is_transactional
    assert not batch.is_control
    assert not batch.has_holes
    batch.verify()


def test_offsets_beyond_32_bits_survive() -> None:
    """A log that has been running for years is read like a young one."""
    batch = RecordBatch(memoryview(encode(numbered(2**53, 3))))

    assert (batch.base_offset, batch.next_offset) == (2**53, 2**53 + 3)


def test_missing_records_show_as_holes() -> None:
    """A batch that compaction thinned out is recognised by its count."""
    records = numbered(10, 6)

    assert RecordBatch(memoryview(encode([records[0], *records[3:]]))).has_holes
    assert RecordBatch(memoryview(encode(records[:4], last_offset=15))).has_holes


def test_split_yields_every_whole_record_batch_as_a_view() -> None:
    """Payload is not copied: what is patched in a record batch changes the buffer."""
    buffer = encode(numbered(0, 3)) + encode(numbered(3, 2)) + encode(numbered(5, 1))

    batches = list(split_batches(memoryview(buffer)))

    assert [batch.base_offset for batch in batches] == [0, 3, 5]
    batches[1].view[0] = 0x7F
    assert buffer[len(batches[0].view)] == 0x7F


@pytest.mark.parametrize("missing", [1, 10, 61, 62])
def test_split_leaves_a_cut_off_last_record_batch(missing: int) -> None:
    """A fetch response ends anywhere; the rest comes again with the next one."""
    whole, cut = encode(numbered(0, 3)), encode(numbered(3, 3))

    batches = list(split_batches(memoryview(whole + cut[: len(cut) - missing])))

    assert [batch.base_offset for batch in batches] == [0]


def test_split_yields_nothing_from_less_than_a_header() -> None:
    """Sixty bytes are no record batch yet."""
    assert list(split_batches(memoryview(encode(numbered(0, 3))[:60]))) == []


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_split_refuses_a_length_that_cannot_be(length: int) -> None:
    """A length shorter than a header would make the parser stand still or go back."""
    raw = encode(numbered(0, 3))
    struct.pack_into(">i", raw, 8, length)

    with pytest.raises(CorruptRecordBatchError, match="length"):
        list(split_batches(memoryview(raw)))


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_format_versions_are_refused_by_name(magic: int) -> None:
    """An old or unknown format is never taken for version 2."""
    raw = encode(numbered(0, 3))
    struct.pack_into(">b", raw, 16, magic)

    with pytest.raises(CorruptRecordBatchError, match=f"message format {magic}"):
        list(split_batches(memoryview(raw)))


@given(place=st.integers(min_value=21), bit=st.integers(0, 7))
def test_one_flipped_bit_under_the_crc_is_found(place: int, bit: int) -> None:
    """Whatever bit flips from the attributes on, verify raises."""
    raw = encode(numbered(0, 3))
    raw[21 + place % (len(raw) - 21)] ^= 1 << bit

    with pytest.raises(CorruptRecordBatchError, match="CRC"):
        RecordBatch(memoryview(raw)).verify()


@pytest.mark.parametrize(("count", "last_offset_delta"), [(-1, 0), (3, 1), (0, -1), (1, -7)])
def test_a_count_that_does_not_fit_the_offsets_is_damage(
    count: int, last_offset_delta: int
) -> None:
    """Nothing may be skipped because of a number that cannot be, though the CRC fits it."""
    raw = seal(
        b"",
        base_offset=9,
        last_offset_delta=last_offset_delta,
        leader_epoch=0,
        attributes=0,
        times=(0, 0),
        producer=(-1, -1, -1),
        count=count,
    )

    with pytest.raises(CorruptRecordBatchError, match=f"a record count of {count}"):
        RecordBatch(memoryview(raw)).verify()


def test_less_than_a_header_is_no_record_batch() -> None:
    """Said in a sentence, not by the parser of structs."""
    with pytest.raises(CorruptRecordBatchError, match="shorter"):
        RecordBatch(memoryview(encode(numbered(0, 3))[:60]))


def test_a_marker_without_a_type_is_damage() -> None:
    """It cannot be told whether the transaction was aborted."""
    raw = marker(5, 1, commits=True)[:66]

    with pytest.raises(CorruptRecordBatchError, match="marker at offset 5"):
        RecordBatch(memoryview(raw)).is_abort_marker()


@pytest.mark.parametrize("codec", CODECS)
def test_a_stamped_record_batch_is_valid_and_ours(codec: int) -> None:
    """Producer fields are ours, offsets start at 0, records and codec are untouched."""
    raw = encode(numbered(700, 4), codec=codec, producer=(5, 1, 99))
    payload = bytes(raw[61:])

    stamp(memoryview(raw), 123_456_789_012, 4, 2**31 - 2)

    after = header(raw)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (
        123_456_789_012,
        4,
        2**31 - 2,
    )
    assert (after.base_offset, after.leader_epoch, after.compression_type) == (0, -1, codec)
    assert bytes(raw[61:]) == payload
    assert decode(raw) == [one._replace(offset=one.offset - 700) for one in numbered(700, 4)]


def test_stamp_clears_the_sources_transaction_and_delete_horizon_only() -> None:
    """Both bits mean nothing on the target; the codec and the timestamp type stay."""
    raw = encode(
        numbered(0, 2), codec=3, attributes=TRANSACTIONAL | DELETE_HORIZON | LOG_APPEND_TIME
    )

    stamp(memoryview(raw), 1, 0, 0)

    assert header(raw).attributes == 3 | LOG_APPEND_TIME


def test_stamping_again_gives_the_same_bytes() -> None:
    """A resend is the same request."""
    raw = encode(numbered(8, 2), attributes=TRANSACTIONAL)
    stamp(memoryview(raw), 1, 2, 3)
    first = bytes(raw)

    stamp(memoryview(raw), 1, 2, 3)

    assert bytes(raw) == first


def test_built_record_batches_are_read_by_another_decoder() -> None:
    """Keys and values may be empty or null; offsets count from zero."""
    records = [(b"k", b"v"), (None, b"x" * 300), (b"", None), (b"key", b"")]
    raw = build_key_value_batch(records)
    stamp(memoryview(raw), -1, -1, -1)

    decoded = decode(raw)

    assert [(one.key, one.value) for one in decoded] == records
    assert [one.offset for one in decoded] == [0, 1, 2, 3]
    assert len({one.timestamp for one in decoded}) == 1
    assert header(raw).max_timestamp == decoded[0].timestamp
    assert header(raw).producer_id == -1


def test_a_built_record_batch_of_many_records_keeps_its_count() -> None:
    """Offset deltas grow beyond one varint byte."""
    raw = build_key_value_batch([(b"%d" % index, None) for index in range(300)])
    stamp(memoryview(raw), -1, -1, -1)

    assert [one.offset for one in decode(raw)] == list(range(300))
    assert (header(raw).records_count, header(raw).last_offset_delta) == (300, 299)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_are_read_by_another_decoder(value: int) -> None:
    """The whole 64-bit range."""
    encoded = encode_varint(value)

    assert decode_varint(bytearray(encoded)) == (value, len(encoded))


@pytest.mark.parametrize("delta", [b"\x00", b"\x01", b"\x80\x01", b"\xff" * 9 + b"\x01"])
@pytest.mark.parametrize("commits", [True, False])
def test_markers_are_distinguished_whatever_their_timestamp_delta(
    *, commits: bool, delta: bytes
) -> None:
    """The marker's type stands behind a varint of one to ten bytes."""
    batch = RecordBatch(memoryview(marker(5, 1, commits=commits, timestamp_delta=delta)))

    batch.verify()
    assert batch.is_control
    assert batch.is_abort_marker() is not commits


@pytest.mark.parametrize(
    ("name", "codec"), [("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_what_a_java_producer_left_in_a_log_is_understood(name: str, codec: int) -> None:
    """Golden bytes of Java's own encoder, codec by codec."""
    batches = list(split_batches(memoryview(bytearray((GOLDEN / f"java-{name}.bin").read_bytes()))))

    for batch in batches:
        batch.verify()
        assert batch.attributes & 7 == codec
    assert sum(batch.count for batch in batches) == 20
    decoded = [record for batch in batches for record in decode(batch.view)]
    assert decoded[7] == Record(
        7,
        decoded[7].timestamp,
        b"key-7",
        b"value 7 of %s, repeated repeated repeated" % name.encode(),
        (("trace", b"7"), ("codec", name.encode())),
    )


def test_a_brokers_own_markers_are_distinguished() -> None:
    """Golden bytes of a committed and then an aborted transaction, markers written by a broker."""
    raw = bytearray((GOLDEN / "transactions.bin").read_bytes())

    markers = [batch for batch in split_batches(memoryview(raw)) if batch.is_control]

    assert [batch.is_abort_marker() for batch in markers] == [False, True]
