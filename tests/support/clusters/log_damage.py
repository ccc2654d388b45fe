# SPDX-License-Identifier: Apache-2.0
"""Damages the log of a stopped broker on disk, like bad disks and unclean elections do."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_PREFIX = struct.Struct(">qi")  # base offset, length of what follows
_PREFIX_SIZE = 12
_HEADER_SIZE = 61
_LAST_DELTA_AT = 23


def _log(data: Path, topic: str, partition: int) -> Path:
    (segment,) = (data / f"{topic}-{partition}").glob("*.log")
    return segment


def _batches(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Where each record batch begins and ends, and its first and last offset."""
    at = 0
    while at + _HEADER_SIZE <= len(content):
        base, length = _PREFIX.unpack_from(content, at)
        if length <= 0:
            return  # preallocated zeros
        end = at + _PREFIX_SIZE + length
        (delta,) = struct.unpack_from(">i", content, at + _LAST_DELTA_AT)
        yield at, end, base, base + delta
        at = end


def corrupt(data: Path, topic: str, partition: int, offset: int) -> tuple[int, int]:
    """Flip a byte in the records of the batch that holds an offset; its first and last offset."""
    segment = _log(data, topic, partition)
    content = bytearray(segment.read_bytes())
    for _at, end, first, last in _batches(bytes(content)):
        if first <= offset <= last:
            content[end - 3] ^= 0xFF
            segment.write_bytes(content)
            return first, last
    raise LookupError(f"{segment} holds no offset {offset}")


def truncate(data: Path, topic: str, partition: int, keep: int) -> int:
    """Cut the log off behind the batch that holds offset `keep - 1`; the new end offset.

    What a broker remembers of producers behind that end goes as well. Segments behind it go whole,
    but for the first one.
    """
    folder = data / f"{topic}-{partition}"
    end = 0
    for number, segment in enumerate(sorted(folder.glob("*.log"))):
        end = end if number else int(segment.stem)
        if number and int(segment.stem) >= keep:
            segment.unlink()
            continue
        content, size = segment.read_bytes(), 0
        for _at, after, first, last in _batches(content):
            if first < keep:
                size, end = after, last + 1
        segment.write_bytes(content[:size])
    for index in folder.glob("*index"):
        index.unlink()
    for snapshot in folder.glob("*.snapshot"):
        if int(snapshot.stem) > end:
            snapshot.unlink()
    return end
