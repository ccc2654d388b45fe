# SPDX-License-Identifier: Apache-2.0
"""As much of DER (ASN.1) as stores need: one value after the other.

u8    tag; bit 6: there are values inside
u8    length, or 0x80 + n and then n bytes of length
"""

from __future__ import annotations

from typing import NamedTuple

SEQUENCE = 0x30
OCTETS = 0x04
_INTEGER = 0x02
_HAS_VALUES = 0x20
_LONG_FORM = 0x80
_MOST_VALUES = 500_000
_ITERATION_BYTES = 8  # a longer number is none of iterations


class Value(NamedTuple):
    """One value, and what follows it."""

    tag: int
    content: memoryview
    rest: memoryview


def first_value(data: memoryview) -> Value:
    """The value at the front; ValueError if there is none that is whole."""
    if len(data) < 2:  # noqa: PLR2004 - tag and length
        raise ValueError("it ends too early")
    tag, length, at = data[0], data[1], 2
    if length >= _LONG_FORM:
        at += length - _LONG_FORM
        length = int.from_bytes(data[2:at])
    if at + length > len(data):
        raise ValueError("it ends too early")
    return Value(tag, data[at : at + length], data[at + length :])


def most_iterations(data: bytes) -> int:
    """The largest number that may be an iteration count: one that stands right after a salt.

    Whoever opens a store does that many rounds, so one should look before. What cannot be read is
    passed over, since it will not be opened either; ValueError if there is no end of it.
    """
    most, before = 0, 0
    waiting = [memoryview(data)]
    for _ in range(_MOST_VALUES):
        try:
            value = first_value(waiting.pop())
        except IndexError:
            return most
        except ValueError:
            before = 0
            continue
        if value.tag == _INTEGER and before == OCTETS and len(value.content) <= _ITERATION_BYTES:
            most = max(most, int.from_bytes(value.content))
        before = value.tag
        if value.rest:
            waiting.append(value.rest)
        if value.content and (value.tag & _HAS_VALUES or value.content[0] == SEQUENCE):
            waiting.append(value.content)  # also DER inside of octets
    raise ValueError("it has too many parts")
