# SPDX-License-Identifier: Apache-2.0
"""Requests to a Connect worker, whoever asks: REST is one way.

Any worker answers any question from what is written. What changes something is the leader's, who
writes it down; whoever runs the connector reads it there. Only a plain restart goes to the owner.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sparkmirror import __version__
from sparkmirror.config.connector_config import PLUGIN_VERSION
from sparkmirror.config.connector_validation import ConfigValidation
from sparkmirror.config.keys.connector_classes import KeyDefinition
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors, plugins
from sparkmirror.connect.api import (
    ConnectorInfo,
    ConnectorStateInfo,
    ForwardTo,
    LogLevel,
    ParseTasks,
    Plugin,
    SignedBody,
    StateInfo,
)
from sparkmirror.connect.config_cache import CheckedConfig, ConnectorConfigCache
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader, topic_error
from sparkmirror.connect.log_levels import LogLevels, check_level
from sparkmirror.connect.offset_alterations import OffsetEntry
from sparkmirror.connect.offset_requests import OffsetRequests, connector_info
from sparkmirror.connect.reconciler import Reconciler
from sparkmirror.connect.signatures import verify_signature
from sparkmirror.connect.startup import Startup
from sparkmirror.connect.task_publisher import put_tasks_if_started
from sparkmirror.connectors.targets import Restart
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_config_records import LoggerLevel, RestartRequest, TargetState
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_status_records import RunState, Status, TopicStatus
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ConfigLog

Config = Mapping[str, str | None]

_GONE_SECONDS = 15.0  # that a connector may take to end before it is deleted without a farewell
_BEGINNINGS = {"PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
_log = logging.getLogger(__name__)


class WorkerApi:
    """Implements ConnectApi."""

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
        problem: Callable[[], str],
    ) -> None:
        """`problem` says why the worker cannot do what it should; empty if it can."""
        self._file = file
        self._startup = startup
        self._group_state = group_state
        self._membership = membership
        self._reconciler = reconciler
        self._config_cache = config_cache
        self._levels = levels
        self._problem = problem
        self._leader = leader
        self._offsets = OffsetRequests(file, group_state, leader)

    # --- about the worker

    def refresh(self) -> None:
        """Learn what others have written."""
        if self._startup.is_started:
            self._group_state.try_refresh()

    def server_info(self) -> Mapping[str, str]:
        """Who this is."""
        return {
            "version": PLUGIN_VERSION,
            "commit": _COMMIT,
            "kafka_cluster_id": self._startup.cluster_id,
        }

    def health(self) -> tuple[int, Mapping[str, str]]:
        """Ready once the group has taken this worker in."""
        failure = self._startup.failure
        if failure is not None:
            return 500, {"status": "unhealthy", "message": str(failure)}
        if not self._startup.is_started or self._membership.generation < 0:
            stage = self.stage()
            message = "Worker is still starting up."
            return 503, {
                "status": "starting",
                "message": f"{message} It is currently {stage}" if stage else message,
            }
        message = "Worker has completed startup and is ready to handle requests."
        return 200, {"status": "healthy", "message": message}

    def stage(self) -> str:
        """What the worker is about."""
        if not self._startup.is_started or self._startup.stopping.is_set():
            return self._startup.stage
        return self._membership.problem or self._problem()

    # --- questions

    def connectors(self) -> list[str]:
        """Their names."""
        self._startup.require()
        return self._group_state.configs.connectors

    def info(self, name: str) -> ConnectorInfo:
        """A connector as it is meant to be."""
        self._startup.require()
        return connector_info(self._group_state.configs, name)

    def status(self, name: str) -> ConnectorStateInfo:
        """What it does."""
        self._startup.require()
        statuses = self._group_state.statuses
        known = statuses.connectors.get(name)
        if known is None or name not in self._group_state.configs.configs:
            raise api_errors.status_not_found(name)
        tasks = {task: _state_info(one) for task, one in statuses.tasks(name).items()}
        return ConnectorStateInfo(name, _state_info(known), tasks)

    def task_configs(self, name: str) -> list[dict[str, str | None]]:
        """The configurations of its tasks."""
        self.info(name)
        return [dict(one) for one in self._group_state.configs.tasks(name)]

    def task_status(self, name: str, task: int) -> StateInfo:
        """What one task does."""
        self._startup.require()
        known = self._group_state.statuses.tasks(name).get(task)
        if known is None or name not in self._group_state.configs.configs:
            raise api_errors.task_status_not_found(name, task)
        return _state_info(known)

    def topics(self, name: str) -> list[str]:
        """The topics that it has written to."""
        self._startup.require()
        return list(self._group_state.statuses.topics(name))

    def reset_topics(self, name: str) -> None:
        """Forget them."""
        self._startup.require()
        self._leader.refresh()
        known = self._group_state.statuses.topics(name)
        try:
            self._group_state.write_statuses([TopicStatus(name, topic, None) for topic in known])
        except ClusterError as error:
            raise topic_error("Error writing to the status topic", error) from error

    # --- changes

    def create(self, name: str, config: Config, initial_state: str | None) -> ConnectorInfo:
        """A new connector."""
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
        """A new connector, or a new configuration."""
        self._leader.require()
        checked = self._config_cache.check(name, config)
        with self._leader.exclusive(), self._leader.writing() as log:
            is_new = name not in log.state.configs
            return self._put_connector(log, name, config, checked), is_new

    def patch_config(self, name: str, changes: Config) -> ConnectorInfo:
        """Some keys anew."""
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
        """The connector with the tasks that it has before they are planned again."""
        tasks = tuple(range(len(log.state.tasks(name))))
        with self._config_cache.offered(name, checked):
            log.put_connector(name, config)
        return ConnectorInfo(name, dict(config), tasks)

    def delete(self, name: str) -> None:
        """Forget a connector; returns when it has ended and nobody shows it any more."""
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
                return  # created anew meanwhile: its statuses are those of the new one
            if time.monotonic() > deadline:
                _log.warning(
                    f"Connector {name} was deleted, and {_GONE_SECONDS:g} s later its worker has "
                    "not said that it ended; it is forgotten nevertheless."
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
        """Rest."""
        self._set_target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        """Go on."""
        self._set_target(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        """Have no tasks."""
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
        """Begin anew: a plain restart where the connector runs, any other by way of the topic."""
        self._startup.require()
        if not include_tasks and not only_failed:
            self._require_owner(name)
            self._reconciler.request_restart(Restart(name))
            return None
        self._leader.require()
        self._require_known(name)
        request = RestartRequest(name, include_tasks, only_failed)
        with self._leader.writing() as log:
            log.put_restart_request(request)
        self._group_state.try_refresh()
        return _as_restarting(self.status(name), request)

    def restart_task(self, name: str, task: int) -> None:
        """Begin a task anew, and with it all others: they are planned together."""
        self._startup.require()
        self._require_known(name)
        if task not in range(len(self._group_state.configs.tasks(name))):
            raise api_errors.unknown_task(name, task)
        self._require_owner(name)
        self._reconciler.request_restart(Restart(name, tasks_only=True))

    def _require_known(self, name: str) -> None:
        if name not in self._group_state.configs.configs:
            raise api_errors.restart_target_not_found(name)

    def _require_owner(self, name: str) -> None:
        """Return if the connector runs here; otherwise ForwardTo its owner or the leader."""
        self._require_known(name)
        if self._reconciler.owns(name) and self._membership.is_member:
            return
        self._leader.require()
        url = self._membership.owner_url(name)
        if url is None:
            raise api_errors.stale_configuration()
        raise ForwardTo(url, lambda: self._membership.owner_url(name) == url)

    # --- offsets

    def offsets(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        """Where it stands."""
        return self._offsets.read(name)

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:
        """Set them, all or none."""
        return self._offsets.alter(name, entries)

    def reset_offsets(self, name: str) -> str:
        """Forget them."""
        return self._offsets.reset(name)

    # --- plugins and loggers

    def plugins(self, *, connectors_only: bool) -> list[Plugin]:
        """What there is to configure."""
        return plugins.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[KeyDefinition]:
        """The keys of a plugin."""
        return plugins.plugin_config(plugin, version)

    def validate(self, plugin: str, config: Config) -> ConfigValidation:
        """What is wrong with a configuration."""
        return plugins.validate(plugin, config, self._file)

    def loggers(self) -> Mapping[str, LogLevel]:
        """The loggers of this process."""
        return self._levels.all()

    def logger(self, name: str) -> LogLevel:
        """One of them."""
        return self._levels.get(name)

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:
        """Here at once; elsewhere when the others have read it."""
        if not cluster:
            return self._levels.set(name, level)
        check_level(level)
        self._leader.require()
        with self._leader.writing() as log:
            log.put_logger_level(LoggerLevel(name, level.upper()))
        return []

    # --- other workers

    def put_tasks(self, name: str, signed: SignedBody, read: ParseTasks) -> None:
        """The tasks of a connector that another worker runs; a stranger's are not even read."""
        self._verify_signature(signed)
        configs = read(signed.body)
        self._leader.require()
        with self._leader.writing() as log:
            if name not in log.state.configs:
                raise api_errors.connector_not_found(name)
            put_tasks_if_started(log, name, configs)

    def fence(self, name: str, signed: SignedBody) -> None:
        """Another worker has fenced the earlier writers of a connector: write down how many."""
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


def _as_restarting(known: ConnectorStateInfo, request: RestartRequest) -> ConnectorStateInfo:
    def shown(one: StateInfo, *, is_meant: bool) -> StateInfo:
        if not is_meant or (request.only_failed and one.state is not RunState.FAILED):
            return one
        return StateInfo(RunState.RESTARTING, one.worker_id, version=one.version)

    return replace(
        known,
        connector=shown(known.connector, is_meant=True),
        tasks={
            number: shown(one, is_meant=request.include_tasks)
            for number, one in known.tasks.items()
        },
    )
