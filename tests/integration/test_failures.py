# SPDX-License-Identifier: Apache-2.0
"""Whatever dies during a copy, nothing is lost and nothing arrives twice.

The tests share one running process and two clusters of their own; each has its own topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkmirror.local.cluster import LocalCluster, start_all
from support.figures import measured
from support.load import Load
from support.mirror_file import mirror_file
from support.mirror_process import STOP_SECONDS, MirrorProcess
from support.waiting import eventually
from support.witness import (
    PATIENCE_SECONDS,
    create_topics,
    duplicates,
    end_offsets,
    read_topic,
)

pytestmark = pytest.mark.alone

RECOVERY_SECONDS = 60.0
PER_SECOND = 3000
FLUSH_SECONDS = 5  # the default of offset.flush.interval.ms
TOPICS = ("worker", "source-broker", "target-broker", "everything", "hanging")


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[dict[str, LocalCluster]]:
    """Two clusters whose brokers may be killed."""
    directory = tmp_path_factory.mktemp("hurt")
    found = {name: LocalCluster(name, directory / name, version=kafka_version) for name in "ab"}
    start_all(found.values())
    create_topics(found["a"], dict.fromkeys(TOPICS, 2))
    yield found
    for cluster in found.values():
        cluster.stop()


class Running:
    """The process of the flow; a test that ends it starts the next."""

    def __init__(self, file: Path, stack: ExitStack) -> None:
        self._file = file
        self._stack = stack
        self.mirror = self.start()

    def start(self, *options: str) -> MirrorProcess:
        """Run the command again."""
        self.mirror = self._stack.enter_context(MirrorProcess(self._file, *options))
        return self.mirror


@pytest.fixture(scope="module")
def running(
    clusters: dict[str, LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """One flow between the two."""
    file = mirror_file(tmp_path_factory.mktemp("failures"), clusters, "a->b.enabled = true")
    with ExitStack() as stack:
        found = Running(file, stack)
        found.mirror.await_log("a->b: RUNNING", PATIENCE_SECONDS)
        yield found
        found.mirror.show_log()


def copied(clusters: dict[str, LocalCluster], topic: str) -> int:
    """How many records have arrived."""
    return sum(end_offsets(clusters["b"], f"a.{topic}").values())


def await_more(clusters: dict[str, LocalCluster], topic: str, seconds: int = 2) -> None:
    """Wait until some seconds' worth of further records has arrived."""
    before = copied(clusters, topic)
    eventually(
        lambda: copied(clusters, topic) > before + seconds * PER_SECOND,
        RECOVERY_SECONDS,
        f"{topic} flows",
    )


def repeated(clusters: dict[str, LocalCluster], topic: str) -> int:
    """Wait for the last record, make sure that none is missing; how many came more than once."""
    originals = read_topic(clusters["a"], topic)
    last = {partition: records[-1] for partition, records in originals.items()}

    def arrived() -> bool:
        copies = read_topic(clusters["b"], f"a.{topic}")
        return all(record in copies[partition][-1:] for partition, record in last.items())

    eventually(arrived, RECOVERY_SECONDS, f"the last records of {topic} arrive")
    copies = read_topic(clusters["b"], f"a.{topic}")
    twice = sum(duplicates(originals[index], copies[index]) for index in originals)
    total = sum(len(records) for records in originals.values())
    measured(f"{topic}: {total} records, {twice} arrived more than once")
    return twice


def test_a_killed_python_worker_loses_nothing(
    running: Running, clusters: dict[str, LocalCluster]
) -> None:
    """Spark starts the task again, and it compares both sides from its last report on."""
    with Load(clusters["a"], "worker", per_second=PER_SECOND, partitions=2):
        # Longer than positions take to be flushed: starting over would be noticed.
        await_more(clusters, "worker", seconds=2 * FLUSH_SECONDS)
        workers = running.mirror.python_workers()
        assert workers
        for worker in workers:
            worker.kill()
        await_more(clusters, "worker")
    assert repeated(clusters, "worker") == 0
    assert running.mirror.is_running


@pytest.mark.parametrize(("side", "topic"), [("a", "source-broker"), ("b", "target-broker")])
def test_a_killed_broker_that_returns_loses_nothing(
    running: Running, clusters: dict[str, LocalCluster], side: str, topic: str
) -> None:
    """The task waits for the broker and resends what was not acknowledged, with its sequence."""
    with Load(clusters["a"], topic, per_second=PER_SECOND, partitions=2):
        await_more(clusters, topic)
        clusters[side].brokers[0].kill()
        running.mirror.await_log(f"cluster '{side}'", PATIENCE_SECONDS)
        clusters[side].brokers[0].start()
        await_more(clusters, topic)
    assert repeated(clusters, topic) == 0
    assert running.mirror.is_running


def test_killing_everything_loses_nothing(
    running: Running, clusters: dict[str, LocalCluster]
) -> None:
    """SIGKILL to driver, JVM and workers under load; the next run sees what has arrived."""
    with Load(clusters["a"], "everything", per_second=PER_SECOND, partitions=2):
        await_more(clusters, "everything")
        killed = running.mirror
        killed.kill_everything()
        assert killed.processes() == []
        running.start()
        await_more(clusters, "everything")
    assert repeated(clusters, "everything") == 0


@pytest.mark.thorough
def test_a_target_that_hangs_does_not_delay_the_end(
    running: Running, clusters: dict[str, LocalCluster]
) -> None:
    """SIGTERM ends within 10 s although nothing is acknowledged; the next run goes on."""
    hanging = clusters["b"].brokers[0]
    with Load(clusters["a"], "hanging", per_second=PER_SECOND, partitions=2):
        await_more(clusters, "hanging")
        hanging.suspend()
        code, took = running.mirror.terminate()
        hanging.resume()
    measured(f"hanging: exit {code} after {took:.1f} s")
    assert code == 0
    assert took < STOP_SECONDS
    running.mirror.await_end_of_all()
    assert running.start("--once").wait(RECOVERY_SECONDS) == 0
    assert repeated(clusters, "hanging") <= (FLUSH_SECONDS + 2) * PER_SECOND
