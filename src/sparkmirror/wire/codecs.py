# SPDX-License-Identifier: Apache-2.0
"""The five compression codecs of a record batch, in the dialects Kafka's Java code reads.

lz4 needs frames with independent blocks, snappy is wrapped in the framing of the Java snappy
library (a 16-byte header, then blocks with a four-byte length each).

A few damaged or hostile bytes can claim to be gigabytes: nothing is decompressed beyond a bound.
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import lz4.frame

from sparkmirror.errors import CorruptRecordBatchError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_DECOMPRESSED_BYTES = (
    256 << 20
)  # what one record batch may hold; brokers take 1 MiB unless told otherwise

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")
_GZIP_WINDOW = 31  # zlib's number for a gzip header
_FIRST_GUESS = 16 * 1024
_LZ4_GROWTH = 255  # a block never says more than this many times what it is
_LZ4_FLAGS_AT = 4
_LZ4_HAS_SIZE = 0x08  # the frame's header claims a size
_NO_ROOM = "failed to write whole buffer"  # how cramjam says that the output was too small


def codec_id(name: str | None) -> int | None:
    """The codec that compression.type names; None for none in particular."""
    return None if name is None else NAMES.index(name)


def decompress(codec: int, body: memoryview) -> bytes:
    """The records as they were before compression."""
    plain = decompress_within(codec, body, MAX_DECOMPRESSED_BYTES)
    if plain is None:
        raise CorruptRecordBatchError(
            f"codec {codec} makes more than {MAX_DECOMPRESSED_BYTES >> 20} MiB of one record batch"
        )
    return plain


def decompress_within(codec: int, body: memoryview, most: int) -> bytes | None:
    """The records as they were before compression; None if they are larger than `most`."""
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
        raise CorruptRecordBatchError(f"codec {codec} cannot decompress it: {error}") from error
    raise CorruptRecordBatchError(f"unknown compression codec {codec}")


def compress(codec: int, body: bytes) -> bytes:
    """The records compressed."""
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
        raise CorruptRecordBatchError(f"codec {GZIP} cannot decompress it: it is cut off")
    return plain


def _unlz4(body: memoryview, most: int) -> bytes | None:
    has_size = len(body) > _LZ4_FLAGS_AT and body[_LZ4_FLAGS_AT] & _LZ4_HAS_SIZE
    if not has_size and _LZ4_GROWTH * len(body) <= most:
        return bytes(lz4.frame.decompress(body))
    # Step by step: the library sets aside whatever the frame claims to hold.
    unpacker = lz4.frame.LZ4FrameDecompressor()
    step = min(most, max(_FIRST_GUESS, 4 * len(body))) + 1
    plain: bytes = unpacker.decompress(body, step)
    parts, size = [plain], len(plain)
    while not unpacker.eof and size <= most:
        if unpacker.needs_input:
            raise CorruptRecordBatchError(f"codec {LZ4} cannot decompress it: it is cut off")
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
            raise CorruptRecordBatchError(f"codec {SNAPPY} cannot decompress it: it is cut off")
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
