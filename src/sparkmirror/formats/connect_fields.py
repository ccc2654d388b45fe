# SPDX-License-Identifier: Apache-2.0
"""Keys and fields of Connect's config and status topics, decoded from untrusted bytes.

The topics may contain records of older and newer workers, and of other programs. An undecodable
record becomes an `UnreadableRecord`, never an exception, because a worker must start.
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
MAX_INT = 2**31 - 1  # Java's
MAX_LONG = 2**63 - 1

_TASK_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that could not be decoded, with the reason."""

    reason: str
    is_json: bool = True


def read_record(
    key: bytes | None,
    value: bytes | None,
    readers: Mapping[str, Callable[[str, JsonObject | None], T]],
) -> T | UnreadableRecord:
    """Decode a record with the reader for its key's prefix.

    The reader gets the rest of the key and the fields (None for a deletion), and may raise
    WireError.
    """
    text = key_text(key)
    what = f"the record with key {text!r}"
    try:
        found = None if value is None else decode(value, what)
    except WireError as error:
        return UnreadableRecord(str(error), is_json=False)
    if found is not None and not isinstance(found, dict):
        return UnreadableRecord(f"{what} is not a JSON object.")
    for prefix, read in readers.items():
        if text.startswith(prefix):
            try:
                return read(text.removeprefix(prefix), found)
            except WireError as error:
                return UnreadableRecord(f"{what}: {error}")
    return UnreadableRecord(f"{what} has an unknown key.")


def key_bytes(text: str) -> bytes:
    """Encode a key as Java does: a lone surrogate becomes a question mark."""
    return text.encode(errors="replace")


def key_text(key: bytes | None) -> str:
    """Decode a key as Java does: invalid bytes are replaced."""
    return (key or b"").decode(errors="replace")


def require_name(text: str) -> str:
    """Return the connector name at the end of a key. Raises WireError if it is empty."""
    if not text:
        raise WireError("its key has no connector name")
    return text


def parse_task_name(text: str) -> tuple[str, int]:
    """Split connector and task at the end of a key; names may contain dashes and digits."""
    connector, _, number = text.rpartition("-")
    if not connector or not _TASK_NUMBER.fullmatch(number) or int(number) > MAX_INT:
        raise WireError("its key has no task number")
    return connector, int(number)


def require_fields(fields: JsonObject | None) -> JsonObject:
    """Return the fields. Raises WireError for a deletion."""
    if fields is None:
        raise WireError("it has no value")
    return fields


def get_text(fields: JsonObject, name: str) -> str:
    """Return a required string."""
    found = fields.get(name)
    if not isinstance(found, str):
        raise WireError(f"it has no string '{name}'")
    return replace_surrogates(found)


def get_text_or_none(fields: JsonObject, name: str) -> str | None:
    """Return an optional string."""
    found = fields.get(name)
    return replace_surrogates(found) if isinstance(found, str) else None


def get_int(fields: JsonObject, name: str, max_value: int = MAX_INT) -> int:
    """Return a required integer between 0 and `max_value`."""
    found = fields.get(name)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= max_value:
        raise WireError(f"it has no integer '{name}' between 0 and {max_value}")
    return found


def get_properties(fields: JsonObject) -> Config:
    """Return a configuration; values that are not strings are converted."""
    found = fields.get("properties")
    if not isinstance(found, dict):
        raise WireError("it has no object 'properties'")
    return {replace_surrogates(name): _config_value(value) for name, value in found.items()}


def _config_value(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else replace_surrogates(value)
    return replace_surrogates(encode(value).decode())


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by question marks, as Java does."""
    return text if text.isascii() else text.encode(errors="replace").decode()
