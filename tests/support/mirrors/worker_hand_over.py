# SPDX-License-Identifier: Apache-2.0
"""One Connect group whose workers are Java's and ours in turn, and its connectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.connect_rest import ConnectRestClient
from support.clients.consumer_groups import commit, committed
from support.clients.librdkafka import (
    Cluster,
    compare_topics,
    create_topics,
    read_topic,
)
from support.clients.load_generator import Load
from support.mirrors.java_connect import ConnectTopics, JavaConnect
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 4
TASKS = 2
SOURCE, CHECKPOINT, HEARTBEAT = "source", "checkpoint", "heartbeat"
TASKS_OF = {SOURCE: TASKS, CHECKPOINT: 1, HEARTBEAT: 1}
RUNNING = {name: ("RUNNING",) * (1 + tasks) for name, tasks in TASKS_OF.items()}
_RATE = 400
_ENOUGH = 100  # records that make a part of the copy
_CLASSES = "org.apache.kafka.connect.mirror.Mirror"
_numbers = count()


@dataclass(frozen=True, slots=True)
class WorkerHandOver:
    """A group on the target, a topic on the source and a consumer group that reads it there."""

    source: Cluster
    target: Cluster
    scratch: Path
    topics: ConnectTopics
    topic: str
    alias: str
    exactly_once: bool

    @classmethod
    def made(
        cls, source: Cluster, target: Cluster, scratch: Path, *, exactly_once: bool = False
    ) -> WorkerHandOver:
        """Create unique names, the topic, and a group at its beginning."""
        alias, topic = unique_name("handed"), unique_name("orders")
        create_topics(source, {topic: PARTITIONS})
        found = cls(source, target, scratch, ConnectTopics(alias), topic, alias, exactly_once)
        found.commit(0)
        return found

    @property
    def remote(self) -> str:
        """The topic's name on the target."""
        return f"{self.alias}.{self.topic}"

    @property
    def group(self) -> str:
        return f"{self.topic}-readers"

    # --- workers

    def java(self) -> JavaConnect:
        """A worker of Java's, not started yet."""
        return JavaConnect(self.target, self._folder("java"), self.topics, **self._more())

    def ours(self) -> WorkerProcess:
        """A worker of ours, started."""
        return WorkerProcess(self.target, self._folder("ours"), self.topics, **self._more())

    def _more(self) -> dict[str, str]:
        return {"exactly_once_source_support": "enabled"} if self.exactly_once else {}

    def _folder(self, kind: str) -> Path:
        folder = self.scratch / f"{kind}-{next(_numbers)}"
        folder.mkdir()
        return folder

    # --- connectors

    def configs(self) -> dict[str, dict[str, str]]:
        """The three connectors of a flow."""
        shared = {
            "source.cluster.alias": self.alias,
            "source.cluster.bootstrap.servers": self.source.bootstrap_servers,
            "target.cluster.alias": "target",
            "target.cluster.bootstrap.servers": self.target.bootstrap_servers,
        }
        source = {
            "connector.class": f"{_CLASSES}SourceConnector",
            "tasks.max": str(TASKS),
            "topics": f"{self.topic}.*",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "offset-syncs.topic.location": "target",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
        }
        if self.exactly_once:
            source |= {
                "source.consumer.isolation.level": "read_committed",
                "exactly.once.support": "required",
            }
        checkpoint = {
            "connector.class": f"{_CLASSES}CheckpointConnector",
            "groups": f"{self.topic}-.*",
            "checkpoints.topic.replication.factor": "1",
            "offset-syncs.topic.location": "target",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
        }
        heartbeat = {
            "connector.class": f"{_CLASSES}HeartbeatConnector",
            "heartbeats.topic.replication.factor": "1",
        }
        return {
            SOURCE: shared | source,
            CHECKPOINT: shared | checkpoint,
            HEARTBEAT: shared | heartbeat,
        }

    def create(self, worker: ConnectRestClient) -> None:
        """Create all three, and wait until they run."""
        for name, config in self.configs().items():
            worker.create(name, config)
        self.await_running(worker)

    def await_running(self, worker: ConnectRestClient) -> None:
        """Wait until all three run, each of their parts on this worker."""
        for name, states in RUNNING.items():
            worker.await_states(name, *states)
            eventually(
                lambda n=name: self._workers(worker, n) == {worker.worker_id},
                PATIENCE_SECONDS,
                f"{name} runs on {worker.worker_id} and nowhere else",
            )

    @staticmethod
    def _workers(worker: ConnectRestClient, name: str) -> set[str]:
        status = worker.get(f"/connectors/{name}/status")
        return {one["worker_id"] for one in [status["connector"], *status["tasks"]]}

    def fenced(self) -> dict[str, int]:
        """How many tasks each connector had when earlier writers were fenced for the last time."""
        prefix = b"tasks-fencing-"
        return {
            record.key.removeprefix(prefix).decode(): json.loads(record.value)["task-count"]
            for record in read_topic(self.target, self.topics.configs)[0]
            if record.key is not None and record.key.startswith(prefix) and record.value
        }

    def await_empty(self) -> None:
        """Wait until the group has no members: those of a worker that was killed stay a while."""
        servers = (self.target.bootstrap_servers,)
        connection = ConnectionSettings("target", servers, "witness")
        with GroupAdmin(connection) as groups:  # librdkafka knows no other than consumer groups

            def is_empty() -> bool:
                found = groups.listings([self.topics.group]).found.get(self.topics.group)
                assert found is None or found.state in {"Empty", "Dead"}, found
                return True

            eventually(is_empty, PATIENCE_SECONDS, f"group {self.topics.group} is empty")

    def stored(self, worker: ConnectRestClient) -> dict[int, int]:
        """Return the offsets of the source connector by partition, from the REST API."""
        told: list[dict[str, Any]] = worker.get(f"/connectors/{SOURCE}/offsets")["offsets"]
        assert all(one["partition"]["topic"] == self.topic for one in told), told
        return {one["partition"]["partition"]: one["offset"]["offset"] for one in told}

    def alter(self, worker: ConnectRestClient, offsets: Mapping[int, int | None]) -> None:
        """Set the source connector's offsets, or delete them; it is stopped."""
        entries = [
            {
                "partition": {"cluster": self.alias, "topic": self.topic, "partition": number},
                "offset": None if offset is None else {"offset": offset},
            }
            for number, offset in offsets.items()
        ]
        worker.request_ok("PATCH", f"/connectors/{SOURCE}/offsets", {"offsets": entries})

    # --- records

    def load(self) -> Load:
        return Load(self.source, self.topic, per_second=_RATE, partitions=PARTITIONS)

    def await_counts(self, wanted: Mapping[int, int]) -> None:
        """Wait until every partition of the copy has so many records."""

        def arrived() -> bool:
            found = {n: len(records) for n, records in read_topic(self.target, self.remote).items()}
            assert found == wanted
            return True

        eventually(arrived, PATIENCE_SECONDS, f"{self.remote} has {wanted}")

    def copied(self) -> int:
        """How many committed records the target has."""
        return sum(map(len, read_topic(self.target, self.remote).values()))

    def await_more(self) -> int:
        """Wait until a good part more has been copied; how many there are then."""
        wanted = self.copied() + _ENOUGH

        def enough() -> int:
            found = self.copied()
            assert found >= wanted
            return found

        return eventually(enough, PATIENCE_SECONDS, f"{self.remote} has {wanted} records")

    def await_all(self, sent: int) -> None:
        """Wait until as many were copied as were sent, and compare them: none lost, none twice."""

        def arrived() -> bool:
            assert self.copied() >= sent
            return True

        eventually(arrived, PATIENCE_SECONDS, f"{sent} records are in {self.remote}")
        compared = compare_topics(self.source, self.topic, self.target, self.remote)
        assert compared == sent

    # --- the consumer group

    def commit(self, offset: int) -> None:
        """Commit an offset of the group in every source partition."""
        commit(self.source, self.group, self.topic, dict.fromkeys(range(PARTITIONS), offset))

    def stands(self) -> Mapping[int, int]:
        """Return the committed offsets of the group on the target."""
        return committed(self.target, self.group, self.remote, PARTITIONS)

    def await_group(self, beyond: int) -> Mapping[int, int]:
        """Wait until the group has passed an offset on the target."""

        def moved() -> Mapping[int, int]:
            found = self.stands()
            assert min(found.values()) > beyond, found
            return found

        return eventually(moved, PATIENCE_SECONDS, f"{self.group} is moved beyond {beyond}")
