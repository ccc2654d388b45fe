# SPDX-License-Identifier: Apache-2.0
"""What we compress, others read; what others compress, we read; garbage is refused."""

from __future__ import annotations

import random
import struct
import tracemalloc

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import gzip_decode, lz4_decode

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire import codecs
from support.data.record_batches import (
    CODECS,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
    raw_snappy,
)

BODIES = {
    "one byte": b"x",
    "text": b"the same words again and again, " * 40,
    "noise": random.Random(1).randbytes(100_000),
    "large": b"a line of a log file that repeats itself\n" * 40_000,
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_round_trip(codec: int, body: bytes) -> None:
    """Nothing changes on the way there and back."""
    packed = codecs.compress(codec, body)

    assert bytes(codecs.decompress(codec, memoryview(packed))) == body


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_other_libraries_read_ours_and_we_read_theirs(codec: int, body: bytes) -> None:
    """Gzip of the standard library and pyarrow's codecs agree with ours in both directions."""
    assert decompress(codec, codecs.compress(codec, body)) == body
    assert bytes(codecs.decompress(codec, memoryview(compress(codec, body)))) == body


@pytest.mark.parametrize(("codec", "decoder"), [(GZIP, gzip_decode), (LZ4, lz4_decode)])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_kafka_python_reads_ours(codec: int, decoder: object, body: bytes) -> None:
    """The decoders that are installed with kafka-python."""
    assert callable(decoder)
    assert decoder(codecs.compress(codec, body)) == body


def test_lz4_frames_have_independent_blocks() -> None:
    """Java's reader refuses frames whose blocks refer to each other."""
    packed = codecs.compress(LZ4, BODIES["large"])

    assert packed[:4] == struct.pack("<I", 0x184D2204)
    assert packed[4] >> 6 == 1, "the version of the frame format"
    assert packed[4] & 0x20, "the flag of independent blocks"


def test_snappy_has_the_framing_of_the_java_library() -> None:
    """A 16-byte header, then blocks of at most 32 KiB with their lengths."""
    body = BODIES["noise"]
    packed = codecs.compress(SNAPPY, body)

    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    sizes, at = [], 16
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        sizes.append(len(raw_snappy(packed[at + 4 : at + 4 + length])))
        at += 4 + length
    assert sizes == [32_768, 32_768, 32_768, len(body) - 3 * 32_768]


def test_snappy_without_framing_is_read_too() -> None:
    """Clients in C and Go write raw blocks."""
    framed = compress(SNAPPY, b"short")

    assert bytes(codecs.decompress(SNAPPY, memoryview(framed[20:]))) == b"short"


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    """Three of the eight values of the codec bits have no meaning."""
    with pytest.raises(CorruptRecordBatchError, match=f"codec {codec}"):
        codecs.decompress(codec, memoryview(b"anything"))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@settings(max_examples=60)
@given(data=st.data())
def test_corrupt_bytes_raise_nothing_else(codec: int, data: st.DataObject) -> None:
    """Damage shows as CorruptRecordBatchError or not at all, never as another exception."""
    packed = bytearray(codecs.compress(codec, b"some words that repeat, repeat, repeat " * 5))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    kept = data.draw(st.integers(0, len(packed)))

    try:
        codecs.decompress(codec, memoryview(packed[:kept]))
    except CorruptRecordBatchError as error:
        assert f"codec {codec}" in str(error)  # noqa: PT017 - either outcome is fine


# --- bounds


def bomb(codec: int) -> memoryview:
    """A few kilobytes that say 30 MB (snappy says it in as many bytes as it takes)."""
    return memoryview(codecs.compress(codec, bytes(30_000_000)))


@pytest.mark.parametrize("codec", CODECS)
def test_nothing_is_decompressed_beyond_the_bound(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be larger is refused with a sentence, and little memory is used to find out."""
    monkeypatch.setattr(codecs, "MAX_DECOMPRESSED_BYTES", 4 << 20)
    packed = bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordBatchError, match=r"more than 4\.2 MB"):
            codecs.decompress(codec, packed)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 << 20


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
def test_the_bound_is_exact(codec: int, size: int) -> None:
    """As many bytes as are allowed pass, one more does not."""
    packed = memoryview(codecs.compress(codec, bytes(size)))

    assert codecs.decompress_within(codec, packed, size) == bytes(size)
    assert codecs.decompress_within(codec, packed, size - 1) is None


def test_the_size_in_an_lz4_frame_is_not_trusted() -> None:
    """A header of a few bytes must not set gigabytes aside."""
    honest = lz4.frame.compress(b"words " * 50, store_size=True)
    assert codecs.decompress_within(LZ4, memoryview(honest), 1_000) == b"words " * 50

    info = bytearray(honest)
    struct.pack_into("<Q", info, 6, 1 << 40)
    info[14] = lz4_header_checksum(bytes(info[4:14]))

    with pytest.raises(CorruptRecordBatchError):
        codecs.decompress(LZ4, memoryview(info))


def lz4_header_checksum(descriptor: bytes) -> int:
    """Found by trial: the library takes the header of a frame only if this byte is right."""
    for guess in range(256):
        try:
            lz4.frame.get_frame_info(struct.pack("<I", 0x184D2204) + descriptor + bytes((guess,)))
        except RuntimeError:
            continue
        return guess
    raise AssertionError("no checksum fits")


@pytest.mark.parametrize("size", [-4, -(2**31), 2**31 - 1])
def test_a_snappy_block_of_an_impossible_length_is_refused(size: int) -> None:
    """A negative one would make the reader go back and never end."""
    packed = bytearray(compress(SNAPPY, b"some words"))
    struct.pack_into(">i", packed, 16, size)

    with pytest.raises(CorruptRecordBatchError, match="truncated"):
        codecs.decompress(SNAPPY, memoryview(packed))


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
@pytest.mark.parametrize("size", [100, 3_000_000])
def test_a_cut_off_body_is_refused(codec: int, size: int) -> None:
    """Half of the records are no records."""
    packed = codecs.compress(codec, random.Random(3).randbytes(size))

    with pytest.raises(CorruptRecordBatchError, match=f"codec {codec}"):
        codecs.decompress(codec, memoryview(packed[:-5]))


def test_codecs_have_the_names_of_compression_type() -> None:
    """None in particular is None."""
    assert [codecs.codec_id(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == [
        *CODECS
    ]
    assert codecs.codec_id(None) is None
