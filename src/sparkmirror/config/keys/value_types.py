# SPDX-License-Identifier: Apache-2.0
"""Kafka's config types and validators: how the text of a property becomes a value.

Every function raises InvalidValueError with the end of a sentence that begins with the key's name.
The value is a separate field, because it may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

Validator = Callable[[object], None]


class InvalidValueError(ValueError):
    """A value that a key does not accept: `rule` is the reason, `found` the value.

    `java` is Kafka's message, for clients of the REST API.
    """

    def __init__(self, rule: str, found: object = None, *, java: str = "") -> None:
        super().__init__(rule if found is None else f"{rule}, not {found!r}")
        self.rule = rule
        self.java = java or rule


class ConfigType(Enum):
    """Kafka's config types, by their names in its documentation."""

    BOOLEAN = "boolean"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"  # noqa: S105 - the name of a type


_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_DECIMAL = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_value(value_type: ConfigType, text: str) -> object:
    """Return bool, int, float, str or a tuple of str without duplicates."""
    trimmed = text.strip()
    if value_type is ConfigType.BOOLEAN:
        return _boolean(trimmed)
    if value_type in _BITS:
        return _integer(trimmed, value_type)
    if value_type is ConfigType.DOUBLE:
        return _fraction(trimmed)
    if value_type is ConfigType.LIST:
        return parse_list(trimmed)[0]
    return trimmed


def parse_list(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the items of a LIST without duplicates, and the duplicates."""
    trimmed = text.strip()
    if not trimmed:
        return (), ()
    items = [item.strip() for item in trimmed.split(",")]
    if "" in items:
        raise InvalidValueError("has an empty item: remove a comma")
    unique = tuple(dict.fromkeys(items))
    return unique, tuple(item for item in unique if items.count(item) > 1)


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise InvalidValueError(
            "must be true or false", text, java="Expected value to be either true or false"
        )
    return lowered == "true"


def _integer(text: str, value_type: ConfigType) -> int:
    bits, java = _BITS[value_type], f"Not a number of type {value_type.name}"
    if not _DECIMAL.fullmatch(text):
        raise InvalidValueError("must be a whole number", text, java=java)
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise InvalidValueError(f"must fit into {bits} bits", number, java=java)
    return number


def _fraction(text: str) -> float:
    if not _FRACTION.fullmatch(text):
        raise InvalidValueError("must be a number", text, java="Not a number of type DOUBLE")
    return float(text)


def one_of(*allowed: str, ignore_case: bool = False) -> Validator:
    """Check that the value is one of these texts."""
    names = ", ".join(allowed)
    java = f"String must be one of: {names}"
    accepted = set(allowed)
    if ignore_case:
        java = f"String must be one of (case insensitive): {names.upper()}"
        accepted = {text.upper() for text in allowed}

    def check(value: object) -> None:
        text = str(value).upper() if ignore_case else str(value)
        if text not in accepted:
            raise InvalidValueError(f"must be one of {names}", value, java=java)

    return check


_NULL = "Value must be non-null"


def at_least(low: int, hint: str = "") -> Validator:
    """Check that the number is not below `low`."""

    def check(value: object) -> None:
        if value is None:
            raise InvalidValueError("must not be null", java=_NULL)
        if isinstance(value, int) and value < low:
            rule = f"must be at least {low}{hint and f' ({hint})'}"
            raise InvalidValueError(rule, value, java=f"Value must be at least {low}")

    return check


def between(low: int, high: int) -> Validator:
    """Check that the number is in the closed range."""

    def check(value: object) -> None:
        if value is None:
            raise InvalidValueError("must not be null", java=_NULL)
        if isinstance(value, int) and not low <= value <= high:
            java = f"at least {low}" if value < low else f"no more than {high}"
            raise InvalidValueError(
                f"must be between {low} and {high}", value, java=f"Value must be {java}"
            )

    return check


def list_of(*allowed: str) -> Validator:
    """Check that the list is not empty and each item is one of these texts."""

    def check(value: object) -> None:
        if isinstance(value, tuple) and (not value or not set(value) <= set(allowed)):
            names = ", ".join(allowed)
            raise InvalidValueError(
                f"must list one or more of {names}", java=f"String must be one of: {names}"
            )

    return check


def not_empty(value: object) -> None:
    """Check that the text or list is not empty."""
    if value in ("", ()):
        raise InvalidValueError("must not be empty", java="String must be non-empty")


_FIRST_PRINTABLE = 0x20
_DELETE = 0x7F


def connector_name(value: object) -> None:
    """Check a connector's name, which becomes part of keys, URLs and client ids."""
    if value == "":
        raise InvalidValueError("must not be empty", java="String may not be empty")
    control = [ord(c) for c in str(value) if ord(c) < _FIRST_PRINTABLE or ord(c) == _DELETE]
    if control:
        found = ", ".join(str(code) for code in control)
        raise InvalidValueError(
            f"must not contain control characters (it has {found})",
            java="String may not contain control sequences but had the following ASCII chars: "
            + found,
        )


def not_zero(value: object) -> None:
    """Check an interval: negative means never, as in MM2; zero would be a busy loop."""
    if value == 0:
        raise InvalidValueError(
            "must not be 0; set the matching .enabled key to false to switch it off"
        )


def replication_factor(value: object) -> None:
    """Check a number of replicas; -1 means the broker's default."""
    if isinstance(value, int) and (value == 0 or value < -1 or value > 32767):  # noqa: PLR2004 - a Kafka short
        raise InvalidValueError("must be at least 1, or -1 for the broker's default", value)


_TOPIC_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]+")


def valid_topic_characters(value: object) -> None:
    """Check a text that becomes part of topic names."""
    if not _TOPIC_CHARACTERS.fullmatch(str(value)):
        raise InvalidValueError(
            "becomes part of topic names and may contain letters, digits, '.', '_' and '-' only",
            value,
        )


_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?(\[[0-9a-fA-F:.%]+\]|[0-9a-zA-Z\-%._]+):([0-9]+)")
MAX_PORT = 65535


def bootstrap_address(text: str) -> str:
    """Return `host:port` of a bootstrap server, without a leading `PROTOCOL://`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[2]) <= MAX_PORT:
        raise InvalidValueError("must list host:port pairs", text)
    return f"{match[1]}:{match[2]}"


def bootstrap_addresses(value: object) -> None:
    """Check that each item is `host:port`."""
    not_empty(value)
    if isinstance(value, tuple):
        for item in value:
            bootstrap_address(item)
