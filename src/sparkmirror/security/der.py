# SPDX-License-Identifier: Apache-2.0
"""As much of ASN.1 as stores need: one value after the other.

u8    tag; bit 6: there are values inside; the lower five bits all set: more bytes of it follow
u8    length, or 0x80 + n and then n bytes of length; 0x80 alone: until two zeros

Keytool and OpenSSL write DER, which has one way to say a thing. Browsers write BER, which has
lengths that nobody knows beforehand, and octets in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

SEQUENCE = 0x30
OCTETS = 0x04
_OCTETS_IN_PIECES = 0x24
_INTEGER = 0x02
_END = 0x00
_HAS_VALUES = 0x20
_LONG_TAG = 0x1F
_MORE = 0x80
_UNTIL_END = 0x80
_MOST_VALUES = 500_000
_DEEPEST = 64
_NUMBER_BYTES = 8  # a longer number is none of iterations


class DerValue(NamedTuple):
    """One value, and what follows it."""

    tag: int
    content: memoryview
    rest: memoryview


class _Header(NamedTuple):
    tag: int
    size: int  # of the head itself
    length: int | None  # None: until two zeros


def first_value(data: memoryview) -> DerValue:
    """The value at the front, of DER; ValueError if there is none that is whole."""
    head = _head(data)
    end = head.size + (head.length or 0)
    return DerValue(head.tag, data[head.size : end], data[end:])


def all_values(data: memoryview) -> Iterator[DerValue]:
    """One after the other, of DER; ValueError at the first that is not whole."""
    while data:
        value = first_value(data)
        yield value
        data = value.rest


def kdf_work_factors(data: bytes) -> list[tuple[int, ...]]:
    """The numbers that stand right after octets, wherever that is: how much work a password makes.

    PBKDF2 and its elders have a salt and the number of iterations, scrypt has a salt and three
    numbers. Whoever opens a store does that much, so one should look before. What cannot be read is
    passed over, since it will not be opened either; ValueError if there is no end of it.
    """
    search = _Search()
    search.visit(memoryview(data), 0)
    return search.found


class _Search:
    def __init__(self) -> None:
        self.found: list[tuple[int, ...]] = []
        self._left = _MOST_VALUES

    def visit(self, data: memoryview, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("it has too many parts")
        before = _END
        for tag, group in groupby(self._neighbours(data), key=attrgetter("tag")):
            contents = [value.content for value in group]
            if tag == _INTEGER and before == OCTETS and len(contents[0]) <= _NUMBER_BYTES:
                self.found.append(tuple(map(int.from_bytes, contents)))
            elif tag == OCTETS:
                joined = contents[0] if len(contents) == 1 else memoryview(b"".join(contents))
                if joined and joined[0] == SEQUENCE:
                    self.visit(joined, depth + 1)
            elif tag & _HAS_VALUES:
                for content in contents:
                    self.visit(content, depth + 1)
            before = tag

    def _neighbours(self, data: memoryview) -> Iterator[DerValue]:
        """What stands side by side; values without a length, and pieces, are taken for that."""
        while data:
            self._left -= 1
            if not self._left:
                raise ValueError("it has too many parts")
            try:
                head = _head(data)
            except ValueError:
                return
            if head.tag == _OCTETS_IN_PIECES or head.length is None:
                data = data[head.size :]
                continue
            end = head.size + head.length
            if head.tag != _END:
                yield DerValue(head.tag, data[head.size : end], data[end:])
            data = data[end:]


def _head(data: memoryview) -> _Header:
    """ValueError if the value is not whole."""
    at = 1
    if data and data[0] & _LONG_TAG == _LONG_TAG:
        while at < len(data) and data[at] & _MORE:
            at += 1
        at += 1
    if at >= len(data):
        raise ValueError("it ends too early")
    length, at = data[at], at + 1
    if length == _UNTIL_END:
        return _Header(data[0], at, None)
    if length > _UNTIL_END:
        count = length - _UNTIL_END
        length = int.from_bytes(data[at : at + count])
        at += count
    if at + length > len(data):
        raise ValueError("it ends too early")
    return _Header(data[0], at, length)
