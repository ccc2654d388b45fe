# SPDX-License-Identifier: Apache-2.0
"""The five compression codecs of a record batch, in the dialects Kafka's Java code reads.

lz4 needs frames with independent blocks, snappy is wrapped in the framing of the Java snappy
library (a 16-byte header, then blocks with a four-byte length each).
"""

from __future__ import annotations

import struct
import zlib
from typing import cast

import cramjam
import lz4.frame

from sparkmirror.errors import CorruptRecordBatchError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_GZIP_WINDOW = 31  # zlib's number for a gzip header


def decompress(codec: int, body: memoryview) -> bytes | memoryview:
    """The records as they were before compression."""
    try:
        if codec == NONE:
            return body
        if codec == GZIP:
            return zlib.decompress(body, _GZIP_WINDOW)
        if codec == SNAPPY:
            return _snappy_decompress(body)
        if codec == LZ4:
            return cast("bytes", lz4.frame.decompress(body))
        if codec == ZSTD:
            return bytes(cramjam.zstd.decompress(body))
    except (zlib.error, RuntimeError, cramjam.DecompressionError, struct.error) as error:
        raise CorruptRecordBatchError(f"codec {codec} cannot decompress it: {error}") from error
    raise CorruptRecordBatchError(f"unknown compression codec {codec}")


def compress(codec: int, body: bytes) -> bytes:
    """The records compressed with the codec their batch had."""
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
        return _XERIAL_HEADER + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    if codec == LZ4:
        return cast("bytes", lz4.frame.compress(body, block_linked=False, store_size=False))
    return bytes(cramjam.zstd.compress(body))


def _snappy_decompress(body: memoryview) -> bytes:
    if bytes(body[:8]) != _XERIAL_HEADER[:8]:
        return bytes(cramjam.snappy.decompress_raw(body))
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(body):
        (size,) = struct.unpack_from(">i", body, position)
        position += 4
        out += bytes(cramjam.snappy.decompress_raw(body[position : position + size]))
        position += size
    return bytes(out)
