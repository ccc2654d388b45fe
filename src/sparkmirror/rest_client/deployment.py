# SPDX-License-Identifier: Apache-2.0
"""Decides what changes a connector on a worker needs, and when its state is settled.

A worker that hides passwords does not tell whether they are the same: then the configuration is
sent, and the report says so.

A status is written after the fact. After a change of its configuration a connector shows its old
state for a moment; its own state follows first, then those of its tasks. A new connector is RUNNING
for a moment without a task. A state that may be old therefore counts only after some time. FAILED
after another state counts at once.
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

STALE_SECONDS = 3.0  # Java's worker needs about one
NO_TASKS_SECONDS = 5.0
_RESTING = frozenset({RunState.PAUSED, RunState.STOPPED})


class DeployChange(StrEnum):
    """What becomes of a connector."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class DeployDecision:
    """The change, and why it is not what one may have expected."""

    change: DeployChange
    remark: str = ""


def decide_change(wanted: ConnectorFile, stored: Mapping[str, str | None] | None) -> DeployDecision:
    """Compares a file with what is stored, which is None if there is no such connector."""
    _refuse_hidden(wanted, stored or {})
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


def _refuse_hidden(wanted: ConnectorFile, stored: Mapping[str, str | None]) -> None:
    """`[hidden]` is what a worker shows; it stands for a value only where one is hidden."""
    for key, value in wanted.config.items():
        if value == HIDDEN and stored.get(key) != HIDDEN:
            raise ConfigError(
                f"{wanted.path}: '{key}' of connector '{wanted.name}' is {HIDDEN}, and no worker "
                "knows what that was: write the value, or a reference such as ${env:...}.",
                key=key,
                where=wanted.path,
            )


class StateSettling:
    """Follows one connector; belongs to the thread that polls."""

    def __init__(self, *, is_update: bool) -> None:
        self._is_update = is_update
        self._changes = 0
        self._last: RunState | None = None
        self._since = 0.0

    def observe(self, now: float, status: ConnectorStateInfo | None) -> RunState | None:
        """The state in which it will stay, or None as long as that is not known."""
        verdict = _overall_state(status)
        if self._changes == 0 or verdict is not self._last:
            self._changes += 1
            self._last, self._since = verdict, now
        if verdict is None or now - self._since < self._required_seconds(verdict, status):
            return None
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
