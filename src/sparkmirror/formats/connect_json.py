# SPDX-License-Identifier: Apache-2.0
"""JSON as Connect's schemaless converter writes it.

UTF-8, no white space, only mandatory escapes, fields in insertion order. Java's library writes
escapes in upper case, and characters beyond U+FFFF (an emoji in a group name) as two escapes.
Connect finds an offset by the raw bytes of its key, so the text must be exact.
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias

from sparkmirror.errors import WireError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_SPECIAL = re.compile(r"\\(?:u[0-9a-f]{4}|.)|[^\u0000-\uffff]")


def encode(value: Json) -> bytes:
    """Encode as Java does."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if not text.isascii() or "\\u" in text:
        text = _SPECIAL.sub(_as_java, text)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"{text!r} contains a lone surrogate and cannot be encoded.") from error


def _as_java(found: re.Match[str]) -> str:
    special = found[0]
    if special.startswith("\\u"):
        return f"\\u{special[2:].upper()}"
    if special.startswith("\\"):
        return special
    high, low = divmod(ord(special) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def decode(data: bytes, what: str) -> Json:
    """Decode; `what` names the record in the error."""
    try:
        value: Json = json.loads(data)
    # RecursionError: a million brackets. ValueError: also a number of 5,000 digits.
    except (ValueError, RecursionError) as error:
        raise WireError(f"{what} is not JSON: {error}.") from error
    return value
