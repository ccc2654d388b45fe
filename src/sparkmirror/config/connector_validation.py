# SPDX-License-Identifier: Apache-2.0
"""Validates a connector's configuration, as Connect answers `PUT .../config/validate`.

Each key is parsed alone, and errors have Kafka's own wording. Errors that only the whole
configuration shows (`config/connector_config.py`) are added to the keys that they name, so that
every accepted configuration can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkmirror.config.connector_config import ConnectorTexts, ParsedConnector, read_connector
from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.keys.config_def import ConfigKey
from sparkmirror.config.keys.connector_classes import (
    CONNECTOR_CLASS_KEYS,
    GROUPS,
    ConnectorClass,
    KeyDefinition,
    client_definition,
    connect_default,
    definitions,
)
from sparkmirror.config.keys.secret_keys import is_secret
from sparkmirror.config.keys.value_types import ConfigType, InvalidValueError, parse_value
from sparkmirror.config.settings import ExactlyOnce
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.model import HIDDEN

_NULL = "Null value can not be supplied as the configuration value."
_PLUGIN_VERSION = ".plugin.version"
_CONVERTER = ".converter"


@dataclass(frozen=True, slots=True)
class ValidatedValue:
    """A key's value and errors."""

    name: str
    value: str | None
    recommended_values: tuple[str, ...]
    errors: tuple[str, ...]
    visible: bool


@dataclass(frozen=True, slots=True)
class ValidatedKey:
    """A key with its value; `definition` is None if no class has the key."""

    definition: KeyDefinition | None
    value: ValidatedValue


@dataclass(frozen=True, slots=True)
class ConfigValidation:
    """The response; `name` is the class as given."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ValidatedKey, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """All errors in the order of the keys."""
        return tuple(error for entry in self.configs for error in entry.value.errors)

    @property
    def error_message(self) -> str:
        """Connect's message when it refuses a connector."""
        lines = "\n".join(self.errors)
        return (
            f"Connector configuration is invalid and contains the following {self.error_count} "
            f"error(s):\n{lines}\nYou can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )


def validate_connector(
    config: ConnectorTexts, worker: WorkerConfig, parsed_connector: ParsedConnector | None = None
) -> ConfigValidation:
    """Check every key. Raises ConfigError only if the connector class is missing or unknown.

    `parsed_connector` is the result of `read_connector`, if the caller has it.
    """
    reading = parsed_connector or read_connector(config, worker)
    parsed = {
        key.name: _parse(key, config, worker.resolver)
        for key in CONNECTOR_CLASS_KEYS[reading.kind].values()
    }
    wrong = {name: list(errors) for name, (_, errors) in parsed.items() if errors}
    for name, text in config.items():
        if text is None and name not in wrong:
            wrong[name] = [_NULL]
    alone = frozenset(wrong)
    for found in reading.errors:
        if found.key not in alone:
            wrong.setdefault(found.key, []).append(found.message)
    entries = [
        *_defined(reading.kind, config, parsed, wrong),
        *_undefined_keys(config, worker, wrong, parsed),
    ]
    return ConfigValidation(
        name=config["connector.class"] or "",
        error_count=sum(len(entry.value.errors) for entry in entries),
        groups=GROUPS,
        configs=tuple(entries),
    )


_Parsed = tuple[str | None, tuple[str, ...]]  # the displayed value, and the errors


def _defined(
    kind: ConnectorClass,
    config: ConnectorTexts,
    parsed: Mapping[str, _Parsed],
    wrong: Mapping[str, list[str]],
) -> Iterator[ValidatedKey]:
    for definition in definitions(kind):
        name = definition.name
        is_version = name.endswith(_CONVERTER + _PLUGIN_VERSION)
        value = ValidatedValue(
            name=name,
            value=parsed[name][0],
            recommended_values=(),
            errors=tuple(wrong.get(name, ())),
            visible=not is_version or bool(config.get(name.removesuffix(_PLUGIN_VERSION))),
        )
        yield ValidatedKey(definition, value)


def _undefined_keys(
    config: ConnectorTexts,
    worker: WorkerConfig,
    wrong: Mapping[str, list[str]],
    defined: Mapping[str, _Parsed],
) -> Iterator[ValidatedKey]:
    """Return the overridden client keys, and undefined keys with errors."""
    roles = ["producer"]
    if worker.settings.exactly_once is ExactlyOnce.ENABLED:
        roles += ["consumer", "admin"]
    prefixes = tuple(f"{role}.override." for role in roles)
    for name in dict.fromkeys((*(n for n in config if n.startswith(prefixes)), *wrong)):
        if name in defined:
            continue
        text = config.get(name)
        value = ValidatedValue(
            name=name,
            value=HIDDEN if text and is_secret(name) else text,
            recommended_values=(),
            errors=tuple(wrong.get(name, ())),
            visible=True,
        )
        yield ValidatedKey(client_definition(name), value)


def _parse(key: ConfigKey, config: ConnectorTexts, resolver: ReferenceResolver) -> _Parsed:
    """Return the displayed value and errors in Kafka's wording."""
    name = key.name
    if name not in config:
        if key.required:
            return None, (f'Missing required configuration "{name}" which has no default value.',)
        return connect_default(key), ()
    text = config[name]
    return (None, tuple(_null_errors(key))) if text is None else _parse_text(key, text, resolver)


def _parse_text(key: ConfigKey, text: str, resolver: ReferenceResolver) -> _Parsed:
    name = key.name
    try:
        resolved = resolver.resolve(text, is_secret=key.is_secret, from_request=True)
    except LookupError as error:
        return HIDDEN if key.is_secret else text, (f"{name}: {error.args[0]}.",)
    shown = text if resolved.from_provider else resolved.text
    shown = HIDDEN if key.is_secret else shown
    if key.type is ConfigType.LIST:
        return _list(key, resolved.text, None if shown == resolved.text else shown)
    try:
        parsed = parse_value(key.type, resolved.text)
    except InvalidValueError as error:
        return None, (_invalid(name, shown, error), *_rejections(key, None, "null"))
    is_plain = not resolved.from_provider and not key.is_secret
    value = _text_of(parsed) if is_plain else shown
    return value, tuple(_rejections(key, parsed, value.strip()))


def _list(key: ConfigKey, text: str, instead: str | None) -> _Parsed:
    """Parse a list; its text is displayed even if an item is invalid."""
    trimmed = text.strip()
    items = [item.strip() for item in trimmed.split(",")] if trimmed else []
    shown = ",".join(items) if instead is None else instead
    if "" in items:
        return shown, (f"Configuration '{key.name}' values must not be empty.",)
    if len(set(items)) < len(items):
        return shown, (f"Configuration '{key.name}' values must not be duplicated.",)
    return shown, tuple(_rejections(key, tuple(items), shown))


def _null_errors(key: ConfigKey) -> Iterator[str]:
    if key.type is ConfigType.LIST:
        yield f"Configuration '{key.name}' values must not be null."
    else:
        yield from _rejections(key, None, "null")


def _rejections(key: ConfigKey, value: object, shown: str) -> Iterator[str]:
    for check in key.validators:
        try:
            check(value)
        except InvalidValueError as error:
            yield _invalid(key.name, shown, error)
            return


def _invalid(name: str, shown: str, error: InvalidValueError) -> str:
    return f"Invalid value {shown} for configuration {name}: {error.java}"


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
