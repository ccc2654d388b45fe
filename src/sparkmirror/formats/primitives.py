# SPDX-License-Identifier: Apache-2.0
"""The four primitive types of MM2's binary records, read and written in one place.

    INT16, INT32, INT64   big-endian two's complement
    STRING                INT16 byte length (0 to 32767, never null), then UTF-8 bytes

Fields follow each other without padding; bytes after the last field are ignored, as Java does.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from kafka.partitioner import murmur2

from sparkmirror.errors import UnknownVersionError, WireError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_LONGEST_STRING = 32_767


def pack_int16(number: int) -> bytes:
    """INT16."""
    return _pack(_INT16, number)


def pack_int32(number: int) -> bytes:
    """INT32."""
    return _pack(_INT32, number)


def pack_int64(number: int) -> bytes:
    """INT64."""
    return _pack(_INT64, number)


def pack_string(text: str) -> bytes:
    """STRING; refuses what its length field cannot hold."""
    encoded = text.encode()
    if len(encoded) > _LONGEST_STRING:
        raise WireError(
            f"A text of {len(encoded)} bytes does not fit into a record of MM2's format, "
            f"which holds at most {_LONGEST_STRING}."
        )
    return _INT16.pack(len(encoded)) + encoded


class FieldReader:
    """Reads fields one after the other; `what` names the record in error sentences."""

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._what = what

    def int16(self) -> int:
        """The next INT16."""
        return self._number(_INT16)

    def int32(self) -> int:
        """The next INT32."""
        return self._number(_INT32)

    def int64(self) -> int:
        """The next INT64."""
        return self._number(_INT64)

    def string(self) -> str:
        """The next STRING."""
        length = self.int16()
        if length < 0:
            raise WireError(f"{self._what} holds a text of negative length {length}.")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise WireError(f"{self._what} holds a text that is not UTF-8: {error}.") from error

    def raw(self, size: int) -> bytes:
        """The next so many bytes."""
        return self._take(size)

    @property
    def is_at_end(self) -> bool:
        """Whether nothing follows."""
        return self._position == len(self._data)

    def version(self, known: int) -> None:
        """The INT16 version in front of a value; only the known one may be read on."""
        version = self.int16()
        if version != known:
            raise UnknownVersionError(
                f"{self._what} has version {version}, and only version {known} is known; "
                f"it was written by a newer program."
            )

    def _number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack(self._take(layout.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise WireError(
                f"{self._what} ends after {len(self._data)} bytes, "
                f"where a field needs {end - len(self._data)} more."
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
    """The partition that a Java producer gives to this key.

    Compaction works per partition: a key in another partition than Java chooses has two live
    values.
    """
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
