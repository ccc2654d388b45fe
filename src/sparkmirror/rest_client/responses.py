# SPDX-License-Identifier: Apache-2.0
"""The JSON of Connect's REST API as values, with Connect's own names.

Whatever has another shape raises a ValueError that names the place, so that no later line meets
a surprise. Fields that we do not know are left alone: newer workers may have more.

Which values of a connector's configuration are not shown, for connectors of any kind.

Beside what our own worker hides, and by the same rule, that is what the plugin itself declares as a
password.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sparkmirror.config.keys.table import redact_config


class State(StrEnum):
    """What a connector or a task may be doing."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class StateInfo:
    """What one connector or task does, and where; a state of a newer worker stays a text."""

    state: str
    worker_id: str = ""
    trace: str = ""
    version: str = ""
    warning: str = ""  # sparkmirror's own: trouble that will be tried again


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """A connector and its tasks."""

    name: str
    type: str
    connector: StateInfo
    tasks: Mapping[int, StateInfo] = field(default_factory=dict)

    @property
    def states(self) -> frozenset[str]:
        """Every state that it or a task of it is in."""
        return frozenset({self.connector.state, *(one.state for one in self.tasks.values())})


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """What a connector was told."""

    name: str
    type: str
    config: Mapping[str, str | None]
    tasks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedConnector:
    """One connector of a list; without a state as long as no worker has taken it up."""

    info: ConnectorInfo
    status: ConnectorStateInfo | None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A class that a worker has."""

    class_name: str
    type: str
    version: str


@dataclass(frozen=True, slots=True)
class ConfigKeyInfo:
    """A key of a plugin."""

    name: str
    type: str
    required: bool
    default: str | None
    importance: str
    documentation: str


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """Where a connector stands in one partition of what it reads; objects of its own making."""

    partition: Any
    offset: Any


@dataclass(frozen=True, slots=True)
class LoggerInfo:
    """A logger of the worker that was asked."""

    name: str
    level: str
    last_modified: int | None  # milliseconds since 1970


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """What is wrong with one key of a configuration."""

    key: str
    message: str


def parse_names(found: Any) -> list[str]:
    """GET /connectors."""
    return [_text(one, "a name") for one in _list(found, "the answer")]


def parse_listed_connectors(found: Any) -> dict[str, ListedConnector]:
    """GET /connectors with both expansions."""
    listed = {}
    for name, parts in _object(found, "the answer").items():
        both = _object(parts, name)
        status = both.get("status")
        listed[name] = ListedConnector(
            parse_connector_info(both.get("info")),
            parse_status(status) if status is not None else None,
        )
    return listed


def parse_connector_info(found: Any) -> ConnectorInfo:
    """GET /connectors/NAME."""
    info = _object(found, "info")
    tasks = [_object(one, "a task") for one in _list(info.get("tasks", []), "tasks")]
    return ConnectorInfo(
        name=_text(info.get("name"), "name"),
        type=_optional(info, "type"),
        config=parse_config(info.get("config")),
        tasks=tuple(_number(one.get("task"), "task") for one in tasks),
    )


def parse_config(found: Any) -> dict[str, str | None]:
    """GET /connectors/NAME/config."""
    return {
        key: None if value is None else _text(value, f"config '{key}'")
        for key, value in _object(found, "config").items()
    }


def parse_status(found: Any) -> ConnectorStateInfo:
    """GET /connectors/NAME/status."""
    status = _object(found, "status")
    tasks = [_object(one, "a task") for one in _list(status.get("tasks", []), "tasks")]
    return ConnectorStateInfo(
        name=_text(status.get("name"), "name"),
        type=_optional(status, "type"),
        connector=_state(_object(status.get("connector"), "connector")),
        tasks={_number(one.get("id"), "id"): _state(one) for one in tasks},
    )


def _state(found: Mapping[str, Any]) -> StateInfo:
    return StateInfo(
        state=_text(found.get("state"), "state"),
        worker_id=_optional(found, "worker_id"),
        trace=_optional(found, "trace"),
        version=_optional(found, "version"),
        warning=_optional(found, "warning"),
    )


def parse_topics(found: Any, name: str) -> list[str]:
    """GET /connectors/NAME/topics."""
    of_it = _object(_object(found, "the answer").get(name), name)
    return sorted(_text(one, "a topic") for one in _list(of_it.get("topics"), "topics"))


def parse_offsets(found: Any) -> list[ConnectorOffset]:
    """GET /connectors/NAME/offsets."""
    entries = _list(_object(found, "the answer").get("offsets"), "offsets")
    objects = [_object(one, "an offset") for one in entries]
    return [ConnectorOffset(one.get("partition"), one.get("offset")) for one in objects]


def parse_plugins(found: Any) -> list[PluginInfo]:
    """GET /connector-plugins."""
    objects = [_object(one, "a plugin") for one in _list(found, "the answer")]
    return [
        PluginInfo(
            _text(one.get("class"), "class"), _optional(one, "type"), _optional(one, "version")
        )
        for one in objects
    ]


def parse_config_keys(found: Any) -> list[ConfigKeyInfo]:
    """GET /connector-plugins/NAME/config."""
    objects = [_object(one, "a definition") for one in _list(found, "the answer")]
    return [
        ConfigKeyInfo(
            name=_text(one.get("name"), "name"),
            type=_optional(one, "type"),
            required=one.get("required") is True,
            default=None if one.get("default_value") is None else _optional(one, "default_value"),
            importance=_optional(one, "importance"),
            documentation=_optional(one, "documentation"),
        )
        for one in objects
    ]


def parse_config_problems(found: Any) -> list[ConfigProblem]:
    """PUT /connector-plugins/NAME/config/validate."""
    errors = []
    for entry in _list(_object(found, "the answer").get("configs"), "configs"):
        value = _object(entry, "a config").get("value")
        if value is None:
            continue
        of_key = _object(value, "value")
        name = _text(of_key.get("name"), "name")
        for sentence in _list(of_key.get("errors", []), "errors"):
            errors.append(ConfigProblem(name, _text(sentence, "an error")))  # noqa: PERF401 - clearer
    return errors


def parse_logger(name: str, found: Any) -> LoggerInfo:
    """GET /admin/loggers/NAME."""
    logger = _object(found, name)
    changed = logger.get("last_modified")
    return LoggerInfo(
        name,
        _text(logger.get("level"), "level"),
        None if changed is None else _number(changed, "last_modified"),
    )


def parse_loggers(found: Any) -> list[LoggerInfo]:
    """GET /admin/loggers."""
    return [parse_logger(name, one) for name, one in _object(found, "the answer").items()]


def _object(found: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise _unexpected(place, "an object", found)
    return found


def _list(found: Any, place: str) -> list[Any]:
    if not isinstance(found, list):
        raise _unexpected(place, "a list", found)
    return found


def _text(found: Any, place: str) -> str:
    if not isinstance(found, str):
        raise _unexpected(place, "a text", found)
    return found


def _number(found: Any, place: str) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise _unexpected(place, "a number", found)
    return found


def _optional(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return "" if value is None else _text(value, key)


def _unexpected(place: str, wanted: str, found: Any) -> ValueError:
    return ValueError(f"{place} should be {wanted}, not {found!r:.60}")


def redact_secrets(
    config: Mapping[str, str | None], definitions: Iterable[ConfigKeyInfo] = ()
) -> dict[str, str | None]:
    """The configuration as it may be shown."""
    return redact_config(config, {one.name for one in definitions if one.type == "PASSWORD"})
