# SPDX-License-Identifier: Apache-2.0
"""The primitive types of MM2's binary records, and the partition of a key.

    INT16, INT32, INT64   big-endian two's complement
    STRING                INT16 byte length (0 to 32767, never null), then UTF-8 bytes

Fields have no padding; bytes after the last field are ignored, as in Java.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from kafka.partitioner import murmur2

from sparkmirror.errors import UnknownVersionError, WireError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_MAX_STRING_BYTES = 32_767


def pack_int16(number: int) -> bytes:
    return _pack(_INT16, number)


def pack_int32(number: int) -> bytes:
    return _pack(_INT32, number)


def pack_int64(number: int) -> bytes:
    return _pack(_INT64, number)


def pack_string(text: str) -> bytes:
    """Encode a STRING. Raises WireError if it is too long."""
    encoded = text.encode()
    if len(encoded) > _MAX_STRING_BYTES:
        raise WireError(
            f"A string of {len(encoded)} bytes does not fit into a record of MM2's format; "
            f"the maximum is {_MAX_STRING_BYTES}."
        )
    return _INT16.pack(len(encoded)) + encoded


class FieldReader:
    """Reads fields in order; `what` names the record in errors."""

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._what = what

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        length = self.int16()
        if length < 0:
            raise WireError(f"{self._what} has a string of negative length {length}.")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise WireError(f"{self._what} has a string that is not UTF-8: {error}.") from error

    def raw(self, size: int) -> bytes:
        return self._take(size)

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def version(self, known: int) -> None:
        """Read the INT16 version of a value. Raises UnknownVersionError unless it is `known`."""
        version = self.int16()
        if version != known:
            raise UnknownVersionError(
                f"{self._what} has version {version}; only version {known} is supported. "
                f"A newer program wrote it."
            )

    def _number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack(self._take(layout.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise WireError(
                f"{self._what} ends after {len(self._data)} bytes; "
                f"a field needs {end - len(self._data)} more."
            )
        taken = self._data[self._position : end]
        self._position = end
        return taken


def _pack(layout: struct.Struct, number: int) -> bytes:
    try:
        return layout.pack(number)
    except struct.error as error:
        raise WireError(f"The number {number} does not fit its field: {error}.") from error


@lru_cache(maxsize=1 << 14)  # positions are written with the same keys at every flush
def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition that a Java producer chooses for this key.

    Compaction works per partition: a key in another partition than Java's has two live values.
    """
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
