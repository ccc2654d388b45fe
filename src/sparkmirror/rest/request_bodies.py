# SPDX-License-Identifier: Apache-2.0
"""Parses request bodies as Connect's JSON library does.

Where a string is expected, a number or a boolean becomes its literal text: `1.50` is "1.50", `true`
is "true". An unknown property, an object where a string is expected, or invalid JSON is status 500
in Connect, and so it is here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NoReturn

from sparkmirror.connect.api import ApiError
from sparkmirror.connect.offset_alterations import OffsetEntry
from sparkmirror.connectors.offset_reset_plan import EARLIEST, ResetWish
from sparkmirror.formats.connect_json import Json

MALFORMED_STATUS = 500
_STATES = ("RUNNING", "PAUSED", "STOPPED")
_SHOWN_CHARACTERS = 60
_MAX_DIGITS = 1_000  # as in Connect's library
_MAX_KEYS = 10_000  # more than any connector has
_MAX_ITEMS = 1_000_000  # a few bytes each in a body, a hundred in memory


class _Number(str):
    """The literal text of a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """`POST /connectors`; the name is stripped, the state in upper case."""

    name: str
    config: dict[str, str | None] = field(repr=False)
    initial_state: str | None = None


def parse_string_map(body: bytes) -> dict[str, str | None]:
    """Parse a flat object of strings: a connector's configuration, or a logger's level."""
    return _texts(_parse(body), "the body")


def parse_string_maps(body: bytes) -> list[dict[str, str | None]]:
    """Parse a list of flat objects of strings: the configurations of tasks."""
    found = _parse(body)
    if not isinstance(found, list):
        raise _mismatch("the body", "a list", found)
    return [_texts(one, f"item {place}") for place, one in enumerate(found)]


def parse_create_request(body: bytes) -> CreateRequest:
    found = _object(_parse(body), "the body", known=("name", "config", "initial_state"))
    name = _text(found.get("name"), "name") or ""
    config = found.get("config")
    if config is None:
        raise ApiError(MALFORMED_STATUS, "The request has no config.")
    return CreateRequest(
        name.strip(), _texts(config, "config"), _state(_text(found.get("initial_state"), "state"))
    )


def parse_offset_entries(body: bytes) -> list[OffsetEntry]:
    """Parse the offsets to set; an empty list if there are none."""
    found = _object(_parse(body), "the body", known=("offsets",)).get("offsets")
    if found is None:
        return []
    if not isinstance(found, list):
        raise _mismatch("offsets", "a list", found)
    return [_entry(one, f"offsets[{place}]") for place, one in enumerate(found)]


def parse_offset_reset(body: bytes) -> tuple[ResetWish, bool]:
    """Parse an offset reset, and whether it is only planned."""
    known = ("topic", "partitions", "to", "recopy", "deleteRecords", "dryRun")
    found = _object(_parse(body), "the body", known=known)
    topic, partitions = _text(found.get("topic"), "topic"), found.get("partitions") or []
    if topic is None:
        raise _mismatch("topic", "a string", None)
    if not isinstance(partitions, list) or not all(str(one).isdecimal() for one in partitions):
        raise _mismatch("partitions", "a list of numbers", partitions)
    recopy, delete_records, dry_run = (
        _text(found.get(name), name) == "true" for name in ("recopy", "deleteRecords", "dryRun")
    )
    start = _text(found.get("to"), "to") or EARLIEST
    wish = ResetWish(topic, tuple(int(one) for one in partitions), start, recopy, delete_records)
    if (recopy and start != EARLIEST) or (delete_records and not recopy):
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "recopy has no `to`, and only recopy has `deleteRecords`."
        )
    return wish, dry_run


def _entry(value: Any, where: str) -> OffsetEntry:
    if value is None:
        raise ApiError(MALFORMED_STATUS, f"The request's {where} is null.")
    found = _object(value, where, known=("partition", "offset"))
    return OffsetEntry(
        _fields(found.get("partition"), f"{where}.partition"),
        _fields(found.get("offset"), f"{where}.offset"),
    )


def _fields(value: Any, where: str) -> Mapping[str, Json] | None:
    if value is None:
        return None
    return {key: _restore_numbers(one) for key, one in _object(value, where).items()}


def _restore_numbers(value: Any) -> Json:
    """Convert literals to numbers."""
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, list):
        return [_restore_numbers(one) for one in value]
    if isinstance(value, dict):
        return {key: _restore_numbers(one) for key, one in value.items()}
    plain: Json = value
    return plain


def _number(text: str) -> int | float:
    if len(text) > _MAX_DIGITS:
        raise ApiError(MALFORMED_STATUS, f"The request has a number of {len(text)} digits.")
    if not any(mark in text for mark in ".eE"):
        return int(text)
    found = float(text)
    if not math.isfinite(found):
        raise ApiError(MALFORMED_STATUS, f"The request has a number that is too large: {text}.")
    return found


def _state(text: str | None) -> str | None:
    if text is None:
        return None
    if text.upper() not in _STATES:
        raise ApiError(
            MALFORMED_STATUS, f"initial_state is one of {', '.join(_STATES)}, not {_shown(text)}."
        )
    return text.upper()


def _texts(value: Any, where: str) -> dict[str, str | None]:
    found = _object(value, where)
    if len(found) > _MAX_KEYS:
        raise ApiError(
            413, f"In the request {where} has {len(found)} keys; the maximum is {_MAX_KEYS}."
        )
    return {key: _text(one, f"{where}.{key}") for key, one in found.items()}


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, bool):
        return str(value).lower()
    raise _mismatch(where, "a string", value)


def _object(value: Any, where: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _mismatch(where, "an object", value)
    unknown = [key for key in value if key not in known] if known else []
    if unknown:
        raise ApiError(
            MALFORMED_STATUS,
            f"Unrecognized field {_shown(unknown[0])} in {where} of the request: known are "
            f"{', '.join(known)}.",
        )
    return value


def _mismatch(where: str, wanted: str, found: Any) -> ApiError:
    kinds = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null"}
    kind = kinds.get(type(found), "a number" if isinstance(found, _Number) else "a string")
    where = where if len(where) <= _SHOWN_CHARACTERS else f"{where[:_SHOWN_CHARACTERS]}..."
    return ApiError(MALFORMED_STATUS, f"In the request {where} must be {wanted}, not {kind}.")


def _shown(text: str) -> str:
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return json.dumps(cut)


def _parse(body: bytes) -> Any:
    if sum(map(body.count, (b",", b"[", b"{"))) > _MAX_ITEMS:
        raise ApiError(413, f"The request's body has more than {_MAX_ITEMS} items.")
    try:
        text = body.decode(json.detect_encoding(body), "strict")
        found = json.loads(
            text, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant
        )
        # A lone surrogate can be escaped but not encoded.
        "".join(_all_texts(found)).encode()
    except (ValueError, RecursionError) as error:
        raise ApiError(
            MALFORMED_STATUS, f"The request's body is not JSON: {_reason(error)}."
        ) from error
    return found


def _all_texts(value: Any) -> list[str]:
    texts: list[str] = []
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, list):
            rest += one
        elif isinstance(one, dict):
            texts += one
            rest += one.values()
    return texts


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeError):
        return "it has bytes or escapes that are not characters"
    return str(error)
