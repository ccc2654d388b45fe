# SPDX-License-Identifier: Apache-2.0
"""Records of Connect's config topic, as Java's workers write them.

    connector-<c>           {"properties":{"name":"<c>",...}}            no value: deleted
    task-<c>-<n>            {"properties":{...}}                         valid from the commit on
    commit-<c>              {"tasks":<count>}
    target-state-<c>        {"state":"PAUSED","state.v2":"STOPPED"}      no value: started
    restart-connector-<c>   {"include-tasks":true,"only-failed":false}
    tasks-fencing-<c>       {"task-count":<count>}
    session-key             {"key":"<base64>","algorithm":"HmacSHA256","creation-timestamp":<ms>}
    logger-cluster-<name>   {"level":"DEBUG"}

Keys are plain text, values schemaless JSON without white space. Workers before 3.5 do not know
`state.v2` and get PAUSED instead of STOPPED. Configurations may contain secrets, so no record
prints them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_fields import (
    MAX_LONG,
    Config,
    JsonObject,
    UnreadableRecord,
    get_int,
    get_properties,
    get_text,
    key_bytes,
    parse_task_name,
    read_record,
    require_fields,
    require_name,
)
from sparkmirror.formats.connect_json import encode

_TARGET_STATE = "target-state-"
_CONNECTOR = "connector-"
_TASK = "task-"
_COMMIT = "commit-"
_RESTART = "restart-connector-"
_FENCING = "tasks-fencing-"
_SESSION_KEY = "session-key"
_LOGGER = "logger-cluster-"


class TargetState(StrEnum):
    """The desired state of a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A connector's configuration with unresolved references; None if it is deleted."""

    connector: str
    config: Config | None = field(repr=False)

    def key(self) -> bytes:
        return key_bytes(_CONNECTOR + self.connector)

    def value(self) -> bytes | None:
        return None if self.config is None else encode({"properties": dict(self.config)})


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """One task's configuration; valid once the connector's tasks are committed."""

    connector: str
    task: int
    config: Config = field(repr=False)

    def key(self) -> bytes:
        return key_bytes(f"{_TASK}{self.connector}-{self.task}")

    def value(self) -> bytes:
        return encode({"properties": dict(self.config)})


@dataclass(frozen=True, slots=True)
class TasksCommit:
    """The number of tasks; their configurations are before this record."""

    connector: str
    tasks: int

    def key(self) -> bytes:
        return key_bytes(_COMMIT + self.connector)

    def value(self) -> bytes:
        return encode({"tasks": self.tasks})


@dataclass(frozen=True, slots=True)
class ConnectorTargetState:
    """The desired state of a connector; None removes it."""

    connector: str
    state: TargetState | None

    def key(self) -> bytes:
        return key_bytes(_TARGET_STATE + self.connector)

    def value(self) -> bytes | None:
        if self.state is None:
            return None
        older = TargetState.PAUSED if self.state is TargetState.STOPPED else self.state
        return encode({"state": older.value, "state.v2": self.state.value})


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request to restart a connector."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    def key(self) -> bytes:
        return key_bytes(_RESTART + self.connector)

    def value(self) -> bytes:
        return encode({"include-tasks": self.include_tasks, "only-failed": self.only_failed})


@dataclass(frozen=True, slots=True)
class TasksFencing:
    """All earlier producers of the connector are fenced; it now has this many tasks."""

    connector: str
    tasks: int

    def key(self) -> bytes:
        return key_bytes(_FENCING + self.connector)

    def value(self) -> bytes:
        return encode({"task-count": self.tasks})


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key with which workers sign requests to each other."""

    secret: bytes = field(repr=False)
    algorithm: str
    created_ms: int

    def key(self) -> bytes:
        return key_bytes(_SESSION_KEY)

    def value(self) -> bytes:
        return encode(
            {
                "key": base64.b64encode(self.secret).decode(),
                "algorithm": self.algorithm,
                "creation-timestamp": self.created_ms,
            }
        )


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The level of a logger on all workers."""

    logger: str
    level: str

    def key(self) -> bytes:
        return key_bytes(_LOGGER + self.logger)

    def value(self) -> bytes:
        return encode({"level": self.level})


ConfigRecord: TypeAlias = (
    ConnectorConfig
    | TaskConfig
    | TasksCommit
    | ConnectorTargetState
    | RestartRequest
    | TasksFencing
    | SessionKey
    | LoggerLevel
)


def read_config_record(key: bytes | None, value: bytes | None) -> ConfigRecord | UnreadableRecord:
    """Decode a record of the config topic."""
    return read_record(key, value, _READERS)


def _connector_config(rest: str, fields: JsonObject | None) -> ConfigRecord:
    return ConnectorConfig(require_name(rest), None if fields is None else get_properties(fields))


def _task_config(rest: str, fields: JsonObject | None) -> ConfigRecord:
    connector, task = parse_task_name(rest)
    return TaskConfig(connector, task, get_properties(require_fields(fields)))


def _commit(rest: str, fields: JsonObject | None) -> ConfigRecord:
    return TasksCommit(require_name(rest), get_int(require_fields(fields), "tasks"))


def _target(rest: str, fields: JsonObject | None) -> ConfigRecord:
    if fields is None:
        return ConnectorTargetState(require_name(rest), None)
    newer = fields.get("state.v2")
    state = newer if isinstance(newer, str) else get_text(fields, "state")
    if state not in TargetState.__members__:
        raise WireError(f"it has an unknown target state {state!r}")
    return ConnectorTargetState(require_name(rest), TargetState(state))


def _restart(rest: str, fields: JsonObject | None) -> ConfigRecord:
    options = require_fields(fields)
    # A value that is not a boolean counts as false, as in Java.
    return RestartRequest(
        require_name(rest),
        include_tasks=options.get("include-tasks") is True,
        only_failed=options.get("only-failed") is True,
    )


def _task_count(rest: str, fields: JsonObject | None) -> ConfigRecord:
    return TasksFencing(require_name(rest), get_int(require_fields(fields), "task-count"))


def _session_key(rest: str, fields: JsonObject | None) -> ConfigRecord:
    if rest:
        raise WireError("its key is unknown")
    found = require_fields(fields)
    try:
        secret = base64.b64decode(get_text(found, "key"), validate=True)
    except ValueError as error:
        raise WireError("its 'key' is not base64") from error
    created_ms = get_int(found, "creation-timestamp", MAX_LONG)
    return SessionKey(secret, get_text(found, "algorithm"), created_ms)


def _logger_level(rest: str, fields: JsonObject | None) -> ConfigRecord:
    return LoggerLevel(require_name(rest), get_text(require_fields(fields), "level"))


_READERS: Mapping[str, Callable[[str, JsonObject | None], ConfigRecord]] = {
    _TARGET_STATE: _target,
    _CONNECTOR: _connector_config,
    _TASK: _task_config,
    _COMMIT: _commit,
    _RESTART: _restart,
    _FENCING: _task_count,
    _SESSION_KEY: _session_key,
    _LOGGER: _logger_level,
}
