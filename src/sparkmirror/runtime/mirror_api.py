# SPDX-License-Identifier: Apache-2.0
"""A mirror that runs a file, as Connect's REST API sees it: three connectors for each pair.

They are named `A->B.MirrorSourceConnector` and so on, since MM2's own names are the same for every
pair. What the file decides cannot be changed here, and the answer says so; pausing, stopping and
restarting can, on any of the processes with the file (`runtime/commands.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLong
from dataclasses import dataclass
from http import HTTPStatus
from typing import NoReturn

from sparkmirror.config.config_changes import ParsedRun
from sparkmirror.config.connector_config import PLUGIN_VERSION
from sparkmirror.config.connector_validation import ConfigValidation
from sparkmirror.config.files.properties import parse_properties
from sparkmirror.config.keys.connector_classes import ConnectorClass, KeyDefinition
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors, plugins
from sparkmirror.connect.api import (
    ApiError,
    ConnectorInfo,
    ConnectorStateInfo,
    LogLevel,
    ParseTasks,
    Plugin,
    SignedBody,
    StateInfo,
)
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.offset_alterations import OffsetEntry
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.targets import InstanceView
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.policy.loading import load_policy
from sparkmirror.runtime.mirror_targets import MirrorFlow, connector_name
from sparkmirror.spark.flow_status import FlowState
from sparkmirror.state.offset_store import OffsetStore

Config = Mapping[str, str | None]

_ORDER_SECONDS = 30.0
_TASK = {kind: kind.java_name.removesuffix("Connector") + "Task" for kind in ConnectorClass}
_WORKER = """\
bootstrap.servers={servers}
group.id=sparkmirror-run
config.storage.topic=mm2-configs.internal
offset.storage.topic=mm2-offsets.internal
status.storage.topic=mm2-status.internal
"""


@dataclass(frozen=True, slots=True)
class _Connector:
    """One connector of one pair at one moment."""

    name: str
    pair: MirrorFlow
    kind: ConnectorClass
    instances: Mapping[str, InstanceView]

    def state(self) -> ConnectorState:
        return self.pair.state(self.kind, self.instances)

    @property
    def is_active(self) -> bool:
        view = self.instances.get(self.name)
        return view is not None and view.is_active


class MirrorApi:
    """Implements ConnectApi; all of it is anybody's."""

    def __init__(
        self,
        file: str,
        pairs: Callable[[], Sequence[MirrorFlow]],
        instances: Callable[[], Mapping[str, InstanceView]],
        reading: Callable[[], ParsedRun],
        worker_id: str,
    ) -> None:
        """`file` is what to change, `worker_id` what statuses name."""
        self._file = file
        self._pairs = pairs
        self._instances = instances
        self._reading = reading
        self._worker_id = worker_id
        self._levels = LogLevels()
        self._cluster_id: str | None = None

    # --- the process

    def refresh(self) -> None:
        """What the other processes say is read all the time."""

    def server_info(self) -> Mapping[str, str]:
        """The cluster is the target of the first pair."""
        if self._cluster_id is None:
            [pair, *_] = self._pairs()
            with ClusterAdmin(pair.settings.target_admin) as admin:
                self._cluster_id = admin.cluster().cluster_id or ""
        return {
            "version": PLUGIN_VERSION,
            "commit": "sparkmirror",
            "kafka_cluster_id": self._cluster_id,
        }

    def health(self) -> tuple[int, Mapping[str, str]]:
        """Healthy once every pair runs here or is known to run elsewhere."""
        instances = self._instances()
        flows = [pair.snapshot(instances) for pair in self._pairs()]
        failed = [one for one in flows if one.state is FlowState.FAILED]
        if failed:
            message = f"{failed[0].flow}: {failed[0].reason}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"status": "unhealthy", "message": message}
        starting = [one.flow for one in flows if one.state is FlowState.STARTING]
        if starting:
            message = f"Worker is still starting up: {', '.join(starting)}."
            return HTTPStatus.SERVICE_UNAVAILABLE, {"status": "starting", "message": message}
        message = "Worker has completed startup and is ready to handle requests."
        return HTTPStatus.OK, {"status": "healthy", "message": message}

    def stage(self) -> str:
        """Nothing keeps a request for long."""
        return ""

    # --- what there is

    def connectors(self) -> list[str]:
        """The names of all connectors, pair by pair."""
        return [*self._connectors_by_name()]

    def info(self, name: str) -> ConnectorInfo:
        """As the file has it."""
        one = self._require_connector(name, api_errors.connector_not_found)
        return ConnectorInfo(name, self._config(one), tuple(sorted(one.state().tasks)))

    def status(self, name: str) -> ConnectorStateInfo:
        """What it does, in this process."""
        one = self._require_connector(name, api_errors.status_not_found)
        now = one.state()
        tasks = {task: self._state_info(part) for task, part in now.tasks.items()}
        return ConnectorStateInfo(name, self._state_info(now.connector), tasks)

    def task_configs(self, name: str) -> list[dict[str, str | None]]:
        """The configurations of its tasks, in their order."""
        one = self._require_connector(name, api_errors.connector_not_found)
        config = {**self._config(one), "task.class": _TASK[one.kind]}
        return [
            {
                **config,
                "task.index": str(task),
                **(
                    {"task.assigned.partitions": ",".join(map(str, part.partitions))}
                    if part.partitions
                    else {}
                ),
            }
            for task, part in sorted(one.state().tasks.items())
        ]

    def task_status(self, name: str, task: int) -> StateInfo:
        """What one task does."""
        found = (
            self._require_connector(name, lambda name: api_errors.task_status_not_found(name, task))
            .state()
            .tasks
        )
        if task not in found:
            raise api_errors.task_status_not_found(name, task)
        return self._state_info(found[task])

    def topics(self, name: str) -> list[str]:
        """The topics on the target that it writes to now."""
        one = self._connectors_by_name().get(name)
        if one is None or not one.is_active:
            return []
        settings = one.pair.settings
        names, source = (
            load_policy(settings.policy, settings.flow).replication,
            settings.flow.source,
        )
        if one.kind is ConnectorClass.HEARTBEAT:
            return [names.heartbeats_topic()]
        if one.kind is ConnectorClass.CHECKPOINT:
            return [names.checkpoints_topic(source)]
        copied = {tp.topic for part in one.state().tasks.values() for tp in part.partitions}
        return sorted(names.format_remote_topic(source, topic) for topic in copied)

    def offsets(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        """The stored positions of one that copies; the others have none of their own."""
        one = self._require_connector(name, api_errors.connector_not_found)
        if one.kind is not ConnectorClass.SOURCE:
            return []
        settings = one.pair.settings
        store = OffsetStore(
            settings.state_cluster,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        return [
            {
                "partition": {
                    "cluster": settings.flow.source,
                    "partition": tp.partition,
                    "topic": tp.topic,
                },
                "offset": {"offset": stored.offset},
            }
            for tp, stored in sorted(store.read(_ORDER_SECONDS).positions.items())
        ]

    # --- what may be asked for

    def pause(self, name: str) -> None:
        """Copy nothing, also after a restart of the process."""
        self._set_target_state(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        """Go on after a pause or a stop."""
        self._set_target_state(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        """Copy nothing and have no tasks."""
        self._set_target_state(name, TargetState.STOPPED)

    def restart(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo | None:
        """Begin anew, tasks included: they are planned together."""
        one = self._require_connector(name, api_errors.restart_target_not_found)
        before = self.status(name)
        self._submit(
            lambda seconds: one.pair.commands.request_restart(
                one.kind, seconds, only_failed=only_failed
            )
        )
        if not include_tasks and not only_failed:
            return None
        return ConnectorStateInfo(
            name,
            self._restarting(before.connector, only_failed=only_failed),
            {
                task: self._restarting(part, only_failed=only_failed)
                for task, part in before.tasks.items()
            },
        )

    def restart_task(self, name: str, task: int) -> None:
        """Begin the tasks of a connector anew, all of them."""
        one = self._require_connector(name, api_errors.restart_target_not_found)
        if task not in one.state().tasks:
            raise api_errors.unknown_task(name, task)
        commands = one.pair.commands
        self._submit(lambda seconds: commands.request_restart(one.kind, seconds, only_failed=False))

    # --- what the file decides

    def create(self, name: str, config: Config, initial_state: str | None) -> ConnectorInfo:  # noqa: ARG002
        """The file does."""
        self._reject("Connectors cannot be created here")

    def put_config(self, name: str, config: Config) -> tuple[ConnectorInfo, bool]:  # noqa: ARG002
        """The file does."""
        self._reject("Connectors cannot be configured here")

    def patch_config(self, name: str, changes: Config) -> ConnectorInfo:  # noqa: ARG002
        """The file does."""
        self._reject("Connectors cannot be configured here")

    def delete(self, name: str) -> None:
        """The file does."""
        self._require_connector(name, api_errors.connector_not_found)
        self._reject("Connectors cannot be deleted here, only stopped")

    def reset_topics(self, name: str) -> None:
        """Nothing is remembered that could be forgotten."""
        self._require_connector(name, api_errors.connector_not_found)
        raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:  # noqa: ARG002
        """Positions of ours are more than an offset."""
        self._require_connector(name, api_errors.connector_not_found)
        self._reject("Offsets cannot be altered here")

    def reset_offsets(self, name: str) -> str:
        """The same."""
        self._require_connector(name, api_errors.connector_not_found)
        self._reject("Offsets cannot be reset here")

    def put_tasks(self, name: str, signed: SignedBody, read: ParseTasks) -> None:  # noqa: ARG002
        """Processes with the same file do not talk to each other."""
        self._reject("Tasks cannot be set here")

    def fence(self, name: str, signed: SignedBody) -> None:  # noqa: ARG002
        """The same."""
        self._reject("Tasks cannot be fenced here")

    def _reject(self, what: str) -> NoReturn:
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"{what}: this is a mirror that runs the file {self._file}. Change the file, it is "
            f"taken up without a restart.",
        )

    # --- classes and loggers

    def plugins(self, *, connectors_only: bool) -> list[Plugin]:
        """What there is to configure."""
        return plugins.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[KeyDefinition]:
        """The keys of a plugin."""
        return plugins.plugin_config(plugin, version)

    def validate(self, plugin: str, config: Config) -> ConfigValidation:
        """As a worker on the first pair's target would see it, with the file's providers."""
        [pair, *_] = self._pairs()
        servers = ",".join(pair.settings.target_admin.bootstrap_servers)
        file = parse_properties(_WORKER.format(servers=servers), self._file)
        return plugins.validate(plugin, config, WorkerConfig(file, self._reading().resolver))

    def loggers(self) -> Mapping[str, LogLevel]:
        """Every logger whose level is set."""
        return self._levels.all()

    def logger(self, name: str) -> LogLevel:
        """One of them."""
        return self._levels.get(name)

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:  # noqa: ARG002
        """Set a level in this process; the others have loggers of their own."""
        return self._levels.set(name, level)

    # --- inside

    def _connectors_by_name(self) -> dict[str, _Connector]:
        instances = self._instances()
        found = (
            _Connector(connector_name(pair.flow, kind), pair, kind, instances)
            for pair in self._pairs()
            for kind in pair.connectors
        )
        return {one.name: one for one in found}

    def _require_connector(self, name: str, refusal: Callable[[str], ApiError]) -> _Connector:
        found = self._connectors_by_name().get(name)
        if found is None:
            raise refusal(name)
        return found

    def _config(self, one: _Connector) -> dict[str, str | None]:
        texts = self._reading().connectors.get(one.pair.flow, {}).get(one.kind, {})
        return {**texts, "name": one.name}

    def _state_info(self, part: ReportedState) -> StateInfo:
        return StateInfo(part.state, self._worker_id, part.trace, PLUGIN_VERSION, part.warning)

    def _restarting(self, part: StateInfo, *, only_failed: bool) -> StateInfo:
        if only_failed and part.state is not RunState.FAILED:
            return part
        return StateInfo(RunState.RESTARTING, self._worker_id, version=PLUGIN_VERSION)

    def _set_target_state(self, name: str, state: TargetState) -> None:
        one = self._require_connector(name, api_errors.unknown_connector)
        self._submit(lambda seconds: one.pair.commands.set_target_state(one.kind, state, seconds))

    def _submit(self, command: Callable[[float], None]) -> None:
        try:
            command(_ORDER_SECONDS)
        except TooLong:
            raise ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "The target cluster did not answer in time; whether it was written is not known.",
            ) from None
        except ClusterError as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
