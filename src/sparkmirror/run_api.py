# SPDX-License-Identifier: Apache-2.0
"""A mirror that runs a file, as Connect's REST API sees it: three connectors for each pair.

They are named `A->B.MirrorSourceConnector` and so on, since MM2's own names are the same for every
pair. What the file decides cannot be changed here, and the answer says so; pausing, stopping and
restarting can, on any of the processes with the file (`state/pair_orders.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLong
from dataclasses import dataclass
from http import HTTPStatus
from typing import NoReturn

from sparkmirror.config.changes import RunReading
from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.connector_config import PLUGIN_VERSION
from sparkmirror.config.connector_definitions import Definition
from sparkmirror.config.connector_offsets import OffsetEntry
from sparkmirror.config.connector_validation import Validation
from sparkmirror.config.properties import parse_properties
from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.connect import plugins, refusals
from sparkmirror.connect.api import (
    ApiError,
    ConnectorInfo,
    ConnectorStateInfo,
    LogLevel,
    Plugin,
    ReadTasks,
    SignedBody,
    StateInfo,
)
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.states import ConnectorState, PartState
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_records import TargetState
from sparkmirror.formats.connect_statuses import State
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.pairs import Pair
from sparkmirror.pipeline.status import FlowState
from sparkmirror.run_states import pair_states
from sparkmirror.state.offsets import OffsetStore

Texts = Mapping[str, str | None]

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
    """One connector of one pair."""

    name: str
    pair: Pair
    kind: ConnectorClass

    def state(self) -> ConnectorState:
        return pair_states(self.pair)[self.kind]


class RunApi:
    """Implements ConnectApi; all of it is anybody's."""

    def __init__(
        self,
        file: str,
        pairs: Callable[[], Sequence[Pair]],
        reading: Callable[[], RunReading],
        worker_id: str,
    ) -> None:
        """`file` is what to change, `worker_id` what statuses name."""
        self._file = file
        self._pairs = pairs
        self._reading = reading
        self._worker_id = worker_id
        self._levels = LogLevels()
        self._cluster_id: str | None = None

    # --- the process

    def look(self) -> None:
        """What the other processes say is read all the time."""

    def root(self) -> Mapping[str, str]:
        """The cluster is the target of the first pair."""
        if self._cluster_id is None:
            [pair, *_] = self._pairs()
            with ClusterAdmin(pair.plan.settings.target_admin) as admin:
                self._cluster_id = admin.cluster().cluster_id or ""
        return {
            "version": PLUGIN_VERSION,
            "commit": "sparkmirror",
            "kafka_cluster_id": self._cluster_id,
        }

    def health(self) -> tuple[int, Mapping[str, str]]:
        """Healthy once every pair runs here or is known to run elsewhere."""
        flows = [pair.snapshot() for pair in self._pairs()]
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
        return [*self._all()]

    def info(self, name: str) -> ConnectorInfo:
        """As the file has it."""
        one = self._known(name, refusals.no_connector)
        return ConnectorInfo(name, self._config(one), tuple(sorted(one.state().tasks)))

    def status(self, name: str) -> ConnectorStateInfo:
        """What it does, in this process."""
        one = self._known(name, refusals.no_status)
        now = one.state()
        tasks = {task: self._part(part) for task, part in now.tasks.items()}
        return ConnectorStateInfo(name, self._part(now.connector), tasks)

    def task_configs(self, name: str) -> list[dict[str, str | None]]:
        """The configurations of its tasks, in their order."""
        one = self._known(name, refusals.no_connector)
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
        found = self._known(name, lambda name: refusals.no_task_status(name, task)).state().tasks
        if task not in found:
            raise refusals.no_task_status(name, task)
        return self._part(found[task])

    def topics(self, name: str) -> list[str]:
        """The topics on the target that it writes to now."""
        one = self._all().get(name)
        if one is None or one.pair.herder is None:
            return []
        names, source = one.pair.plan.policy.replication, one.pair.plan.flow.source
        if one.kind is ConnectorClass.HEARTBEAT:
            return [names.heartbeats_topic()]
        if one.kind is ConnectorClass.CHECKPOINT:
            return [names.checkpoints_topic(source)]
        copied = {tp.topic for part in one.state().tasks.values() for tp in part.partitions}
        return sorted(names.format_remote_topic(source, topic) for topic in copied)

    def offsets(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        """The stored positions of one that copies; the others have none of their own."""
        one = self._known(name, refusals.no_connector)
        if one.kind is not ConnectorClass.SOURCE:
            return []
        settings = one.pair.plan.settings
        store = OffsetStore(
            settings.state,
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
        self._wish(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        """Go on after a pause or a stop."""
        self._wish(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        """Copy nothing and have no tasks."""
        self._wish(name, TargetState.STOPPED)

    def restart(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo | None:
        """Begin anew, tasks included: they are planned together."""
        one = self._known(name, refusals.nothing_to_restart)
        before = self.status(name)
        self._order(
            lambda seconds: one.pair.gate.orders.restart(one.kind, seconds, only_failed=only_failed)
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
        one = self._known(name, refusals.nothing_to_restart)
        if task not in one.state().tasks:
            raise refusals.unknown_task(name, task)
        orders = one.pair.gate.orders
        self._order(lambda seconds: orders.restart(one.kind, seconds, only_failed=False))

    # --- what the file decides

    def create(self, name: str, config: Texts, initial_state: str | None) -> ConnectorInfo:  # noqa: ARG002
        """The file does."""
        self._refuse("Connectors cannot be created here")

    def put_config(self, name: str, config: Texts) -> tuple[ConnectorInfo, bool]:  # noqa: ARG002
        """The file does."""
        self._refuse("Connectors cannot be configured here")

    def patch_config(self, name: str, changes: Texts) -> ConnectorInfo:  # noqa: ARG002
        """The file does."""
        self._refuse("Connectors cannot be configured here")

    def delete(self, name: str) -> None:
        """The file does."""
        self._known(name, refusals.no_connector)
        self._refuse("Connectors cannot be deleted here, only stopped")

    def reset_topics(self, name: str) -> None:
        """Nothing is remembered that could be forgotten."""
        self._known(name, refusals.no_connector)
        raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:  # noqa: ARG002
        """Positions of ours are more than an offset."""
        self._known(name, refusals.no_connector)
        self._refuse("Offsets cannot be altered here")

    def reset_offsets(self, name: str) -> str:
        """The same."""
        self._known(name, refusals.no_connector)
        self._refuse("Offsets cannot be reset here")

    def put_tasks(self, name: str, signed: SignedBody, read: ReadTasks) -> None:  # noqa: ARG002
        """Processes with the same file do not talk to each other."""
        self._refuse("Tasks cannot be set here")

    def fence(self, name: str, signed: SignedBody) -> None:  # noqa: ARG002
        """The same."""
        self._refuse("Tasks cannot be fenced here")

    def _refuse(self, what: str) -> NoReturn:
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"{what}: this is a mirror that runs the file {self._file}. Change the file, it is "
            f"taken up without a restart.",
        )

    # --- classes and loggers

    def plugins(self, *, connectors_only: bool) -> list[Plugin]:
        """What there is to configure."""
        return plugins.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[Definition]:
        """The keys of a plugin."""
        return plugins.plugin_config(plugin, version)

    def validate(self, plugin: str, config: Texts) -> Validation:
        """As a worker on the first pair's target would see it, with the file's providers."""
        [pair, *_] = self._pairs()
        servers = ",".join(pair.plan.settings.target_admin.bootstrap_servers)
        file = parse_properties(_WORKER.format(servers=servers), self._file)
        return plugins.validate(plugin, config, WorkerFile(file, self._reading().resolver))

    def loggers(self) -> Mapping[str, LogLevel]:
        """Every logger whose level is set."""
        return self._levels.all()

    def logger(self, name: str) -> LogLevel:
        """One of them."""
        return self._levels.one(name)

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:  # noqa: ARG002
        """Set a level in this process; the others have loggers of their own."""
        return self._levels.set(name, level)

    # --- inside

    def _all(self) -> dict[str, _Connector]:
        found = (
            _Connector(f"{pair.plan.flow}.{kind.value}", pair, kind)
            for pair in self._pairs()
            for kind in pair.connectors
        )
        return {one.name: one for one in found}

    def _known(self, name: str, refusal: Callable[[str], ApiError]) -> _Connector:
        found = self._all().get(name)
        if found is None:
            raise refusal(name)
        return found

    def _config(self, one: _Connector) -> dict[str, str | None]:
        texts = self._reading().connectors.get(one.pair.plan.flow, {}).get(one.kind, {})
        return {**texts, "name": one.name}

    def _part(self, part: PartState) -> StateInfo:
        return StateInfo(part.state, self._worker_id, part.trace, PLUGIN_VERSION, part.warning)

    def _restarting(self, part: StateInfo, *, only_failed: bool) -> StateInfo:
        if only_failed and part.state is not State.FAILED:
            return part
        return StateInfo(State.RESTARTING, self._worker_id, version=PLUGIN_VERSION)

    def _wish(self, name: str, state: TargetState) -> None:
        one = self._known(name, refusals.unknown_connector)
        self._order(lambda seconds: one.pair.gate.orders.wish(one.kind, state, seconds))

    def _order(self, order: Callable[[float], None]) -> None:
        try:
            order(_ORDER_SECONDS)
        except TooLong:
            raise ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "The target cluster did not answer in time; whether it was written is not known.",
            ) from None
        except ClusterError as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
