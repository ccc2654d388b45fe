# SPDX-License-Identifier: Apache-2.0
"""Records of Connect's status topic, as Java's workers write them.

    status-connector-<c>   {"state":"RUNNING","trace":null,"worker_id":"host:8083",
                            "generation":3,"version":"4.3.1"}
    status-task-<c>-<n>    the same; ours may end with "warning":"...", which Java ignores
    status-topic-<topic>:connector-<c>
                           {"topic":{"name":"<topic>","connector":"<c>","task":0,
                                     "discoverTimestamp":<ms>}}

No value: the connector, task or topic is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_fields import (
    MAX_LONG,
    JsonObject,
    UnreadableRecord,
    get_int,
    get_text,
    get_text_or_none,
    key_bytes,
    parse_task_name,
    read_record,
    require_name,
)
from sparkmirror.formats.connect_json import Json, encode

NO_GENERATION = -1

_CONNECTOR = "status-connector-"
_TASK = "status-task-"
_TOPIC = "status-topic-"
_CONNECTOR_INFIX = ":connector-"


class RunState(StrEnum):
    """The actual state of a connector or task; only connectors are STOPPED."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Status:
    """State, worker and group generation."""

    state: RunState
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    warning: str = ""  # a problem that is being retried; our own field, written only if set

    def value(self) -> bytes:
        fields: dict[str, Json] = {
            "state": self.state.value,
            "trace": self.trace,
            "worker_id": self.worker_id,
            "generation": self.generation,
            "version": self.version,
        }
        if self.warning:
            fields["warning"] = self.warning
        return encode(fields)


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """Status of a connector; None if it is removed."""

    connector: str
    status: Status | None

    def key(self) -> bytes:
        return key_bytes(_CONNECTOR + self.connector)

    def value(self) -> bytes | None:
        return None if self.status is None else self.status.value()


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """Status of a task; None if it is removed."""

    connector: str
    task: int
    status: Status | None

    def key(self) -> bytes:
        return key_bytes(f"{_TASK}{self.connector}-{self.task}")

    def value(self) -> bytes | None:
        return None if self.status is None else self.status.value()


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """The first task that used a topic, and the time."""

    task: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a connector uses; None removes it."""

    connector: str
    topic: str
    seen: TopicSeen | None

    def key(self) -> bytes:
        return key_bytes(f"{_TOPIC}{self.topic}{_CONNECTOR_INFIX}{self.connector}")

    def value(self) -> bytes | None:
        if self.seen is None:
            return None
        return encode(
            {
                "topic": {
                    "name": self.topic,
                    "connector": self.connector,
                    "task": self.seen.task,
                    "discoverTimestamp": self.seen.time_ms,
                }
            }
        )


StatusRecord: TypeAlias = ConnectorStatus | TaskStatus | TopicStatus


def read_status_record(key: bytes | None, value: bytes | None) -> StatusRecord | UnreadableRecord:
    """Decode a record of the status topic."""
    return read_record(key, value, _READERS)


def _connector_status(rest: str, fields: JsonObject | None) -> StatusRecord:
    return ConnectorStatus(require_name(rest), _status(fields))


def _task_status(rest: str, fields: JsonObject | None) -> StatusRecord:
    connector, task = parse_task_name(rest)
    return TaskStatus(connector, task, _status(fields))


def _topic_status(rest: str, fields: JsonObject | None) -> StatusRecord:
    topic, _, connector = rest.partition(_CONNECTOR_INFIX)
    if not topic or not connector:
        raise WireError("its key has no topic or no connector")
    if fields is None:
        return TopicStatus(connector, topic, None)
    inner = fields.get("topic")
    if not isinstance(inner, dict):
        raise WireError("it has no object 'topic'")
    seen = TopicSeen(get_int(inner, "task"), get_int(inner, "discoverTimestamp", MAX_LONG))
    return TopicStatus(connector, topic, seen)


def _status(fields: JsonObject | None) -> Status | None:
    if fields is None:
        return None
    state = get_text(fields, "state")
    if state not in RunState.__members__:
        raise WireError(f"it has an unknown state {state!r}")
    return Status(
        RunState(state),
        get_text_or_none(fields, "worker_id") or "",
        _generation(fields),
        get_text_or_none(fields, "trace"),
        get_text_or_none(fields, "version"),
        get_text_or_none(fields, "warning") or "",
    )


def _generation(fields: JsonObject) -> int:
    found = fields.get("generation")
    return found if isinstance(found, int) and not isinstance(found, bool) else NO_GENERATION


_READERS: Mapping[str, Callable[[str, JsonObject | None], StatusRecord]] = {
    _CONNECTOR: _connector_status,
    _TASK: _task_status,
    _TOPIC: _topic_status,
}
