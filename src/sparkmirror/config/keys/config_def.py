# SPDX-License-Identifier: Apache-2.0
"""One configuration key: its type, default, validators, and the settings fields that it fills.

The tables beside this module are made of `ConfigKey`, by the function for its type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypedDict, Unpack

from sparkmirror.config.keys.value_types import ConfigType, Validator, one_of, parse_value
from sparkmirror.config.settings import ReplicationFactor

# Reasons that several tables give.
NO_JAVA_PLUGIN = "there is no Java plugin here"
COPIED_RAW = "record batches are copied byte for byte, nothing converts them"
FACTOR_REASON = (
    "a small cluster should work without this key; a factor that is set is never changed"
)


class Importance(Enum):
    """Kafka's importance of a key, for the reference page."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ParsedValue(NamedTuple):
    """A key's value and its origin, the argument of a converter."""

    value: Any  # bool, int, float, str, tuple[str, ...] or Secret; None: an unset number
    key: ConfigKey
    written: str  # the key as the file has it, with its prefix
    is_in_file: bool
    is_configured: bool  # by the file or by a profile


Converter = Callable[[ParsedValue], Any]


def unchanged(parsed: ParsedValue) -> Any:
    return parsed.value


def seconds(parsed: ParsedValue) -> float:
    """Convert milliseconds to seconds."""
    return float(parsed.value / 1000)


def interval(parsed: ParsedValue) -> float | None:
    """Seconds between two runs; a negative number means never, as in MM2."""
    return float(parsed.value) if parsed.value > 0 else None


def factor(parsed: ParsedValue) -> ReplicationFactor:
    """Return a replication factor that prefers MM2's default."""
    return ReplicationFactor(
        parsed.written, parsed.value, preferred=int(parsed.key.mm2_default or 1)
    )


@dataclass(frozen=True, slots=True)
class SettingsField:
    """A field of a settings class that a key fills."""

    settings: type
    name: str
    convert: Converter = unchanged

    def __post_init__(self) -> None:
        if self.name not in {one.name for one in dataclasses.fields(self.settings)}:
            raise AttributeError(f"{self.settings.__name__} has no field {self.name!r}")


def field_of(
    settings: type, name: str, convert: Converter = unchanged
) -> tuple[SettingsField, ...]:
    """For `ConfigKey.fills`; add two of them if a key fills two fields."""
    return (SettingsField(settings, name, convert),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key, declared once: parsing, settings, `check` and the reference page all read this."""

    name: str
    type: ConfigType
    default: str | None  # as in a file; None: not set
    doc: str
    importance: Importance = Importance.MEDIUM
    validators: tuple[Validator, ...] = ()
    fills: tuple[SettingsField, ...] = ()
    switch: str = ""  # a BOOLEAN key; while it is false, the fields are None
    required: bool = False
    mm2_default: str | None = None  # only where MM2's differs from ours
    mm2_difference_reason: str = ""  # why it differs
    no_effect: str = ""  # why setting it changes nothing here; empty: it is used
    secret: bool = False

    @property
    def is_secret(self) -> bool:
        return self.secret or self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> object:
        """Return the typed and checked value. Raises InvalidValueError."""
        value = parse_value(self.type, text)
        for check in self.validators:
            check(value)
        return value

    def default_value(self) -> object:
        return None if self.default is None else self.parse(self.default)


class KeyFacts(TypedDict, total=False):
    """Optional fields of a ConfigKey."""

    fills: tuple[SettingsField, ...]
    switch: str
    importance: Importance
    required: bool
    mm2_default: str
    mm2_difference_reason: str
    no_effect: str


def _text_key(
    value_type: ConfigType,
    name: str,
    default: str | None,
    doc: str,
    *validators: Validator,
    **facts: Unpack[KeyFacts],
) -> ConfigKey:
    return ConfigKey(
        name=name, type=value_type, default=default, doc=doc, validators=validators, **facts
    )


def _number_key(
    value_type: ConfigType,
    name: str,
    default: int | None,
    doc: str,
    *validators: Validator,
    **facts: Unpack[KeyFacts],
) -> ConfigKey:
    text = None if default is None else str(default)
    return _text_key(value_type, name, text, doc, *validators, **facts)


# A constructor for each type: name, default, doc, validators, optional fields. Defaults of lists
# are texts, because documentation and REST show them unchanged.
integer = partial(_number_key, ConfigType.INT)
short = partial(_number_key, ConfigType.SHORT)
long = partial(_number_key, ConfigType.LONG)
string = partial(_text_key, ConfigType.STRING)
string_list = partial(_text_key, ConfigType.LIST)
class_name = partial(_text_key, ConfigType.CLASS)


def boolean(name: str, default: bool, doc: str, **facts: Unpack[KeyFacts]) -> ConfigKey:
    return _text_key(ConfigType.BOOLEAN, name, str(default).lower(), doc, **facts)


def choice(
    name: str,
    values: tuple[str, ...],
    doc: str,
    *,
    ignore_case: bool = False,
    **facts: Unpack[KeyFacts],
) -> ConfigKey:
    """A STRING key with a closed set of values; the first one is the default."""
    return string(name, values[0], doc, one_of(*values, ignore_case=ignore_case), **facts)
