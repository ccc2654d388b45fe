# SPDX-License-Identifier: Apache-2.0
"""The interface of a worker, independent of REST.

Configurations are as stored, with passwords; the REST API hides them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sparkmirror.config.connector_validation import ConfigValidation
from sparkmirror.config.keys.connector_classes import KeyDefinition
from sparkmirror.connect.offset_alterations import OffsetEntry
from sparkmirror.connectors.offset_reset_plan import PlannedReset, ResetWish
from sparkmirror.errors import SparkmirrorError
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowSnapshot, PartitionLag
from sparkmirror.state.offset_resets import OffsetReset


class ApiError(SparkmirrorError):
    """An error response; `status` is Connect's HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ForwardTo(Exception):  # noqa: N818 - not an error
    """The request belongs to another worker: the leader, or the connector's owner."""

    def __init__(self, url: str, still: Callable[[], bool] = lambda: True) -> None:
        """`still` says, while the response is awaited, whether it is still the right worker."""
        super().__init__(url)
        self.url = url
        self.is_current = still


@dataclass(frozen=True, slots=True)
class StateInfo:
    """The state of a connector or a task, and its worker."""

    state: RunState
    worker_id: str
    trace: str = ""
    version: str | None = None
    warning: str = ""  # a problem that may be temporary; Connect has no such field


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector: its configuration as stored, and its tasks."""

    name: str
    config: Mapping[str, str | None] = field(repr=False)
    tasks: tuple[int, ...] = ()
    type: str = "source"


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """The states of a connector and its tasks."""

    name: str
    connector: StateInfo
    tasks: Mapping[int, StateInfo]
    type: str = "source"


@dataclass(frozen=True, slots=True)
class ConnectorLag:
    """What a source connector still has to copy, and its latencies. An addition to Connect."""

    name: str
    flow: FlowSnapshot = field(repr=False)
    partitions: tuple[PartitionLag, ...]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that a configuration can name."""

    class_name: str
    type: str
    version: str


@dataclass(frozen=True, slots=True)
class LogLevel:
    """The level of a logger, and when it was set in milliseconds; None: at the start."""

    level: str
    last_modified: int | None = None


@dataclass(frozen=True, slots=True)
class SignedBody:
    """The body of a request between workers, with the two headers of its signature."""

    body: bytes = field(repr=False)
    signature: str | None
    algorithm: str | None


ParseTasks = Callable[[bytes], Sequence[Mapping[str, str | None]]]


class ConnectApi(Protocol):
    """A worker. Calls block, come from any thread, and raise ApiError or ForwardTo."""

    def refresh(self) -> None:
        """Read what other workers have written, before a query; keeps the last state on failure."""

    def server_info(self) -> Mapping[str, str]:
        """`version`, `commit` and `kafka_cluster_id`."""

    def health(self) -> tuple[int, Mapping[str, str]]:
        """200, 503 while starting or 500, with `status` and `message`."""

    def readiness(self) -> tuple[int, Mapping[str, str]]:
        """200 if all flows of this process can work, else 503, with `status` and `message`."""

    def stage(self) -> str:
        """What the worker is doing; may be "". Does not block."""

    def connectors(self) -> list[str]:
        """The names of all connectors."""

    def info(self, name: str) -> ConnectorInfo:
        """Configuration and tasks; 404."""

    def status(self, name: str) -> ConnectorStateInfo:
        """The states of a connector and its tasks; 404 also before the first status."""

    def lag(self, name: str) -> ConnectorLag:
        """The lag of a source connector; 404 for another one."""

    def task_configs(self, name: str) -> list[dict[str, str | None]]:
        """The configurations of its tasks, in their order; 404."""

    def task_status(self, name: str, task: int) -> StateInfo:
        """The state of a task; 404."""

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: str | None
    ) -> ConnectorInfo:
        """A new connector, RUNNING, PAUSED or STOPPED; 400, 409 if it exists."""

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        """A new connector or a new configuration, and whether it was created; 400."""

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some keys, remove those that are None; 400, 404."""

    def delete(self, name: str) -> None:
        """Delete a connector; its stored offsets stay. 404."""

    def pause(self, name: str) -> None:
        """Pause a connector; 404."""

    def resume(self, name: str) -> None:
        """Resume a connector that was paused or stopped; 404."""

    def stop(self, name: str) -> None:
        """Stop a connector and remove its tasks; 404."""

    def restart(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo | None:
        """The expected status, or None for a plain restart; 404."""

    def restart_task(self, name: str, task: int) -> None:
        """Restart a task; 404."""

    def topics(self, name: str) -> list[str]:
        """The topics that it has written to; none for an unknown connector."""

    def reset_topics(self, name: str) -> None:
        """Clear these topics."""

    def offsets(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        """Its stored offsets, each a `partition` and an `offset`; 404."""

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:
        """Set offsets of a stopped connector; returns a message. 400, 404, 500."""

    def reset_offsets(self, name: str) -> str:
        """Delete all offsets of a stopped connector; returns a message. 400, 404."""

    def plan_offset_reset(self, name: str, wish: ResetWish) -> Sequence[PlannedReset]:
        """What a reset of a source connector would change; not in Connect. 400, 404."""

    def request_offset_reset(self, name: str, wish: ResetWish) -> Sequence[PlannedReset]:
        """Store a reset, which the connector carries out when it starts. 400, 404."""

    def pending_offset_resets(self, name: str) -> Mapping[TopicPartition, OffsetReset]:
        """The stored resets that are not carried out, and refused ones. 400, 404."""

    def plugins(self, *, connectors_only: bool) -> list[Plugin]:
        """Connector classes, and converters."""

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[KeyDefinition]:
        """The keys of a plugin; 404, 400 for an unknown version."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> ConfigValidation:
        """Validate a configuration; 400, and 500 without a class."""

    def loggers(self) -> Mapping[str, LogLevel]:
        """Every logger whose level is set."""

    def logger(self, name: str) -> LogLevel:
        """The level of a logger; 404."""

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:
        """Set a level here or on all workers; returns the changed loggers. 404 for no level."""

    def put_tasks(self, name: str, signed: SignedBody, read: ParseTasks) -> None:
        """Publish tasks for another worker; `read` parses the verified body. 400, 403, 503."""

    def fence(self, name: str, signed: SignedBody) -> None:
        """Record that another worker has fenced earlier writers; 400, 403, 503."""
