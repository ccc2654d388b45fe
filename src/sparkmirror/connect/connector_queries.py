# SPDX-License-Identifier: Apache-2.0
"""The read side of ConnectApi, for a worker and for a mirror that runs a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus

from sparkmirror.config.connector_config import PLUGIN_VERSION
from sparkmirror.config.connector_validation import ConfigValidation, validate_connector
from sparkmirror.config.keys.connector_classes import (
    ConnectorClass,
    KeyDefinition,
    definitions,
    plugin_matches_class,
    resolve_class_name,
)
from sparkmirror.config.keys.worker_keys import BYTE_ARRAY_CONVERTER
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors
from sparkmirror.connect.api import (
    ApiError,
    ConnectorInfo,
    ConnectorLag,
    ConnectorStateInfo,
    LogLevel,
    Plugin,
    StateInfo,
)
from sparkmirror.connect.config_cache import without_providers
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.offset_reset_requests import (
    pending_resets,
    planned_reset,
    requested_reset,
)
from sparkmirror.connectors.desired_state import InstanceView
from sparkmirror.connectors.offset_reset_plan import PlannedReset, ResetWish
from sparkmirror.errors import ConfigError, join_sentences
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowSnapshot, FlowStatus
from sparkmirror.state.offset_resets import OffsetReset


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
    def _source_settings(self, name: str) -> FlowSettings:
        """The settings of a source connector; ApiError 404, or 400 for another class."""

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

    def _lag_of(self, name: str, view: InstanceView | None) -> ConnectorLag:
        if view is not None and view.snapshot.copies:
            return ConnectorLag(name, view.snapshot, view.partition_lags())
        class_name = self._configs()[name].get("connector.class") or ""
        if view is not None or resolve_class_name(class_name) is not ConnectorClass.SOURCE:
            raise api_errors.copies_nothing(name)
        return ConnectorLag(name, FlowStatus(name).snapshot(), ())  # it has not been started yet

    def plan_offset_reset(self, name: str, wish: ResetWish) -> Sequence[PlannedReset]:
        return planned_reset(self._source_settings(name), wish)

    def request_offset_reset(self, name: str, wish: ResetWish) -> Sequence[PlannedReset]:
        return requested_reset(self._source_settings(name), wish)

    def pending_offset_resets(self, name: str) -> Mapping[TopicPartition, OffsetReset]:
        return pending_resets(self._source_settings(name))

    def plugins(self, *, connectors_only: bool) -> list[Plugin]:
        found = [Plugin(one.java_name, "source", PLUGIN_VERSION) for one in ConnectorClass]
        found.sort(key=lambda one: one.class_name)
        if not connectors_only:
            found += [
                Plugin(BYTE_ARRAY_CONVERTER, kind, PLUGIN_VERSION)
                for kind in ("converter", "header_converter")
            ]
        return found

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[KeyDefinition]:
        kind = resolve_class_name(plugin)
        if kind is None and plugin != BYTE_ARRAY_CONVERTER:
            raise ApiError(HTTPStatus.NOT_FOUND, f"Unknown plugin {plugin}.")
        if version not in (None, "latest", PLUGIN_VERSION):
            raise ApiError(
                HTTPStatus.BAD_REQUEST,
                f"Plugin {plugin if kind is None else kind.java_name} not found that matches the "
                f"version range [{version},{version}], available versions: [{PLUGIN_VERSION}]",
            )
        return () if kind is None else definitions(kind)

    def validate(self, plugin: str, config: Config) -> ConfigValidation:
        # Connect answers 400 for an unknown class when a connector is created, and 500 here.
        class_name = config.get("connector.class")
        if class_name is not None and not plugin_matches_class(plugin, class_name):
            raise ApiError(
                HTTPStatus.BAD_REQUEST,
                f"Included connector type {class_name} does not match request type {plugin}",
            )
        try:
            return validate_connector(without_providers(config), self._worker_config())
        except ConfigError as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    def loggers(self) -> Mapping[str, LogLevel]:
        return self._levels.all()

    def logger(self, name: str) -> LogLevel:
        return self._levels.get(name)


def readiness(flows: Iterable[FlowSnapshot]) -> tuple[int, Mapping[str, str]]:
    """Return 200 if all flows can work, else 503 with the reason of each that cannot."""
    waiting = [
        f"{one.flow}: {one.state.value} {one.reason}".rstrip() for one in flows if not one.can_work
    ]
    if waiting:
        message = join_sentences(waiting)
        return HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "message": message}
    return HTTPStatus.OK, {"status": "ready", "message": "All flows of this process can work."}


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
