# SPDX-License-Identifier: Apache-2.0
"""Connectors from flat configurations, as a Connect worker stores them, run on real clusters."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.config.connector_config import ParsedConnector, read_connector
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.connector_supervisor import ConnectorSupervisor
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.state.offset_store import OffsetStore
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


@dataclass(frozen=True, slots=True)
class ConnectorWorker:
    """A worker on one cluster, and what its connectors have in common."""

    runner: ConnectorSupervisor
    worker: Cluster
    source: Cluster
    target: Cluster
    alias: str
    offsets: str

    @classmethod
    def made(
        cls, runner: ConnectorSupervisor, worker: Cluster, source: Cluster, target: Cluster
    ) -> ConnectorWorker:
        """With an offsets topic of its own and a source alias that nobody else uses."""
        alias = unique_name("runs")
        place = cls(runner, worker, source, target, alias, f"{alias}-offsets")
        create_topics(worker, {place.offsets: 5}, COMPACT)
        return place

    def reading(self, kind: ConnectorClass, name: str, **changes: str) -> ParsedConnector:
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
        return read_connector(config, file)

    def start(
        self, kind: ConnectorClass, name: str, *, paused: bool = False, **changes: str
    ) -> None:
        """Run a connector."""
        self.runner.start(name, self.reading(kind, name, **changes), paused=paused)

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

        return eventually(reached, seconds, f"{name} is {state}")

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
