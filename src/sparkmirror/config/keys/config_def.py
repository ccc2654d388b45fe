# SPDX-License-Identifier: Apache-2.0
"""One configuration key: its type, default, validators, and the settings fields that it fills.

The tables beside this module are made of `ConfigKey`, by the function for its type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypedDict, Unpack

from sparkmirror.config.keys.value_types import ConfigType, Validator, one_of, parse_value
from sparkmirror.config.settings import ReplicationFactor

# Reasons that several tables give.
NO_JAVA_PLUGIN = "there is no Java plugin here"
COPIED_RAW = "record batches are copied byte for byte, nothing converts them"
FACTOR_REASON = (
    "a small cluster should work without a line about it; set factors are kept to the letter"
)


class Importance(Enum):
    """How soon a reader of the reference page should meet the key."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ParsedValue(NamedTuple):
    """A key's value and where it came from, as a converter sees it."""

    value: Any  # bool, int, float, str, tuple[str, ...] or Secret; None: a number that is not set
    key: ConfigKey
    written: str  # the key as the file has it, with its prefix
    is_in_file: bool
    is_configured: bool  # by the file or by a profile


Converter = Callable[[ParsedValue], Any]


def unchanged(parsed: ParsedValue) -> Any:
    """The value itself."""
    return parsed.value


def seconds(parsed: ParsedValue) -> float:
    """Milliseconds as seconds."""
    return float(parsed.value / 1000)


def interval(parsed: ParsedValue) -> float | None:
    """Seconds between two runs; a negative number means never, as in MM2."""
    return float(parsed.value) if parsed.value > 0 else None


def factor(parsed: ParsedValue) -> ReplicationFactor:
    """A replication factor, with MM2's default as the preferred one."""
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
    default: str | None  # as one would write it; None: not set
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
        """Whether the value must never be shown."""
        return self.secret or self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> object:
        """The typed and checked value; raises InvalidValueError."""
        value = parse_value(self.type, text)
        for check in self.validators:
            check(value)
        return value

    def default_value(self) -> object:
        """The parsed default, None if there is none."""
        return None if self.default is None else self.parse(self.default)


class KeyFacts(TypedDict, total=False):
    """What a key may have beside name, default, doc and validators."""

    fills: tuple[SettingsField, ...]
    switch: str
    importance: Importance
    required: bool
    mm2_default: str
    mm2_difference_reason: str
    no_effect: str


def boolean(
    name: str, default: bool, doc: str, *validators: Validator, **facts: Unpack[KeyFacts]
) -> ConfigKey:
    """A BOOLEAN key."""
    return _key(ConfigType.BOOLEAN, name, str(default).lower(), doc, validators, facts)


def integer(
    name: str, default: int | None, doc: str, *validators: Validator, **facts: Unpack[KeyFacts]
) -> ConfigKey:
    """An INT key."""
    return _key(ConfigType.INT, name, _number(default), doc, validators, facts)


def short(
    name: str, default: int | None, doc: str, *validators: Validator, **facts: Unpack[KeyFacts]
) -> ConfigKey:
    """A SHORT key."""
    return _key(ConfigType.SHORT, name, _number(default), doc, validators, facts)


def long(
    name: str, default: int | None, doc: str, *validators: Validator, **facts: Unpack[KeyFacts]
) -> ConfigKey:
    """A LONG key."""
    return _key(ConfigType.LONG, name, _number(default), doc, validators, facts)


def string(
    name: str, default: str | None, doc: str, *validators: Validator, **facts: Unpack[KeyFacts]
) -> ConfigKey:
    """A STRING key."""
    return _key(ConfigType.STRING, name, default, doc, validators, facts)


def choice(
    name: str,
    values: tuple[str, ...],
    doc: str,
    *,
    ignore_case: bool = False,
    **facts: Unpack[KeyFacts],
) -> ConfigKey:
    """A STRING key with a closed set of values; the first one is the default."""
    validators = (one_of(*values, ignore_case=ignore_case),)
    return _key(ConfigType.STRING, name, values[0], doc, validators, facts)


def string_list(
    name: str, default: str | None, doc: str, *validators: Validator, **facts: Unpack[KeyFacts]
) -> ConfigKey:
    """A LIST key; documentation and REST show the default to the letter."""
    return _key(ConfigType.LIST, name, default, doc, validators, facts)


def class_name(
    name: str, default: str | None, doc: str, *validators: Validator, **facts: Unpack[KeyFacts]
) -> ConfigKey:
    """A CLASS key."""
    return _key(ConfigType.CLASS, name, default, doc, validators, facts)


def _number(default: int | None) -> str | None:
    return None if default is None else str(default)


def _key(
    value_type: ConfigType,
    name: str,
    default: str | None,
    doc: str,
    validators: tuple[Validator, ...],
    facts: KeyFacts,
) -> ConfigKey:
    return ConfigKey(
        name=name, type=value_type, default=default, doc=doc, validators=validators, **facts
    )
