# SPDX-License-Identifier: Apache-2.0
"""Records of Connect's config topic, as Java's workers write them.

    connector-<c>           {"properties":{"name":"<c>",...}}            nothing: deleted
    task-<c>-<n>            {"properties":{...}}                         counts from the commit on
    commit-<c>              {"tasks":<count>}
    target-state-<c>        {"state":"PAUSED","state.v2":"STOPPED"}      nothing: started
    restart-connector-<c>   {"include-tasks":true,"only-failed":false}
    tasks-fencing-<c>       {"task-count":<count>}
    session-key             {"key":"<base64>","algorithm":"HmacSHA256","creation-timestamp":<ms>}
    logger-cluster-<name>   {"level":"DEBUG"}

Keys are plain text, values schemaless JSON without white space. Workers before 3.5 know no
`state.v2` and are told PAUSED instead of STOPPED. A configuration may hold secrets, so no record
shows its own when it is printed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_fields import (
    LARGEST_LONG,
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
    """What a connector is meant to do."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A connector's configuration, references unresolved; None says that it is deleted."""

    connector: str
    config: Config | None = field(repr=False)

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(_CONNECTOR + self.connector)

    def value(self) -> bytes | None:
        """The record's value."""
        return None if self.config is None else encode({"properties": dict(self.config)})


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """One task's configuration, good once its connector's tasks are committed."""

    connector: str
    task: int
    config: Config = field(repr=False)

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(f"{_TASK}{self.connector}-{self.task}")

    def value(self) -> bytes:
        """The record's value."""
        return encode({"properties": dict(self.config)})


@dataclass(frozen=True, slots=True)
class TasksCommit:
    """The connector has this many tasks; their configurations are before this record."""

    connector: str
    tasks: int

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(_COMMIT + self.connector)

    def value(self) -> bytes:
        """The record's value."""
        return encode({"tasks": self.tasks})


@dataclass(frozen=True, slots=True)
class ConnectorTargetState:
    """What a connector is meant to do; None takes it back."""

    connector: str
    state: TargetState | None

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(_TARGET_STATE + self.connector)

    def value(self) -> bytes | None:
        """The record's value."""
        if self.state is None:
            return None
        older = TargetState.PAUSED if self.state is TargetState.STOPPED else self.state
        return encode({"state": older.value, "state.v2": self.state.value})


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Somebody wants a connector restarted."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(_RESTART + self.connector)

    def value(self) -> bytes:
        """The record's value."""
        return encode({"include-tasks": self.include_tasks, "only-failed": self.only_failed})


@dataclass(frozen=True, slots=True)
class TasksFencing:
    """Everything that wrote for the connector before is fenced; it has this many tasks now."""

    connector: str
    tasks: int

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(_FENCING + self.connector)

    def value(self) -> bytes:
        """The record's value."""
        return encode({"task-count": self.tasks})


@dataclass(frozen=True, slots=True)
class SessionKey:
    """With which workers sign what they ask of each other."""

    secret: bytes = field(repr=False)
    algorithm: str
    created_ms: int

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(_SESSION_KEY)

    def value(self) -> bytes:
        """The record's value."""
        return encode(
            {
                "key": base64.b64encode(self.secret).decode(),
                "algorithm": self.algorithm,
                "creation-timestamp": self.created_ms,
            }
        )


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """How much all workers say about something."""

    logger: str
    level: str

    def key(self) -> bytes:
        """The record's key."""
        return key_bytes(_LOGGER + self.logger)

    def value(self) -> bytes:
        """The record's value."""
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
    """What a record of the config topic says, whoever has written it."""
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
    wanted = require_fields(fields)
    # What is no boolean counts as no, as it does for Java.
    return RestartRequest(
        require_name(rest),
        include_tasks=wanted.get("include-tasks") is True,
        only_failed=wanted.get("only-failed") is True,
    )


def _task_count(rest: str, fields: JsonObject | None) -> ConfigRecord:
    return TasksFencing(require_name(rest), get_int(require_fields(fields), "task-count"))


def _session_key(rest: str, fields: JsonObject | None) -> ConfigRecord:
    if rest:
        raise WireError("it is of no known kind")
    found = require_fields(fields)
    try:
        secret = base64.b64decode(get_text(found, "key"), validate=True)
    except ValueError as error:
        raise WireError("its 'key' is not base64") from error
    created_ms = get_int(found, "creation-timestamp", LARGEST_LONG)
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
