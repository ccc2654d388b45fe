# SPDX-License-Identifier: Apache-2.0
"""A minimal ASN.1 reader for keystores and certificates.

u8    tag; bit 6: constructed; the lower five bits all set: more tag bytes follow
u8    length, or 0x80 + n and then n bytes of length; 0x80 alone: indefinite, until two zero bytes

keytool and OpenSSL write DER. Browsers write BER, with indefinite lengths and OCTET STRINGs in
segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

SEQUENCE = 0x30
OCTETS = 0x04
_SEGMENTED_OCTETS = 0x24
_INTEGER = 0x02
_END = 0x00
_CONSTRUCTED = 0x20
_LONG_TAG = 0x1F
_MORE = 0x80
_INDEFINITE = 0x80
_MAX_VALUES = 500_000
_MAX_DEPTH = 64
_NUMBER_BYTES = 8  # a longer number is not an iteration count
_TRUNCATED = "it is truncated"


class DerValue(NamedTuple):
    """One value, and the bytes after it."""

    tag: int
    content: memoryview
    rest: memoryview


class _Header(NamedTuple):
    tag: int
    size: int  # of the header
    length: int | None  # of the content; None: indefinite


def first_value(data: memoryview) -> DerValue:
    """Return the first value of DER. Raises ValueError if it is truncated."""
    header = _header(data)
    end = header.size + (header.length or 0)
    return DerValue(header.tag, data[header.size : end], data[end:])


def all_values(data: memoryview) -> Iterator[DerValue]:
    """Yield the values of DER. Raises ValueError at the first truncated one."""
    while data:
        value = first_value(data)
        yield value
        data = value.rest


def kdf_work_factors(data: bytes) -> list[tuple[int, ...]]:
    """Return the cost parameters of all password-based key derivations in a store.

    These are the INTEGERs right after an OCTET STRING, at any depth: salt and iterations in PBKDF2
    and older schemes, salt and three numbers in scrypt. Callers check them before they open a
    store. Undecodable parts are skipped: nothing can open them. Raises ValueError if the store has
    too many values.
    """
    search = _Search()
    search.visit(memoryview(data), 0)
    return search.found


class _Search:
    def __init__(self) -> None:
        self.found: list[tuple[int, ...]] = []
        self._left = _MAX_VALUES

    def visit(self, data: memoryview, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError("it has too many parts")
        before = _END
        for tag, group in groupby(self._siblings(data), key=attrgetter("tag")):
            contents = [value.content for value in group]
            if tag == _INTEGER and before == OCTETS and len(contents[0]) <= _NUMBER_BYTES:
                self.found.append(tuple(map(int.from_bytes, contents)))
            elif tag == OCTETS:
                joined = contents[0] if len(contents) == 1 else memoryview(b"".join(contents))
                if joined and joined[0] == SEQUENCE:
                    self.visit(joined, depth + 1)
            elif tag & _CONSTRUCTED:
                for content in contents:
                    self.visit(content, depth + 1)
            before = tag

    def _siblings(self, data: memoryview) -> Iterator[DerValue]:
        """Yield adjacent values; indefinite and segmented ones are replaced by their content."""
        while data:
            self._left -= 1
            if not self._left:
                raise ValueError("it has too many parts")
            try:
                header = _header(data)
            except ValueError:
                return
            if header.tag == _SEGMENTED_OCTETS or header.length is None:
                data = data[header.size :]
                continue
            end = header.size + header.length
            if header.tag != _END:
                yield DerValue(header.tag, data[header.size : end], data[end:])
            data = data[end:]


def _header(data: memoryview) -> _Header:
    """Raises ValueError if the value is truncated."""
    at = 1
    if data and data[0] & _LONG_TAG == _LONG_TAG:
        while at < len(data) and data[at] & _MORE:
            at += 1
        at += 1
    if at >= len(data):
        raise ValueError(_TRUNCATED)
    length, at = data[at], at + 1
    if length == _INDEFINITE:
        return _Header(data[0], at, None)
    if length > _INDEFINITE:
        count = length - _INDEFINITE
        length = int.from_bytes(data[at : at + count])
        at += count
    if at + length > len(data):
        raise ValueError(_TRUNCATED)
    return _Header(data[0], at, length)
