# SPDX-License-Identifier: Apache-2.0
"""Exactly-once: a read_committed consumer sees every record once, whatever dies.

The tests share one flow of two tasks and its process; each has its own topic. What `make test` says
about it is in `test_failures.py`, where one process has flows of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import create_topics, duplicates, end_offsets, read_topic
from support.clients.load_generator import Load
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

PER_SECOND = 2000
PARTITIONS = 4


class Flow:
    """A flow of two tasks, and the process that runs it."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, directory: Path, stack: ExitStack
    ) -> None:
        self.source, self.target = source, target
        self.alias = unique_name("once")
        self.topics = {name: unique_name(name) for name in ("worker", "stopped")}
        create_topics(source, dict.fromkeys(self.topics.values(), PARTITIONS))
        self._file = mirror_file(
            directory,
            {self.alias: source, "target": target},
            f"{self.alias}->target.enabled = true",
            f"{self.alias}->target.topics = {', '.join(self.topics.values())}",
            f"{self.alias}->target.tasks.max = 2",
            f"{self.alias}->target.exactly.once.support = required",
            "target.exactly.once.source.support = enabled",
            "heartbeats.replication.enabled = false",
            "epoch.seconds = 3",  # clean changes between the others
            "spark.python.task.killTimeout = 60s",  # a stopped process is to wake up again
        )
        self._stack = stack
        self.mirror = self.start()

    def start(self) -> MirrorProcess:
        """Run the command."""
        self.mirror = self._stack.enter_context(MirrorProcess(self._file))
        self.mirror.await_log(f"{self.alias}->target: RUNNING", PATIENCE_SECONDS)
        return self.mirror

    def remote(self, topic: str) -> str:
        """A topic's name on the target."""
        return f"{self.alias}.{topic}"

    def await_more(self, topic: str, seconds: float = 1.0) -> None:
        """Wait until some seconds' worth of further records has arrived."""

        def arrived() -> int:
            return sum(end_offsets(self.target, self.remote(topic)).values())

        before = arrived()
        eventually(
            lambda: arrived() > before + seconds * PER_SECOND, PATIENCE_SECONDS, f"{topic} flows"
        )

    def check(self, topic: str) -> None:
        """Every record is there, once and in order, for whoever reads what is committed."""
        originals = read_topic(self.source, topic)
        total = sum(map(len, originals.values()))

        def committed() -> int:
            return sum(map(len, read_topic(self.target, self.remote(topic)).values()))

        eventually(
            lambda: committed() >= total,
            PATIENCE_SECONDS,
            f"{total} records of {topic} are committed",
        )
        found = read_topic(self.target, self.remote(topic))
        assert [duplicates(originals[index], found[index]) for index in originals] == (
            [0] * PARTITIONS
        )
        ends = sum(end_offsets(self.target, self.remote(topic)).values())
        measured(f"{topic}: {total} records, {ends - total} offsets of markers and aborted ones")


@pytest.fixture(scope="module")
def flow(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Flow]:
    """The flow, running."""
    with ExitStack() as stack:
        found = Flow(source_cluster, target_cluster, tmp_path_factory.mktemp("once"), stack)
        yield found
        found.mirror.show_log()


def test_a_killed_worker_is_fenced_and_followed(flow: Flow) -> None:
    """SIGKILL to a task's process: the flow is planned again from what was committed."""
    topic = flow.topics["worker"]
    with Load(flow.source, topic, per_second=PER_SECOND, partitions=PARTITIONS):
        flow.await_more(topic)
        worker = busiest(flow.mirror.python_workers())
        worker.kill()
        flow.await_more(topic, 3.0)
    flow.check(topic)
    assert flow.mirror.is_running


def test_a_stopped_worker_that_wakes_up_adds_nothing(flow: Flow) -> None:
    """SIGSTOP for longer than its lease, until others have taken over; then it is refused."""
    topic = flow.topics["stopped"]
    with Load(flow.source, topic, per_second=PER_SECOND, partitions=PARTITIONS):
        flow.await_more(topic)
        worker = busiest(flow.mirror.python_workers())
        worker.suspend()
        try:
            flow.mirror.await_log("are silent", PATIENCE_SECONDS)
            flow.await_more(topic, 3.0)
        finally:
            worker.resume()
        flow.await_more(topic, 3.0)
    flow.check(topic)
    assert flow.mirror.is_running


def busiest(workers: list[psutil.Process]) -> psutil.Process:
    """The worker that has done most: one that runs a copy task."""
    return max(workers, key=lambda one: sum(one.cpu_times()[:2]))
