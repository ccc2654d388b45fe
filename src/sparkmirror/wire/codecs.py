# SPDX-License-Identifier: Apache-2.0
"""The five compression codecs of a record batch, as Kafka's Java clients write and read them.

lz4 needs frames with independent blocks. snappy uses the framing of the Java library snappy-java (a
16-byte header, then blocks with a four-byte length each).

A few corrupt or malicious bytes can expand to gigabytes, so decompression has a size limit.
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import lz4.frame

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.quantities import format_bytes

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_DECOMPRESSED_BYTES = (
    256 << 20
)  # limit for one record batch; the brokers' default max.message.bytes is 1 MiB

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")
_GZIP_WINDOW = 31  # zlib's wbits for a gzip header
_FIRST_GUESS = 16 * 1024
_LZ4_GROWTH = 255  # the largest compression ratio of an lz4 block
_LZ4_FLAGS_AT = 4
_LZ4_HAS_SIZE = 0x08  # the frame's header has a content size
_NO_ROOM = "failed to write whole buffer"  # cramjam's error if the output buffer is too small


def codec_id(name: str | None) -> int | None:
    """The codec of a compression.type; None keeps the codec of the source."""
    return None if name is None else NAMES.index(name)


def decompress(codec: int, body: memoryview) -> bytes:
    """Decompress the records of one batch, up to MAX_DECOMPRESSED_BYTES."""
    plain = decompress_within(codec, body, MAX_DECOMPRESSED_BYTES)
    if plain is None:
        raise CorruptRecordBatchError(
            f"one record batch with codec {codec} decompresses to more than "
            f"{format_bytes(MAX_DECOMPRESSED_BYTES)}"
        )
    return plain


def decompress_within(codec: int, body: memoryview, most: int) -> bytes | None:
    """Decompress the records of one batch; None if they are larger than `most` bytes."""
    try:
        if codec == NONE:
            return bytes(body) if len(body) <= most else None
        if codec == GZIP:
            return _gunzip(body, most)
        if codec == SNAPPY:
            return _unsnap(body, most)
        if codec == LZ4:
            return _unlz4(body, most)
        if codec == ZSTD:
            return _unzstd(body, most)
    except (zlib.error, RuntimeError, cramjam.DecompressionError, struct.error) as error:
        raise CorruptRecordBatchError(
            f"codec {codec} cannot decompress the record batch: {error}"
        ) from error
    raise CorruptRecordBatchError(f"unknown compression codec {codec}")


def compress(codec: int, body: bytes) -> bytes:
    if codec == NONE:
        return body
    if codec == GZIP:
        packer = zlib.compressobj(wbits=_GZIP_WINDOW)
        return packer.compress(body) + packer.flush()
    if codec == SNAPPY:
        blocks = [
            bytes(cramjam.snappy.compress_raw(body[at : at + _XERIAL_BLOCK]))
            for at in range(0, len(body), _XERIAL_BLOCK)
        ]
        return _XERIAL_HEADER + b"".join(_BLOCK_LENGTH.pack(len(b)) + b for b in blocks)
    if codec == LZ4:
        return bytes(lz4.frame.compress(body, block_linked=False, store_size=False))
    return bytes(cramjam.zstd.compress(body))


def _gunzip(body: memoryview, most: int) -> bytes | None:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    plain = unpacker.decompress(body, most + 1)
    if len(plain) > most:
        return None
    if not unpacker.eof:
        raise _truncated(GZIP)
    return plain


def _unlz4(body: memoryview, most: int) -> bytes | None:
    has_size = len(body) > _LZ4_FLAGS_AT and body[_LZ4_FLAGS_AT] & _LZ4_HAS_SIZE
    if not has_size and _LZ4_GROWTH * len(body) <= most:
        return bytes(lz4.frame.decompress(body))
    # In steps, because the library allocates whatever size the frame's header claims.
    unpacker = lz4.frame.LZ4FrameDecompressor()
    step = min(most, max(_FIRST_GUESS, 4 * len(body))) + 1
    plain: bytes = unpacker.decompress(body, step)
    parts, size = [plain], len(plain)
    while not unpacker.eof and size <= most:
        if unpacker.needs_input:
            raise _truncated(LZ4)
        plain = unpacker.decompress(b"", step)
        parts.append(plain)
        size += len(plain)
    if size > most:
        return None
    return b"".join(parts) if len(parts) > 1 else plain


def _unzstd(body: memoryview, most: int) -> bytes | None:
    room = min(most, max(_FIRST_GUESS, 8 * len(body)))
    while True:
        plain = bytearray(room)
        try:
            size = cramjam.zstd.decompress_into(body, plain)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
            if room == most:
                return None
            room = min(most, 8 * room)
        else:
            return bytes(memoryview(plain)[:size])


def _unsnap(body: memoryview, most: int) -> bytes | None:
    if bytes(body[:8]) != _XERIAL_HEADER[:8]:
        return _unsnap_block(body, most)
    parts: list[bytes] = []
    position, left = len(_XERIAL_HEADER), most
    while position < len(body):
        (size,) = _BLOCK_LENGTH.unpack_from(body, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= size <= len(body) - position:
            raise _truncated(SNAPPY)
        block = _unsnap_block(body[position : position + size], left)
        if block is None:
            return None
        parts.append(block)
        left -= len(block)
        position += size
    return b"".join(parts)


def _unsnap_block(block: memoryview, most: int) -> bytes | None:
    if cramjam.snappy.decompress_raw_len(block) > most:
        return None
    return bytes(cramjam.snappy.decompress_raw(block))


def _truncated(codec: int) -> CorruptRecordBatchError:
    return CorruptRecordBatchError(
        f"codec {codec} cannot decompress the record batch: the data is truncated"
    )
