# SPDX-License-Identifier: Apache-2.0
"""Keys and fields of Connect's config and status topics, read from bytes of unknown origin.

A reader of these topics meets records of older and newer workers, and whatever else somebody has
written there. What cannot be read is an `UnreadableRecord`, never an exception, for a worker must
start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_json import Json, decode, encode

T = TypeVar("T")

Config: TypeAlias = Mapping[str, str | None]
JsonObject: TypeAlias = dict[str, Json]
LARGEST_INT = 2**31 - 1  # of Java's
LARGEST_LONG = 2**63 - 1

_TASK_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that nobody here understands, and why."""

    reason: str
    is_json: bool = True


def read_record(
    key: bytes | None,
    value: bytes | None,
    readers: Mapping[str, Callable[[str, JsonObject | None], T]],
) -> T | UnreadableRecord:
    """What the reader for the key's prefix makes of the rest of the key and of the fields.

    It gets None in place of fields for a deletion, and raises WireError if it cannot make sense.
    """
    text = key_text(key)
    what = f"the record with key {text!r}"
    try:
        found = None if value is None else decode(value, what)
    except WireError as error:
        return UnreadableRecord(str(error), is_json=False)
    if found is not None and not isinstance(found, dict):
        return UnreadableRecord(f"{what} is no JSON object.")
    for prefix, read in readers.items():
        if text.startswith(prefix):
            try:
                return read(text.removeprefix(prefix), found)
            except WireError as error:
                return UnreadableRecord(f"{what}: {error}")
    return UnreadableRecord(f"{what} is of no known kind.")


def key_bytes(text: str) -> bytes:
    """A key as Java writes it: half a character becomes a question mark."""
    return text.encode(errors="replace")


def key_text(key: bytes | None) -> str:
    """A key as Java reads it: bytes that are no text do not stop it."""
    return (key or b"").decode(errors="replace")


def require_name(text: str) -> str:
    """The connector that a key ends with."""
    if not text:
        raise WireError("its key names nothing")
    return text


def parse_task_name(text: str) -> tuple[str, int]:
    """Connector and task of a key's end; the name of a connector may hold dashes and digits."""
    connector, _, number = text.rpartition("-")
    if not connector or not _TASK_NUMBER.fullmatch(number) or int(number) > LARGEST_INT:
        raise WireError("its key names no task")
    return connector, int(number)


def require_fields(fields: JsonObject | None) -> JsonObject:
    """The fields of a record that nobody deletes."""
    if fields is None:
        raise WireError("it is empty")
    return fields


def get_text(fields: JsonObject, name: str) -> str:
    """A field that must be a text."""
    found = fields.get(name)
    if not isinstance(found, str):
        raise WireError(f"it has no text '{name}'")
    return replace_surrogates(found)


def get_text_or_none(fields: JsonObject, name: str) -> str | None:
    """A field that is a text or missing."""
    found = fields.get(name)
    return replace_surrogates(found) if isinstance(found, str) else None


def get_int(fields: JsonObject, name: str, largest: int = LARGEST_INT) -> int:
    """A field that must be a whole number, not below 0."""
    found = fields.get(name)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= largest:
        raise WireError(f"it has no whole number '{name}' between 0 and {largest}")
    return found


def get_properties(fields: JsonObject) -> Config:
    """A configuration; values that are not texts (nobody should write any) become some."""
    found = fields.get("properties")
    if not isinstance(found, dict):
        raise WireError("it has no object 'properties'")
    return {replace_surrogates(name): _config_value(value) for name, value in found.items()}


def _config_value(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else replace_surrogates(value)
    return replace_surrogates(encode(value).decode())


def replace_surrogates(text: str) -> str:
    """The text with half characters as question marks, as Java would pass them on."""
    return text if text.isascii() else text.encode(errors="replace").decode()
