# SPDX-License-Identifier: Apache-2.0
"""Decides whether to create or update a connector, and when its state is settled.

A worker may hide passwords, so they cannot be compared: the configuration is then sent, and the
report says so.

Statuses lag behind. After an update a connector has its old state for a moment; then its own state
changes, then those of its tasks. A new connector is RUNNING without tasks for a moment. A state
that may be old therefore counts only after some time. FAILED after another state counts at once.

RUNNING counts only without a warning, and for a connector that copies only with a task: a
connector that cannot reach its source is RUNNING without tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sparkmirror.errors import ConfigError
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import HIDDEN
from sparkmirror.rest_client.connector_files import ConnectorFile
from sparkmirror.rest_client.responses import ConnectorStateInfo

STALE_SECONDS = 3.0  # a Java worker needs about one
NO_TASKS_SECONDS = 5.0
_IDLE_CLASSES = ("MirrorCheckpointConnector", "MirrorHeartbeatConnector")  # may have no task
_RESTING = frozenset({RunState.PAUSED, RunState.STOPPED})


class DeployChange(StrEnum):
    """The change of a connector."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class DeployDecision:
    """The change, and a remark if it may be unexpected."""

    change: DeployChange
    remark: str = ""


def decide_change(wanted: ConnectorFile, stored: Mapping[str, str | None] | None) -> DeployDecision:
    """Compare a file with the stored configuration; None if the connector does not exist."""
    _reject_hidden(wanted, stored or {})
    if stored is None:
        return DeployDecision(DeployChange.CREATED)
    differing = sorted(
        key
        for key in wanted.config.keys() | stored.keys()
        if key not in wanted.config or key not in stored or wanted.config[key] != stored[key]
    )
    if not differing:
        return DeployDecision(DeployChange.UNCHANGED)
    if all(stored.get(key) == HIDDEN and key in wanted.config for key in differing):
        return DeployDecision(DeployChange.UPDATED, f"the worker hides {', '.join(differing)}")
    return DeployDecision(DeployChange.UPDATED)


def _reject_hidden(wanted: ConnectorFile, stored: Mapping[str, str | None]) -> None:
    """Accept `[hidden]` only for a value that the worker has stored and hides."""
    for key, value in wanted.config.items():
        if value == HIDDEN and stored.get(key) != HIDDEN:
            raise ConfigError(
                f"{wanted.path}: '{key}' of connector '{wanted.name}' is {HIDDEN}, but the worker "
                "has no such value: write the value, or a reference such as ${env:...}.",
                key=key,
                where=wanted.path,
            )


def needs_tasks(config: Mapping[str, str | None]) -> bool:
    """Whether a connector without a task does not do what it is for."""
    return not (config.get("connector.class") or "").endswith(_IDLE_CLASSES)


class StateSettling:
    """Tracks the state of one connector. Not thread-safe."""

    def __init__(self, *, is_update: bool, needs_tasks: bool = False) -> None:
        self._is_update = is_update
        self._needs_tasks = needs_tasks
        self._changes = 0
        self._last: RunState | None = None
        self._since = 0.0

    def observe(self, now: float, status: ConnectorStateInfo | None) -> RunState | None:
        """Return the settled state; None if it may still change."""
        verdict = _overall_state(status)
        if self._changes == 0 or verdict is not self._last:
            self._changes += 1
            self._last, self._since = verdict, now
        if verdict is None or now - self._since < self._required_seconds(verdict, status):
            return None
        if verdict is RunState.RUNNING and status is not None:
            has_tasks = bool(status.tasks) or not self._needs_tasks
            return verdict if has_tasks and not status.warnings else None
        return verdict

    def _required_seconds(self, verdict: RunState, status: ConnectorStateInfo | None) -> float:
        is_news = verdict is RunState.FAILED and self._changes > 1
        has_no_task = verdict is RunState.RUNNING and status is not None and not status.tasks
        return max(
            STALE_SECONDS if self._is_update and not is_news else 0.0,
            NO_TASKS_SECONDS if has_no_task else 0.0,
        )


def _overall_state(status: ConnectorStateInfo | None) -> RunState | None:
    if status is None:
        return None
    if RunState.FAILED in status.states:
        return RunState.FAILED
    if status.states == {RunState.RUNNING}:
        return RunState.RUNNING
    if len(status.states) == 1 and status.connector.state in _RESTING:
        return RunState(status.connector.state)
    return None
