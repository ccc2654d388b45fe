# SPDX-License-Identifier: Apache-2.0
"""The read side of ConnectApi, for a worker and for a mirror that runs a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkmirror.config.connector_validation import ConfigValidation
from sparkmirror.config.keys.connector_classes import KeyDefinition
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors, plugins
from sparkmirror.connect.api import (
    ConnectorInfo,
    ConnectorStateInfo,
    LogLevel,
    Plugin,
    StateInfo,
)
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_status_records import RunState


class ConnectorQueries(ABC):
    """Answers from the configs and states that a subclass knows. Any thread."""

    def __init__(self, levels: LogLevels) -> None:
        self._levels = levels

    @abstractmethod
    def _configs(self) -> Mapping[str, Config]:
        """All connectors, in the order in which they are listed; ApiError before the start."""

    @abstractmethod
    def _state(self, name: str) -> ConnectorStateInfo | None:
        """A connector and its tasks; None if it does not exist or has no status yet."""

    @abstractmethod
    def _tasks(self, name: str) -> Sequence[Config]:
        """The task configs of a connector that exists."""

    @abstractmethod
    def _worker_config(self) -> WorkerConfig:
        """The worker that a configuration is validated for."""

    def connectors(self) -> list[str]:
        return [*self._configs()]

    def info(self, name: str) -> ConnectorInfo:
        config = self._configs().get(name)
        if config is None:
            raise api_errors.connector_not_found(name)
        return ConnectorInfo(name, dict(config), tuple(range(len(self._tasks(name)))))

    def status(self, name: str) -> ConnectorStateInfo:
        found = self._state(name)
        if found is None:
            raise api_errors.status_not_found(name)
        return found

    def task_configs(self, name: str) -> list[dict[str, str | None]]:
        if name not in self._configs():
            raise api_errors.connector_not_found(name)
        return [dict(one) for one in self._tasks(name)]

    def task_status(self, name: str, task: int) -> StateInfo:
        found = self._state(name)
        if found is None or task not in found.tasks:
            raise api_errors.task_status_not_found(name, task)
        return found.tasks[task]

    def plugins(self, *, connectors_only: bool) -> list[Plugin]:
        return plugins.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[KeyDefinition]:
        return plugins.plugin_config(plugin, version)

    def validate(self, plugin: str, config: Config) -> ConfigValidation:
        return plugins.validate(plugin, config, self._worker_config())

    def loggers(self) -> Mapping[str, LogLevel]:
        return self._levels.all()

    def logger(self, name: str) -> LogLevel:
        return self._levels.get(name)


def as_restarting(
    known: ConnectorStateInfo, *, include_tasks: bool, only_failed: bool
) -> ConnectorStateInfo:
    """The status of a connector whose restart has just been requested."""
    return replace(
        known,
        connector=_restarting(known.connector, only_failed=only_failed),
        tasks={
            task: _restarting(one, only_failed=only_failed) if include_tasks else one
            for task, one in known.tasks.items()
        },
    )


def _restarting(one: StateInfo, *, only_failed: bool) -> StateInfo:
    if only_failed and one.state is not RunState.FAILED:
        return one
    return StateInfo(RunState.RESTARTING, one.worker_id, version=one.version)
