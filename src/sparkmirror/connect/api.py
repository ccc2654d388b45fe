# SPDX-License-Identifier: Apache-2.0
"""What may be asked of a worker, whoever asks: the REST API is one way to do it.

Configurations are as they are stored, passwords included; hiding them is the asker's part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sparkmirror.config.connector_validation import ConfigValidation
from sparkmirror.config.keys.connector_classes import KeyDefinition
from sparkmirror.connect.offset_alterations import OffsetEntry
from sparkmirror.errors import SparkmirrorError
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_status_records import RunState

__all__ = [
    "ApiError",
    "ConnectApi",
    "ConnectorInfo",
    "ConnectorStateInfo",
    "ForwardTo",
    "LogLevel",
    "Plugin",
    "RunState",
    "SignedBody",
    "StateInfo",
]


class ApiError(SparkmirrorError):
    """A request that is refused; `status` is the HTTP status that Connect answers with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ForwardTo(Exception):  # noqa: N818 - no error: an answer that lies elsewhere
    """The request belongs to another worker: the leader, or the connector's owner."""

    def __init__(self, url: str, still: Callable[[], bool] = lambda: True) -> None:
        """`still` tells, while the answer is awaited, whether that worker is the right one yet."""
        super().__init__(url)
        self.url = url
        self.is_current = still


@dataclass(frozen=True, slots=True)
class StateInfo:
    """What a connector or a task does, and where."""

    state: RunState
    worker_id: str
    trace: str = ""
    version: str | None = None
    warning: str = ""  # trouble that may pass; ours, Connect has no such field


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as it is meant to be: its configuration as stored, and its tasks."""

    name: str
    config: Mapping[str, str | None] = field(repr=False)
    tasks: tuple[int, ...] = ()
    type: str = "source"


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """What a connector and its tasks do."""

    name: str
    connector: StateInfo
    tasks: Mapping[int, StateInfo]
    type: str = "source"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that a configuration may name."""

    class_name: str
    type: str
    version: str


@dataclass(frozen=True, slots=True)
class LogLevel:
    """How much a logger says, and since when (milliseconds); None: since the start."""

    level: str
    last_modified: int | None = None


@dataclass(frozen=True, slots=True)
class SignedBody:
    """What one worker sends another, as its bytes came, with the two headers that sign them."""

    body: bytes = field(repr=False)
    signature: str | None
    algorithm: str | None


ParseTasks = Callable[[bytes], Sequence[Mapping[str, str | None]]]


class ConnectApi(Protocol):
    """A worker. Calls block, come from any thread, and raise ApiError or ForwardTo."""

    def refresh(self) -> None:
        """Learn what others have done, before a question; what is known has to do if it fails."""

    def server_info(self) -> Mapping[str, str]:
        """`version`, `commit` and `kafka_cluster_id`."""

    def health(self) -> tuple[int, Mapping[str, str]]:
        """200, 503 while starting or 500, with `status` and `message`."""

    def stage(self) -> str:
        """What the worker does now and since when; may be "". Never waits for anything."""

    def connectors(self) -> list[str]:
        """The names of all connectors."""

    def info(self, name: str) -> ConnectorInfo:
        """A connector as it is meant to be; 404."""

    def status(self, name: str) -> ConnectorStateInfo:
        """What a connector does; 404 also if nobody has said yet."""

    def task_configs(self, name: str) -> list[dict[str, str | None]]:
        """The configurations of its tasks, in their order; 404."""

    def task_status(self, name: str, task: int) -> StateInfo:
        """What one task does; 404."""

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: str | None
    ) -> ConnectorInfo:
        """A new connector, RUNNING, PAUSED or STOPPED; 400, 409 if there is one."""

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        """A new connector or a new configuration, and whether it was created; 400."""

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some keys, remove those that are None; 400, 404."""

    def delete(self, name: str) -> None:
        """Forget a connector; its stored offsets stay. 404."""

    def pause(self, name: str) -> None:
        """Copy nothing, keep all at hand; 404."""

    def resume(self, name: str) -> None:
        """Go on after a pause or a stop; 404."""

    def stop(self, name: str) -> None:
        """Copy nothing and have no tasks; 404."""

    def restart(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo | None:
        """Begin anew; what is about to happen, or None if only the connector was asked for."""

    def restart_task(self, name: str, task: int) -> None:
        """Begin one task anew; 404."""

    def topics(self, name: str) -> list[str]:
        """The topics it has written to; none for a connector that nobody knows."""

    def reset_topics(self, name: str) -> None:
        """Forget these topics."""

    def offsets(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        """Its stored offsets, each a `partition` and an `offset`; 404."""

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:
        """Set offsets of a stopped connector; a sentence. 400, 404, 500."""

    def reset_offsets(self, name: str) -> str:
        """Forget all offsets of a stopped connector; a sentence. 400, 404."""

    def plugins(self, *, connectors_only: bool) -> list[Plugin]:
        """What there is to configure."""

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[KeyDefinition]:
        """The keys of a plugin; 404, 400 for a version that there is not."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> ConfigValidation:
        """What is wrong with a configuration; 400, and 500 without a class."""

    def loggers(self) -> Mapping[str, LogLevel]:
        """Every logger whose level is set."""

    def logger(self, name: str) -> LogLevel:
        """One of them; 404."""

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:
        """Set a level here, or on all workers; the loggers that changed. 404 for no level."""

    def put_tasks(self, name: str, signed: SignedBody, read: ParseTasks) -> None:
        """Another worker publishes a connector's tasks, read once it is known; 400, 403, 503."""

    def fence(self, name: str, signed: SignedBody) -> None:
        """Another worker wants a connector's earlier writers fenced; 400, 403, 503."""
