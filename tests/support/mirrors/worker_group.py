# SPDX-License-Identifier: Apache-2.0
"""Several `sparkmirror worker` of one group on one cluster, and what they mirror from another.

Who leads is read in the workers' logs, who runs what in any worker's statuses, and who has written
to the config topic in the broker's log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.kafka.log_records import decode_records
from support.clients.librdkafka import (
    Cluster,
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
)
from support.clients.load_generator import Load
from support.clients.prometheus import sample, scrape
from support.clusters.log_segments import logged_batches
from support.mirrors.java_connect import ConnectTopics, heartbeat_config
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 2
LEADS = "This worker leads its group"
_PLACE = re.compile(r"generation (\d+), leader (\S+),")
_SESSION_KEY = b"session-key"
_BUSY = 409  # the worker is between two generations of its group


class Written(NamedTuple):
    """A record of the config topic, and the epoch of its writer."""

    epoch: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A source connector with its own topic."""

    source: Cluster
    target: Cluster
    name: str
    topic: str

    @classmethod
    def made(cls, source: Cluster, target: Cluster) -> MirroredTopic:
        """With a topic that is there."""
        name = unique_name("mirror")
        create_topics(source, {f"{name}-topic": PARTITIONS})
        return cls(source, target, name, f"{name}-topic")

    @property
    def remote(self) -> str:
        """The topic's name on the target."""
        return f"{self.name}.{self.topic}"

    @property
    def config(self) -> dict[str, str]:
        return {
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": self.name,
            "target.cluster.alias": f"{self.name}-to",
            "source.cluster.bootstrap.servers": self.source.bootstrap_servers,
            "target.cluster.bootstrap.servers": self.target.bootstrap_servers,
            "topics": self.topic,
            "tasks.max": "1",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "heartbeats.replication.enabled": "false",
            "sync.topic.acls.enabled": "false",
        }

    def load(self, per_second: int) -> Load:
        return Load(self.source, self.topic, per_second=per_second, partitions=PARTITIONS)

    def copied(self) -> int:
        """How many records the target has."""
        return sum(end_offsets(self.target, self.remote).values())

    def await_more(self, records: int = 1, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until so many further records have arrived."""
        wanted = self.copied() + records
        eventually(lambda: self.copied() >= wanted, seconds, f"{records} more of {self.topic}")

    def check(self) -> int:
        """Nothing is lost and nothing is there twice; how many records there are."""
        await_copy(self.source, self.topic, self.target, self.remote, PATIENCE_SECONDS)
        return compare_topics(self.source, self.topic, self.target, self.remote)


class WorkerGroup:
    """A context manager that leaves no worker behind."""

    def __init__(self, cluster: LocalCluster, scratch: Path, **more: str) -> None:
        """Further keys of the workers' files, dots written as underscores."""
        self.cluster = cluster
        self.topics = ConnectTopics(unique_name("group"))
        self.workers: list[WorkerProcess] = []
        self._scratch = scratch
        self._more = more
        self._metrics: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def start(self, count: int = 1, **more: str) -> list[WorkerProcess]:
        """Start workers concurrently, without waiting for them.

        They may have other keys in their files than the rest of the group.
        """
        made = []
        for _ in range(count):
            port = ReservedPort()
            port.reserve()
            ports = {"metrics_host": HOST, "metrics_port": str(port.number)}
            port.prepare_bind()
            self._stack.callback(port.release)
            keys = ports | self._more | more
            worker = WorkerProcess(self.cluster, self._scratch, self.topics, **keys)
            self._metrics[worker.worker_id] = port.number
            made.append(self._stack.enter_context(worker))
        self.workers += made
        return made

    def of(self, count: int) -> list[WorkerProcess]:
        """Return this many healthy workers; starts missing ones."""
        self.start(max(0, count - len(self.running)))
        for worker in self.running:
            worker.await_health()
        return self.running

    @property
    def running(self) -> list[WorkerProcess]:
        """Those whose process has not ended."""
        return [one for one in self.workers if one.process.is_running]

    # --- who leads

    def leaders(self) -> dict[int, set[str]]:
        """Return all leaders that workers have seen, by generation."""
        found: dict[int, set[str]] = {}
        for worker in self.workers:
            for generation, url in _PLACE.findall(worker.process.log):
                found.setdefault(int(generation), set()).add(url)
        return found

    def leader(self) -> WorkerProcess:
        """The leader of the newest generation."""

        def of_newest() -> WorkerProcess:
            known = self.leaders()
            urls = known[max(known)]
            [found] = [one for one in self.workers if one.url in urls]
            return found

        return eventually(of_newest, PATIENCE_SECONDS, "somebody leads", not_yet=(ValueError,))

    def other_than(self, worker: WorkerProcess) -> WorkerProcess:
        [found] = [one for one in self.running if one is not worker]
        return found

    # --- who runs what

    def shares(
        self, asked: WorkerProcess, names: Collection[str] | None = None
    ) -> dict[str, set[str]]:
        """The connectors that run, by worker; all of them, or those with some names."""
        found: dict[str, set[str]] = {}
        for name, one in asked.get("/connectors?expand=status").items():
            state = one["status"]["connector"]
            if state["state"] == "RUNNING" and (names is None or name in names):
                found.setdefault(state["worker_id"], set()).add(name)
        return found

    def await_shares(
        self, asked: WorkerProcess, *sizes: int, names: Collection[str] | None = None
    ) -> dict[str, set[str]]:
        """Wait until the workers that run have so many connectors each."""

        def reached() -> dict[str, set[str]]:
            found = self.shares(asked, names)
            assert sorted(map(len, found.values())) == sorted(sizes), found
            assert found.keys() <= {one.worker_id for one in self.running}, found
            return found

        return eventually(reached, PATIENCE_SECONDS, f"workers have {sizes} connectors")

    def owner(self, name: str, asked: WorkerProcess) -> WorkerProcess:
        worker_id = asked.get(f"/connectors/{name}/status")["connector"]["worker_id"]
        [found] = [one for one in self.workers if one.worker_id == worker_id]
        return found

    def epoch(self, worker: WorkerProcess, mirror: MirroredTopic) -> float:
        """The number of the Spark job that copies for a connector."""
        flow = f"{mirror.name}->{mirror.name}-to|{mirror.name}"
        figures = scrape(HOST, self._metrics[worker.worker_id])
        return figures[sample("sparkmirror_epoch", flow=flow)]

    # --- what is written

    def written(self) -> list[Written]:
        """Every record of the config topic."""
        return [
            Written(batch.producer_epoch, record.key or b"", record.value)
            for batch in logged_batches(self.cluster, self.topics.configs)
            for record in decode_records(memoryview(batch.raw), 0, 0, ()).records
        ]

    def session_keys(self) -> int:
        """Count the session keys: every leader writes one."""
        return sum(one.key == _SESSION_KEY for one in self.written())

    def beat(self, **changes: str) -> dict[str, str]:
        """Create a heartbeat connector, which needs no Spark; each has unique cluster aliases."""
        return {
            **heartbeat_config(self.cluster),
            "source.cluster.alias": unique_name("beats"),
            **{key.replace("_", "."): value for key, value in changes.items()},
        }


def seconds_until(began: float, check: Callable[[], Any], what: str) -> float:
    """How long something takes to become true, from a moment on."""
    eventually(check, PATIENCE_SECONDS, what)
    return time.monotonic() - began


def retry_after_rebalance(
    worker: WorkerProcess, method: str, path: str, body: object = None
) -> tuple[int, Any]:
    """The status code and the answer, after a rebalance if there is one."""

    def once() -> tuple[int, Any] | None:
        code, answer = worker.request(method, path, body)
        return None if code == _BUSY else (code, answer)

    return eventually(once, PATIENCE_SECONDS, f"{method} {path} is answered")


def is_accepted(worker: WorkerProcess, name: str, config: dict[str, str]) -> bool:
    """Whether a worker accepts a change; tried once."""
    return worker.request("PUT", f"/connectors/{name}/config", config)[0] in {200, 201}
