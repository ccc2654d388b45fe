# SPDX-License-Identifier: Apache-2.0
"""Reads layered texts into typed values by the key table, and into fields of settings classes.

An invalid value becomes a notice and the default is used, so one pass over a file finds all errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sparkmirror.config.files.config_providers import ReferenceResolver, ResolvedText
from sparkmirror.config.files.layering import LayeredConfig, LayeredValue, Origin
from sparkmirror.config.files.notices import ConfigReport, EffectiveValue, NoticeLevel
from sparkmirror.config.files.properties import has_secret_suffix
from sparkmirror.config.keys.config_def import ConfigKey, ParsedValue, SettingsField
from sparkmirror.config.keys.secret_keys import is_secret
from sparkmirror.config.keys.security_keys import SECURITY_KEY_NAMES
from sparkmirror.config.keys.value_types import ConfigType, InvalidValueError, parse_list
from sparkmirror.config.settings import FlowSettings
from sparkmirror.model import Secret


class ConfigReader:
    """Reads one layered map; `section` is its heading in the output of `check`."""

    def __init__(
        self, section: str, values: LayeredConfig, resolver: ReferenceResolver, report: ConfigReport
    ) -> None:
        self._section = section
        self._values = values
        self._resolver = resolver
        self._report = report
        self._keys: dict[str, ConfigKey] = {}
        self._parsed: dict[str, object] = {}
        self._hidden: set[str] = set()
        self._provided: set[str] = set()
        self._invalid: set[str] = set()

    def read_all(self, keys: Iterable[ConfigKey]) -> None:
        """Parse and check every key of a table, whether set or not."""
        for key in keys:
            self._keys[key.name] = key
            self._parsed[key.name] = self._read(key)

    def filled(self, settings: type) -> dict[str, Any]:
        """Return the fields of the class `settings` that this reader's keys fill."""
        return {
            field.name: self._field_value(key, field)
            for key in self._keys.values()
            for field in key.fills
            if issubclass(settings, field.settings)
        }

    def _field_value(self, key: ConfigKey, field: SettingsField) -> Any:
        if key.switch and not self.boolean(key.switch):
            return None
        value = self._parsed[key.name]
        return field.convert(
            ParsedValue(
                _NO_VALUE.get(key.type) if value is None else value,
                key,
                self.origin(key.name).key or key.name,
                self.is_in_file(key.name),
                self.is_configured(key.name),
            )
        )

    def has_key(self, name: str) -> bool:
        return name in self._parsed

    def is_in_file(self, name: str) -> bool:
        """Whether a line of the file sets the key."""
        value = self._values.get(name)
        return value is not None and value.origin.line > 0

    def is_configured(self, name: str) -> bool:
        """Whether a line of the file or a profile sets the key."""
        origin = self.origin(name)
        return bool(origin.line or origin.profile)

    def is_hidden(self, name: str) -> bool:
        """Whether messages must not show the key's value."""
        return name in self._hidden

    def is_invalid(self, name: str) -> bool:
        """Whether the key's value was invalid; its default is used then."""
        return name in self._invalid

    def came_from_provider(self, name: str) -> bool:
        """Whether a part of the key's value came from a config provider."""
        return name in self._provided

    def origin(self, name: str) -> Origin:
        value = self._values.get(name)
        return Origin(name) if value is None else value.origin

    def value(self, name: str) -> LayeredValue:
        """Return the layered value of a key, for a notice about it."""
        return self._values.get(name) or LayeredValue("", Origin(name))

    def resolved_text(self, name: str) -> str | None:
        """Return the text of any key, even of none in the table, with its references resolved."""
        value = self._values.get(name)
        return None if value is None else self._resolve(name, value).text

    def resolve_all(self) -> dict[str, str]:
        """Return the whole map with its references resolved."""
        return {name: self._resolve(name, value).text for name, value in self._values.items()}

    def with_prefix(self, prefix: str, without: Collection[str]) -> dict[str, str]:
        """Return the resolved texts of keys with `prefix`, except those in `without`."""
        names = (n for n in self._values if n.startswith(prefix))
        return {
            short: self._resolve(name, self._values[name]).text
            for name in names
            if (short := name.removeprefix(prefix)) not in without
        }

    def boolean(self, name: str) -> bool:
        return self._parsed[name] is True

    def integer(self, name: str) -> int:
        """Return a number; 0 if it has no value."""
        value = self._parsed[name]
        return value if isinstance(value, int) else 0

    def string(self, name: str) -> str:
        """Return a text; empty if it has no value."""
        value = self._parsed[name]
        return value if isinstance(value, str) else ""

    def secret(self, name: str) -> Secret | None:
        value = self._parsed[name]
        return value if isinstance(value, Secret) else None

    def double(self, name: str) -> float:
        """Return a DOUBLE; 0 if it has no value."""
        value = self._parsed[name]
        return value if isinstance(value, float) else 0.0

    def strings(self, name: str) -> tuple[str, ...]:
        value = self._parsed[name]
        return value if isinstance(value, tuple) else ()

    def optional_integer(self, name: str) -> int | None:
        value = self._parsed[name]
        return value if isinstance(value, int) else None

    def _read(self, key: ConfigKey) -> object:
        value = self._values.get(key.name)
        if value is None:
            return self._absent(key)
        resolved = self._resolve(key.name, value)
        if resolved is _UNRESOLVED:
            self._invalid.add(key.name)
            return key.default_value()
        text = resolved.text
        hidden = key.is_secret or resolved.from_provider
        if hidden:
            self._hidden.add(key.name)
        if resolved.from_provider:
            self._provided.add(key.name)
        try:
            parsed = key.parse(text)
        except InvalidValueError as error:
            self._invalid.add(key.name)
            reason = f"{error.rule}, which [hidden] does not satisfy" if hidden else str(error)
            self._report.error(
                value, key.name, f"{value.origin.key or key.name} {reason}{_comment_hint(text)}."
            )
            return key.default_value()
        self._warn(key, value, resolved)
        if key.no_effect and not value.origin.line:
            return parsed  # not set, and without effect
        self._report.effective.append(
            EffectiveValue(
                self._section,
                key.name,
                Secret(text) if hidden else _shown(parsed, text),
                value.origin,
                value.overrode,
                key.no_effect if value.origin.line else "",
                is_default=key.default is not None and parsed == key.default_value(),
            )
        )
        return Secret(str(parsed)) if key.is_secret else parsed

    def _absent(self, key: ConfigKey) -> object:
        text = key.default or ""
        if key.default is None and key.mm2_default is not None:
            text = f"{key.mm2_default}, or what the cluster can hold"
        # Of the many keys of TLS and SASL, only those with a value.
        if not key.no_effect and (text or key.name not in SECURITY_KEY_NAMES):
            self._report.effective.append(
                EffectiveValue(self._section, key.name, text, Origin(key.name), is_default=True)
            )
        return key.default_value()

    def _warn(self, key: ConfigKey, value: LayeredValue, resolved: ResolvedText) -> None:
        if not value.origin.line:
            return
        if resolved.is_literal:
            self._report.warn(
                value.origin,
                f"{value.origin.key} has a ${{...}} that names no config provider: it is used as "
                "literal text, as in Java.",
            )
        if key.no_effect:
            self._report.warn(
                value.origin,
                f"{value.origin.key} has no effect: {key.no_effect}.",
                NoticeLevel.INFO,
            )
        if key.type is ConfigType.LIST and (twice := parse_list(resolved.text)[1]):
            self._report.warn(
                value.origin, f"{value.origin.key} names {', '.join(twice)} more than once."
            )

    def _resolve(self, name: str, value: LayeredValue) -> ResolvedText:
        if "${" not in value.text:
            return ResolvedText(value.text)
        try:
            resolved = self._resolver.resolve(
                value.text,
                is_secret=is_secret(name) or has_secret_suffix(name),
                from_request=value.from_request,
            )
        except LookupError as error:
            self._report.error(value, name, f"{value.origin.key or name}: {error.args[0]}.")
            return _UNRESOLVED
        self._report.redact(resolved)
        return resolved


@dataclass(frozen=True, slots=True)
class SettingsAndReaders:
    """Settings, and the readers that rules between keys need."""

    settings: FlowSettings
    connector: ConfigReader
    worker: ConfigReader


_NO_VALUE = {ConfigType.STRING: "", ConfigType.CLASS: "", ConfigType.LIST: ()}
_UNRESOLVED = ResolvedText("", provided_parts=("",))  # an invalid reference; already reported


def _comment_hint(text: str) -> str:
    return " (a comment must be on a separate line)" if "#" in text else ""


def _shown(parsed: object, text: str) -> str:
    if isinstance(parsed, tuple):
        return ", ".join(parsed)
    return str(parsed).lower() if isinstance(parsed, bool) else text.strip()
