# SPDX-License-Identifier: Apache-2.0
"""Connectors from flat configurations, as a Connect worker stores them, run on real clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sparkmirror.config.connector_config import read_connector
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connectors.connector_instance import ConnectorInstance
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import (
    ConnectorSpec,
    DesiredConnector,
    DesiredConnectors,
    DesiredState,
    Restart,
)
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.runtime.supervisor import Supervisor
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.spark.shared_context import SharedSparkContext
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import Cluster, create_topics
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

COMPACT = {"cleanup.policy": "compact"}
QUICK = {
    "refresh.topics.interval.seconds": "1",
    "heartbeats.replication.enabled": "false",  # those that other tests left on the source
    "sync.topic.acls.enabled": "false",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
}


class ManualSupervisor:
    """A supervisor whose targets a test sets; one Spark for all its connectors."""

    def __init__(self) -> None:
        self._targets: dict[str, DesiredConnector] = {}
        self._factors = ReplicationFactorChooser()
        self._spark: SharedSparkContext[str] = SharedSparkContext(None)
        self.supervisor = Supervisor(self, self._build, self._spark, start_spark=self._start_spark)
        self.supervisor.start()

    def poll(self) -> DesiredConnectors:
        return DesiredConnectors(dict(self._targets))

    def announce(self, names: Collection[str]) -> None: ...

    def _build(self, spec: ConnectorSpec, status: FlowStatus) -> ConnectorInstance:
        return ConnectorInstance(spec, status, self._factors, self._spark)

    def _start_spark(self, wanted: Mapping[str, int]) -> None:
        if not self._spark.is_configured:
            self._spark.configure({}, wanted, room=60)
            self._spark.start()

    def start(self, name: str, spec: ConnectorSpec, *, paused: bool = False) -> None:
        """Run a connector, or another one of the same name."""
        self._set(
            name, DesiredConnector(DesiredState.PAUSED if paused else DesiredState.RUNNING, spec)
        )

    def pause(self, name: str) -> None:
        self._set(name, replace(self._targets[name], desired=DesiredState.PAUSED))

    def resume(self, name: str) -> None:
        self._set(name, replace(self._targets[name], desired=DesiredState.RUNNING))

    def stop(self, name: str) -> None:
        self._targets.pop(name, None)
        self.supervisor.wake()

    def restart(self, name: str) -> None:
        """Restart it with its tasks."""
        assert self.supervisor.restart(Restart(name))

    def restart_tasks(self, name: str) -> None:
        assert self.supervisor.restart(Restart(name, tasks_only=True))

    def _set(self, name: str, target: DesiredConnector) -> None:
        self._targets[name] = target
        self.supervisor.wake()

    def states(self) -> dict[str, ConnectorState]:
        """Every connector that has not ended."""
        return {name: view.state for name, view in self.supervisor.instances().items()}

    def close(self) -> bool:
        """Stop all. Returns whether every position was written in time."""
        is_clean = self.supervisor.close()
        self._spark.stop(keep_log=not is_clean)
        return is_clean


@dataclass(frozen=True, slots=True)
class ConnectorWorker:
    """A worker on one cluster, and what its connectors have in common."""

    runner: ManualSupervisor
    worker: Cluster
    source: Cluster
    target: Cluster
    alias: str
    offsets: str

    @classmethod
    def made(
        cls, runner: ManualSupervisor, worker: Cluster, source: Cluster, target: Cluster
    ) -> ConnectorWorker:
        """With its own offsets topic and a unique source alias."""
        alias = unique_name("runs")
        place = cls(runner, worker, source, target, alias, f"{alias}-offsets")
        create_topics(worker, {place.offsets: 5}, COMPACT)
        return place

    def spec(self, kind: ConnectorClass, name: str, **changes: str) -> ConnectorSpec:
        """A connector's configuration; dots in further keys are written as underscores."""
        file = WorkerConfig.parse(
            f"bootstrap.servers={self.worker.bootstrap_servers}\n"
            f"group.id={self.alias}\n"
            f"config.storage.topic={self.alias}-configs\n"
            f"offset.storage.topic={self.offsets}\n"
            f"status.storage.topic={self.alias}-status\n"
            "offset.flush.interval.ms=1000\n"
        )
        config = {
            "name": name,
            "connector.class": kind.java_name,
            "source.cluster.alias": self.alias,
            "source.cluster.bootstrap.servers": self.source.bootstrap_servers,
            "target.cluster.alias": f"{self.alias}-to",
            "target.cluster.bootstrap.servers": self.target.bootstrap_servers,
            "producer.override.bootstrap.servers": self.target.bootstrap_servers,
            **QUICK,
            **{key.replace("_", "."): value for key, value in changes.items()},
        }
        parsed = read_connector(config, file)
        return ConnectorSpec(kind, f"{parsed.settings.flow}|{name}", parsed, parsed.settings)

    def start(
        self, kind: ConnectorClass, name: str, *, paused: bool = False, **changes: str
    ) -> None:
        self.runner.start(name, self.spec(kind, name, **changes), paused=paused)

    def state(self, name: str) -> ConnectorState:
        """What a connector does now."""
        return self.runner.states()[name]

    def await_state(
        self,
        name: str,
        state: RunState,
        seconds: float = PATIENCE_SECONDS,
        tasks: int | None = None,
    ) -> ConnectorState:
        """Wait until a connector and all its tasks are in a state, if need be so many tasks."""

        def reached() -> ConnectorState:
            found = self.state(name)
            assert {found.connector.state, *(p.state for p in found.tasks.values())} == {state}
            assert tasks is None or len(found.tasks) == tasks
            return found

        return eventually(
            reached, seconds, f"{name} is {state}", not_yet=(AssertionError, KeyError)
        )

    def await_task(self, name: str, task: int, state: RunState) -> ReportedState:
        """Wait until a task is in a state."""

        def reached() -> ReportedState:
            found = self.state(name).tasks[task]
            assert found.state is state, found
            return found

        return eventually(
            reached,
            PATIENCE_SECONDS,
            f"{name}-{task} is {state}",
            not_yet=(AssertionError, KeyError),
        )

    def await_gone(self, name: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until nothing is left of a connector."""
        eventually(lambda: name not in self.runner.states(), seconds, f"{name} has ended")

    def positions(self, name: str) -> dict[TopicPartition, StoredPosition]:
        """What the worker's offsets topic says of a connector."""
        connection = ConnectionSettings("worker", (self.worker.bootstrap_servers,), "witness")
        store = OffsetStore(connection, self.offsets, connector=name, source_alias=self.alias)
        return store.read().positions
