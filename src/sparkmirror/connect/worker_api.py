# SPDX-License-Identifier: Apache-2.0
"""Implements Connect's operations (`ConnectApi`) on a Connect worker.

Any worker answers queries from the group's topics. The leader writes changes to the config topic,
where the connector's owner reads them. A restart without parameters goes to the owner.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus

from sparkmirror import __version__
from sparkmirror.config.connector_config import PLUGIN_VERSION, connector_class, read_connector
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors
from sparkmirror.connect.api import (
    ApiError,
    ConnectorInfo,
    ConnectorLag,
    ConnectorStateInfo,
    ForwardTo,
    ParseTasks,
    SignedBody,
    StateInfo,
)
from sparkmirror.connect.config_cache import CheckedConfig, ConnectorConfigCache
from sparkmirror.connect.connector_queries import ConnectorQueries, as_restarting, readiness
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader, topic_error
from sparkmirror.connect.log_levels import LogLevels, check_level
from sparkmirror.connect.offset_alterations import OffsetEntry, offset_records
from sparkmirror.connect.reconciler import Reconciler
from sparkmirror.connect.signatures import verify_signature
from sparkmirror.connect.startup import Startup
from sparkmirror.connect.stored_offsets import ConnectorOffsetStore
from sparkmirror.connect.task_publisher import put_tasks_if_started
from sparkmirror.connectors.desired_state import DesiredState, InstanceView, Restart
from sparkmirror.errors import ArgumentError, ClusterError, ConfigError, join_sentences
from sparkmirror.formats.connect_config_records import LoggerLevel, RestartRequest, TargetState
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_status_records import RunState, Status, TopicStatus
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ConfigLog

_STOPPED_SECONDS = 15.0  # limit for a connector to end before its offsets are altered
_GONE_SECONDS = 15.0  # limit for a deleted connector to end before its statuses are removed
_BEGINNINGS = {"PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
_log = logging.getLogger(__name__)


class WorkerApi(ConnectorQueries):
    """Implements ConnectApi: state from the group's topics, changes as the leader."""

    def __init__(
        self,
        file: WorkerConfig,
        startup: Startup,
        group_state: GroupState,
        membership: Membership,
        leader: GroupLeader,
        reconciler: Reconciler,
        config_cache: ConnectorConfigCache,
        levels: LogLevels,
        *,
        instances: Callable[[], Mapping[str, InstanceView]],
        restart: Callable[[Restart], None],
        problem: Callable[[], str],
    ) -> None:
        """`instances` are the connectors of this worker, `restart` restarts one of them.

        `problem` returns why the worker cannot work; empty if it can.
        """
        super().__init__(levels)
        self._file = file
        self._startup = startup
        self._group_state = group_state
        self._membership = membership
        self._reconciler = reconciler
        self._config_cache = config_cache
        self._instances = instances
        self._restart = restart
        self._problem = problem
        self._leader = leader

    # --- about the worker

    def refresh(self) -> None:
        """Read what other workers have written."""
        if self._startup.is_started:
            self._group_state.try_refresh()

    def server_info(self) -> Mapping[str, str]:
        return {
            "version": PLUGIN_VERSION,
            "commit": _COMMIT,
            "kafka_cluster_id": self._startup.cluster_id,
        }

    def health(self) -> tuple[int, Mapping[str, str]]:
        """Healthy once this worker has joined its group; a restart would not bring a cluster up."""
        failure = self._startup.failure
        if failure is not None:
            return 500, {"status": "unhealthy", "message": str(failure)}
        if not (self._startup.is_started and self._startup.has_joined):
            stage = self.stage()
            message = "Worker is still starting up."
            return 503, {
                "status": "starting",
                "message": f"{message} It is currently {stage}" if stage else message,
            }
        message = "Worker has completed startup and is ready to handle requests."
        return 200, {"status": "healthy", "message": message}

    def readiness(self) -> tuple[int, Mapping[str, str]]:
        """Ready if the worker is a member of its group and its connectors can work."""
        status, body = self.health()
        reason = body["message"] if status != HTTPStatus.OK else self.stage()
        if not reason and not self._membership.is_member:
            reason = "Worker is joining its group."
        if reason:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "message": reason}
        views = self._instances().values()
        return readiness(one.snapshot for one in views if one.desired is DesiredState.RUNNING)

    def stage(self) -> str:
        """What the worker is doing, or why it cannot work."""
        if not self._startup.is_started or self._startup.stopping.is_set():
            return self._startup.stage
        return self._membership.problem or self._problem()

    # --- queries

    def _configs(self) -> Mapping[str, Config]:
        self._startup.require()
        configs = self._group_state.configs
        return {name: configs.configs[name] for name in configs.connectors}

    def _state(self, name: str) -> ConnectorStateInfo | None:
        statuses = self._group_state.statuses
        known = statuses.connectors.get(name)
        if name not in self._configs() or known is None:
            return None
        tasks = {task: _state_info(one) for task, one in statuses.tasks(name).items()}
        connector = _state_info(known)
        if problem := self.stage():  # this worker cannot use the status topic
            warning = f"This status may be out of date: {problem}"
            connector = replace(connector, warning=join_sentences((connector.warning, warning)))
            view = self._instances().get(name)
            if view is not None and view.desired is DesiredState.STANDBY:  # they run nowhere
                tasks = {
                    task: replace(one, state=RunState.UNASSIGNED) for task, one in tasks.items()
                }
        return ConnectorStateInfo(name, connector, tasks)

    def _tasks(self, name: str) -> Sequence[Config]:
        return self._group_state.configs.tasks(name)

    def _source_settings(self, name: str) -> FlowSettings:
        config = self.info(name).config
        try:
            if connector_class(config) is not ConnectorClass.SOURCE:
                raise api_errors.no_source_connector(name)
            return read_connector(config, self._file).settings
        except ConfigError as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    def _worker_config(self) -> WorkerConfig:
        return self._file

    def lag(self, name: str) -> ConnectorLag:
        """Return the lag; the worker to which the connector is or was assigned knows it."""
        if name not in self._configs():
            raise api_errors.connector_not_found(name)
        view = self._instances().get(name)
        if view is None or self._membership.is_member:
            self._require_owner(name)
        return self._lag_of(name, view)

    def topics(self, name: str) -> list[str]:
        self._startup.require()
        return list(self._group_state.statuses.topics(name))

    def offsets(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        stored = self._offset_store(name)
        try:
            return [{"partition": one, "offset": offset} for one, offset in stored.read()]
        except ClusterError as error:
            raise topic_error("Error reading the offsets topic", error) from error

    def reset_topics(self, name: str) -> None:
        self._startup.require()
        self._leader.refresh()
        known = self._group_state.statuses.topics(name)
        try:
            self._group_state.write_statuses([TopicStatus(name, topic, None) for topic in known])
        except ClusterError as error:
            raise topic_error("Error writing to the status topic", error) from error

    # --- changes

    def create(self, name: str, config: Config, initial_state: str | None) -> ConnectorInfo:
        self._leader.require()
        checked = self._config_cache.check(name, config)
        target = _BEGINNINGS.get(initial_state or "", TargetState.STARTED)
        with self._leader.exclusive(), self._leader.writing() as log:
            if name in log.state.configs:
                raise api_errors.connector_exists(name)
            with self._config_cache.offered(name, checked):
                log.put_connector(name, config, None if initial_state is None else target)
        return ConnectorInfo(name, dict(config))

    def put_config(self, name: str, config: Config) -> tuple[ConnectorInfo, bool]:
        self._leader.require()
        checked = self._config_cache.check(name, config)
        with self._leader.exclusive(), self._leader.writing() as log:
            is_new = name not in log.state.configs
            return self._put_connector(log, name, config, checked), is_new

    def patch_config(self, name: str, changes: Config) -> ConnectorInfo:
        self._leader.require()
        with self._leader.exclusive(), self._leader.writing() as log:
            old = log.state.configs.get(name)
            if old is None:
                raise api_errors.connector_not_found(name)
            config = {k: text for k, text in {**old, **changes}.items() if text is not None}
            checked = self._config_cache.check(name, config)
            return self._put_connector(log, name, config, checked)

    def _put_connector(
        self, log: ConfigLog, name: str, config: Config, checked: CheckedConfig
    ) -> ConnectorInfo:
        """Write a configuration. Returns the connector with its tasks of before."""
        tasks = tuple(range(len(log.state.tasks(name))))
        with self._config_cache.offered(name, checked):
            log.put_connector(name, config)
        return ConnectorInfo(name, dict(config), tasks)

    def delete(self, name: str) -> None:
        """Delete a connector; returns when it has ended and its statuses are removed."""
        self._leader.require()
        with self._leader.exclusive(), self._leader.writing() as log:
            if name not in log.state.configs:
                raise api_errors.connector_not_found(name)
            log.remove_connector(name)
        self._await_deletion(name)

    def _await_deletion(self, name: str) -> None:
        deadline = time.monotonic() + _GONE_SECONDS
        self._leader.refresh()
        while name in self._group_state.statuses.connectors:
            if name in self._group_state.configs.configs:
                return  # it was created again: the statuses are those of the new one
            if time.monotonic() > deadline:
                _log.warning(
                    f"Connector {name} was deleted, but its worker has not reported its end within "
                    f"{_GONE_SECONDS:g} s; its statuses are removed."
                )
                self._remove_status(name)
                return
            self._leader.pause()
            self._leader.refresh()

    def _remove_status(self, name: str) -> None:
        try:
            self._group_state.remove_connector_status(name)
        except ClusterError as error:
            raise topic_error("Error writing to the status topic", error) from error

    def pause(self, name: str) -> None:
        self._set_target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._set_target(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        self._leader.require()
        with self._leader.writing() as log:
            if name not in log.state.configs:
                raise api_errors.unknown_connector(name)
            log.put_tasks(name, [])
            log.put_target_state(name, TargetState.STOPPED)

    def _set_target(self, name: str, target: TargetState) -> None:
        self._leader.require()
        with self._leader.exclusive(), self._leader.writing() as log:
            if name not in log.state.configs:
                raise api_errors.unknown_connector(name)
            log.put_target_state(name, target)

    def restart(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo | None:
        """A plain restart is done by the owner; any other one is written to the config topic."""
        self._startup.require()
        if not include_tasks and not only_failed:
            self._require_owner(name)
            self._restart(Restart(name))
            return None
        self._leader.require()
        self._require_known(name)
        self._group_state.try_refresh()
        before = self.status(name)  # the owner may restart it before this request returns
        with self._leader.writing() as log:
            log.put_restart_request(RestartRequest(name, include_tasks, only_failed))
        return as_restarting(before, include_tasks=include_tasks, only_failed=only_failed)

    def restart_task(self, name: str, task: int) -> None:
        """Restart all tasks: they are planned together."""
        self._startup.require()
        self._require_known(name)
        if task not in range(len(self._group_state.configs.tasks(name))):
            raise api_errors.unknown_task(name, task)
        self._require_owner(name)
        self._restart(Restart(name, tasks_only=True))

    def _require_known(self, name: str) -> None:
        if name not in self._group_state.configs.configs:
            raise api_errors.restart_target_not_found(name)

    def _require_owner(self, name: str) -> None:
        """Raise ForwardTo the owner or the leader unless the connector runs here."""
        self._require_known(name)
        if self._reconciler.owns(name) and self._membership.is_member:
            return
        self._leader.require()
        url = self._membership.owner_url(name)
        if url is None:
            raise api_errors.stale_configuration()
        raise ForwardTo(url, lambda: self._membership.owner_url(name) == url)

    # --- offsets

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:
        """Set offsets, all or none."""
        with self._while_stopped(name) as info:
            try:
                changes = offset_records(connector_class(info.config), name, entries)
            except ArgumentError as error:
                raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
            self._offset_store(name).write(changes)
        return api_errors.OFFSETS_ALTERED

    def reset_offsets(self, name: str) -> str:
        with self._while_stopped(name):
            self._offset_store(name).delete()
        return api_errors.OFFSETS_RESET

    @contextmanager
    def _while_stopped(self, name: str) -> Iterator[ConnectorInfo]:
        """A stopped connector, which cannot be resumed within the context.

        Writes its target state again, which only the leader can do: a worker that has lost the lead
        gets an error here.
        """
        self._leader.require()
        with self._leader.exclusive():
            info = self._await_stopped(name)
            with self._leader.writing() as log:
                log.put_target_state(name, TargetState.STOPPED)
            try:
                yield info
            except ClusterError as error:
                raise topic_error("Error writing to the offsets topic", error) from error

    def _await_stopped(self, name: str) -> ConnectorInfo:
        """Wait until its owner has written STOPPED: after that it writes no offsets."""
        self._leader.refresh()
        info = self.info(name)
        is_to_stop = self._group_state.configs.target_state(name) is TargetState.STOPPED
        if not is_to_stop or info.tasks:
            raise api_errors.not_stopped(name)
        deadline = time.monotonic() + _STOPPED_SECONDS
        while not self._has_stopped(name):
            if time.monotonic() > deadline:
                raise ApiError(
                    HTTPStatus.CONFLICT,
                    f"Connector {name} is stopping; its offsets can be modified once its status is "
                    "STOPPED.",
                )
            self._leader.pause()
            self._leader.refresh()
        return info

    def _has_stopped(self, name: str) -> bool:
        known = self._group_state.statuses.connectors.get(name)
        return known is not None and known.state is RunState.STOPPED

    def _offset_store(self, name: str) -> ConnectorOffsetStore:
        try:
            connector = read_connector(self.info(name).config, self._file)
            return ConnectorOffsetStore(name, connector.settings)
        except ConfigError as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    # --- loggers

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:
        """Set a level here, or on every worker when it reads the config topic."""
        if not cluster:
            return self._levels.set(name, level)
        check_level(level)
        self._leader.require()
        with self._leader.writing() as log:
            log.put_logger_level(LoggerLevel(name, level.upper()))
        return []

    # --- other workers

    def put_tasks(self, name: str, signed: SignedBody, read: ParseTasks) -> None:
        """Parse the body after its signature is verified."""
        self._verify_signature(signed)
        configs = read(signed.body)
        self._leader.require()
        with self._leader.writing() as log:
            if name not in log.state.configs:
                raise api_errors.connector_not_found(name)
            put_tasks_if_started(log, name, configs)

    def fence(self, name: str, signed: SignedBody) -> None:
        """Record the task count that another worker has fenced earlier writers for."""
        self._verify_signature(signed)
        self._leader.require()
        with self._leader.writing() as log:
            log.put_task_count(name, len(log.state.tasks(name)))

    def _verify_signature(self, signed: SignedBody) -> None:
        key = self._group_state.configs.session_key
        accepted = self._file.settings.signing.accepted_algorithms
        verify_signature(signed, None if key is None else key.secret, accepted)


_COMMIT = f"sparkmirror-{__version__}"


def _state_info(status: Status) -> StateInfo:
    return StateInfo(
        status.state, status.worker_id, status.trace or "", status.version, status.warning
    )
