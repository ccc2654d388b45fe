# SPDX-License-Identifier: Apache-2.0
"""The ConnectApi of `sparkmirror run`: three connectors for each flow.

They are named `A->B.MirrorSourceConnector` and so on: MM2's own names are the same for every
flow. The file defines the connectors, so they cannot be created, changed or deleted here. They can
be paused, stopped and restarted by any process with the file (`runtime/commands.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import NoReturn

from sparkmirror.config.config_changes import ParsedRun
from sparkmirror.config.connector_config import PLUGIN_VERSION
from sparkmirror.config.files.properties import parse_properties
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors
from sparkmirror.connect.api import (
    ApiError,
    ConnectorInfo,
    ConnectorLag,
    ConnectorStateInfo,
    ParseTasks,
    SignedBody,
    StateInfo,
)
from sparkmirror.connect.connector_queries import ConnectorQueries, as_restarting, readiness
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.offset_alterations import OffsetEntry
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import InstanceView
from sparkmirror.connectors.offset_reset_plan import offset_store
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_json import Json
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.policy.loading import load_policy
from sparkmirror.runtime.mirror_reconciler import MirrorFlow, connector_name
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState

_COMMAND_SECONDS = 30.0
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
    """One connector of one flow at one moment."""

    name: str
    flow: MirrorFlow
    kind: ConnectorClass
    instances: Mapping[str, InstanceView]

    def state(self) -> ConnectorState:
        return self.flow.state(self.kind, self.instances)

    @property
    def is_active(self) -> bool:
        view = self.instances.get(self.name)
        return view is not None and view.is_active


class MirrorApi(ConnectorQueries):
    """Implements ConnectApi: state from the supervisor, changes by commands. Any thread."""

    def __init__(
        self,
        file: str,
        flows: Callable[[], Sequence[MirrorFlow]],
        instances: Callable[[], Mapping[str, InstanceView]],
        parsed_run: Callable[[], ParsedRun],
        worker_id: str,
    ) -> None:
        """`file` is named in errors, `worker_id` in statuses."""
        super().__init__(LogLevels())
        self._file = file
        self._flows = flows
        self._instances = instances
        self._parsed_run = parsed_run
        self._worker_id = worker_id
        self._cluster_id: str | None = None
        self._has_started = False

    # --- the process

    def refresh(self) -> None:
        """Do nothing: `FlowCommands` polls."""

    def server_info(self) -> Mapping[str, str]:
        """The cluster is the target of the first flow."""
        if self._cluster_id is None:
            [flow, *_] = self._flows()
            with ClusterAdmin(flow.settings.target_admin) as admin:
                self._cluster_id = admin.cluster().cluster_id or ""
        return {
            "version": PLUGIN_VERSION,
            "commit": "sparkmirror",
            "kafka_cluster_id": self._cluster_id,
        }

    def health(self) -> tuple[int, Mapping[str, str]]:
        """Healthy once the process has started; a restart would not bring a cluster up."""
        starting = [one.flow for one in self._snapshots() if one.state is FlowState.STARTING]
        self._has_started = self._has_started or not starting
        if not self._has_started:
            message = f"Worker is still starting up: {', '.join(starting)}."
            return HTTPStatus.SERVICE_UNAVAILABLE, {"status": "starting", "message": message}
        message = "Worker has completed startup and is ready to handle requests."
        return HTTPStatus.OK, {"status": "healthy", "message": message}

    def readiness(self) -> tuple[int, Mapping[str, str]]:
        return readiness(self._snapshots())

    def _snapshots(self) -> list[FlowSnapshot]:
        instances = self._instances()
        return [flow.snapshot(instances) for flow in self._flows()]

    def stage(self) -> str:
        """Always empty: no request waits for the process."""
        return ""

    # --- queries

    def _configs(self) -> Mapping[str, Config]:
        return {name: self._config(one) for name, one in self._connectors_by_name().items()}

    def _state(self, name: str) -> ConnectorStateInfo | None:
        one = self._connectors_by_name().get(name)
        if one is None:
            return None
        now = one.state()
        tasks = {task: self._state_info(part) for task, part in now.tasks.items()}
        return ConnectorStateInfo(name, self._state_info(now.connector), tasks)

    def _tasks(self, name: str) -> Sequence[Config]:
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

    def _source_settings(self, name: str) -> FlowSettings:
        one = self._require_connector(name, api_errors.connector_not_found)
        if one.kind is not ConnectorClass.SOURCE:
            raise api_errors.no_source_connector(name)
        return one.flow.settings

    def _worker_config(self) -> WorkerConfig:
        """A worker on the first flow's target, with the file's config providers."""
        [flow, *_] = self._flows()
        servers = ",".join(flow.settings.target_admin.bootstrap_servers)
        file = parse_properties(_WORKER.format(servers=servers), self._file)
        return WorkerConfig(file, self._parsed_run().resolver)

    def lag(self, name: str) -> ConnectorLag:
        """Return the lag as this process knows it, also while another one runs the flow."""
        one = self._require_connector(name, api_errors.connector_not_found)
        return self._lag_of(name, one.instances.get(name))

    def topics(self, name: str) -> list[str]:
        """Return the topics on the target that the connector writes to now."""
        one = self._connectors_by_name().get(name)
        if one is None or not one.is_active:
            return []
        settings = one.flow.settings
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
        """Return the stored positions of a source connector; other connectors have none."""
        one = self._require_connector(name, api_errors.connector_not_found)
        if one.kind is not ConnectorClass.SOURCE:
            return []
        settings = one.flow.settings
        store = offset_store(settings)
        return [
            {
                "partition": {
                    "cluster": settings.flow.source,
                    "partition": tp.partition,
                    "topic": tp.topic,
                },
                "offset": {"offset": stored.offset},
            }
            for tp, stored in sorted(store.read(_COMMAND_SECONDS).positions.items())
        ]

    # --- commands

    def pause(self, name: str) -> None:
        self._set_target_state(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._set_target_state(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        self._set_target_state(name, TargetState.STOPPED)

    def restart(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo | None:
        """Restart a connector with its tasks: they are planned together."""
        one = self._require_connector(name, api_errors.restart_target_not_found)
        before = self.status(name)
        with _command_errors():
            one.flow.commands.request_restart(one.kind, _COMMAND_SECONDS, only_failed=only_failed)
        if not include_tasks and not only_failed:
            return None
        return as_restarting(before, include_tasks=True, only_failed=only_failed)

    def restart_task(self, name: str, task: int) -> None:
        """Restart all tasks: they are planned together."""
        one = self._require_connector(name, api_errors.restart_target_not_found)
        if task not in one.state().tasks:
            raise api_errors.unknown_task(name, task)
        with _command_errors():
            one.flow.commands.request_restart(one.kind, _COMMAND_SECONDS, only_failed=False)

    # --- rejected: the file defines the connectors

    def create(self, name: str, config: Config, initial_state: str | None) -> ConnectorInfo:  # noqa: ARG002
        self._reject("Connectors cannot be created here")

    def put_config(self, name: str, config: Config) -> tuple[ConnectorInfo, bool]:  # noqa: ARG002
        self._reject("Connectors cannot be configured here")

    def patch_config(self, name: str, changes: Config) -> ConnectorInfo:  # noqa: ARG002
        self._reject("Connectors cannot be configured here")

    def delete(self, name: str) -> None:
        self._require_connector(name, api_errors.connector_not_found)
        self._reject("Connectors cannot be deleted here, only stopped")

    def reset_topics(self, name: str) -> None:
        """Reject: topics are not stored here."""
        self._require_connector(name, api_errors.connector_not_found)
        raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:  # noqa: ARG002
        """Reject: a stored position has more fields than the offset."""
        raise self._only_by_command(name)

    def reset_offsets(self, name: str) -> str:
        raise self._only_by_command(name)

    def _only_by_command(self, name: str) -> ApiError:
        flow = self._require_connector(name, api_errors.connector_not_found).flow.flow
        return ApiError(
            HTTPStatus.FORBIDDEN,
            "Offsets cannot be changed here. Use `sparkmirror offsets reset "
            f"{self._file} --flow '{flow}' --topic TOPIC --to OFFSET`.",
        )

    def put_tasks(self, name: str, signed: SignedBody, read: ParseTasks) -> None:  # noqa: ARG002
        """Reject: only Connect workers send it."""
        self._reject("Tasks cannot be set here")

    def fence(self, name: str, signed: SignedBody) -> None:  # noqa: ARG002
        self._reject("Tasks cannot be fenced here")

    def _reject(self, what: str) -> NoReturn:
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"{what}: `sparkmirror run` takes them from the file {self._file}. Change the file; it "
            "is reloaded without a restart.",
        )

    # --- loggers

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:  # noqa: ARG002
        """Set a level in this process only."""
        return self._levels.set(name, level)

    # --- helpers

    def _connectors_by_name(self) -> dict[str, _Connector]:
        instances = self._instances()
        found = (
            _Connector(connector_name(flow.flow, kind), flow, kind, instances)
            for flow in self._flows()
            for kind in flow.connectors
        )
        return {one.name: one for one in found}

    def _require_connector(self, name: str, refusal: Callable[[str], ApiError]) -> _Connector:
        found = self._connectors_by_name().get(name)
        if found is None:
            raise refusal(name)
        return found

    def _config(self, one: _Connector) -> dict[str, str | None]:
        texts = self._parsed_run().connectors.get(one.flow.flow, {}).get(one.kind, {})
        return {**texts, "name": one.name}

    def _state_info(self, part: ReportedState) -> StateInfo:
        return StateInfo(part.state, self._worker_id, part.trace, PLUGIN_VERSION, part.warning)

    def _set_target_state(self, name: str, state: TargetState) -> None:
        one = self._require_connector(name, api_errors.unknown_connector)
        with _command_errors():
            one.flow.commands.set_target_state(one.kind, state, _COMMAND_SECONDS)


@contextmanager
def _command_errors() -> Iterator[None]:
    """Raise ApiError 500 if a command cannot be written."""
    try:
        yield
    except TimeoutError:
        raise ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "The target cluster did not answer in time; nothing was written.",
        ) from None
    except ClusterError as error:
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
