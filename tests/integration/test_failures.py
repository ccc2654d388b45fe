# SPDX-License-Identifier: Apache-2.0
"""Whatever dies during a copy, nothing is lost and nothing arrives twice.

The tests share two clusters of their own and one running process with two flows, one of which
writes in transactions; each has its own topics.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import (
    create_topics,
    duplicates,
    end_offsets,
    read_topic,
)
from support.clients.load_generator import Load
from support.clusters.memory_disk import keep_in_memory
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import STOP_SECONDS, MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

PER_SECOND = 200
FLUSH_SECONDS = 1
PARTITIONS = 2
ONCE = "once"  # the alias of `a` in the flow that writes in transactions
CONNECTOR = "MirrorSourceConnector"
NAMES = ("worker", "source-broker", "target-broker", "everything", "hanging")
ONCE_NAMES = ("once-worker", "once-everything")


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[dict[str, LocalCluster]]:
    """Two clusters whose brokers may be killed."""
    directory = tmp_path_factory.mktemp("hurt")
    found = {name: LocalCluster(name, directory / name, version=kafka_version) for name in "ab"}
    folders = [folder for cluster in found.values() for folder in keep_in_memory(cluster)]
    try:
        start_all(found.values())
        create_topics(found["a"], dict.fromkeys((*NAMES, *ONCE_NAMES), PARTITIONS))
        yield found
    finally:
        for cluster in found.values():
            cluster.stop()
        for folder in folders:
            shutil.rmtree(folder)


class Running:
    """The process of the flows; a test that ends it starts the next."""

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
    """A flow of either kind between the two clusters."""
    file = mirror_file(
        tmp_path_factory.mktemp("failures"),
        {**clusters, ONCE: clusters["a"], "vault": clusters["b"]},
        "a->b.enabled = true",
        f"a->b.topics = {', '.join(NAMES)}",
        f"{ONCE}->vault.enabled = true",
        f"{ONCE}->vault.topics = {ONCE}-.*",
        f"{ONCE}->vault.tasks.max = 2",
        f"{ONCE}->vault.exactly.once.support = required",
        "vault.exactly.once.source.support = enabled",
        f"b.offset.flush.interval.ms = {1000 * FLUSH_SECONDS}",
        "emit.heartbeats.enabled = false",  # of every pair of the four names
        "emit.checkpoints.enabled = false",
        "sync.topic.acls.enabled = false",
    )
    with ExitStack() as stack:
        found = Running(file, stack)
        for flow in ("a->b", f"{ONCE}->vault"):
            found.mirror.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)
        yield found
        found.mirror.show_log()


def remote(topic: str) -> str:
    """A topic's name on the target."""
    return f"{ONCE if topic.startswith(ONCE) else 'a'}.{topic}"


@contextmanager
def load(clusters: dict[str, LocalCluster], *topics: str) -> Iterator[None]:
    """Records keep coming into all partitions of these topics."""
    with ExitStack() as stack:
        for topic in topics:
            stack.enter_context(
                Load(
                    clusters["a"],
                    topic,
                    per_second=PER_SECOND,
                    partitions=PARTITIONS,
                    linger_ms=50,
                )
            )
        yield


def copied(clusters: dict[str, LocalCluster], topic: str) -> int:
    """How many records have arrived."""
    return sum(end_offsets(clusters["b"], remote(topic)).values())


def await_more(clusters: dict[str, LocalCluster], *topics: str, seconds: int = 2) -> None:
    """Wait until some seconds' worth of further records has arrived."""
    before = {topic: copied(clusters, topic) for topic in topics}
    for topic in topics:
        eventually(
            lambda topic=topic: copied(clusters, topic) > before[topic] + seconds * PER_SECOND,
            PATIENCE_SECONDS,
            f"{topic} flows",
        )


def repeated(clusters: dict[str, LocalCluster], topic: str) -> int:
    """Wait for the last record, make sure that none is missing; how many came more than once."""
    originals = read_topic(clusters["a"], topic)
    last = {partition: records[-1] for partition, records in originals.items()}

    def arrived() -> bool:
        copies = read_topic(clusters["b"], remote(topic))
        return all(record in copies[partition][-1:] for partition, record in last.items())

    eventually(arrived, PATIENCE_SECONDS, f"the last records of {topic} arrive")
    copies = read_topic(clusters["b"], remote(topic))
    twice = sum(duplicates(originals[index], copies[index]) for index in originals)
    total = sum(len(records) for records in originals.values())
    measured(f"{topic}: {total} records, {twice} arrived more than once")
    return twice


def test_a_killed_python_worker_loses_nothing(
    running: Running, clusters: dict[str, LocalCluster]
) -> None:
    """Spark starts the task again, and it compares both sides from its last report on."""
    topics = ("worker", "once-worker")
    with load(clusters, *topics):
        # Longer than positions take to be flushed: starting over would be noticed.
        await_more(clusters, *topics, seconds=2 * FLUSH_SECONDS)
        workers = running.mirror.python_workers()
        assert len(workers) >= 2  # of both flows
        for worker in workers:
            worker.kill()
        await_more(clusters, *topics)
    assert [repeated(clusters, topic) for topic in topics] == [0, 0]
    assert running.mirror.is_running


@pytest.mark.parametrize(
    ("side", "topic"),
    [
        pytest.param("a", "source-broker", marks=pytest.mark.thorough),
        ("b", "target-broker"),
    ],
)
def test_a_killed_broker_that_returns_loses_nothing(
    running: Running, clusters: dict[str, LocalCluster], side: str, topic: str
) -> None:
    """The task waits for the broker and resends what was not acknowledged, with its sequence."""
    with load(clusters, topic):
        await_more(clusters, topic)
        before = len(running.mirror.log)
        clusters[side].brokers[0].kill()
        eventually(
            lambda: f"cluster '{side}'" in running.mirror.log[before:],
            PATIENCE_SECONDS,
            "the log says that the cluster is away",
        )
        clusters[side].brokers[0].start()
        await_more(clusters, topic)
    assert repeated(clusters, topic) == 0
    assert running.mirror.is_running


@dataclass(frozen=True, slots=True)
class Remains:
    """What a killed process left of the flow that writes in transactions, by partition."""

    transactional_ids: list[str]
    positions: dict[int, int]
    committed: dict[int, int]


def remains(cluster: LocalCluster, topic: str) -> Remains:
    """End what is open, as a successor does, and look."""
    connection = ConnectionSettings("vault", (cluster.bootstrap_servers,), "once-test")
    with TransactionalIds(connection) as ids:
        found = ids.list_ids(f"{ONCE}-mm2-{CONNECTOR}-")
        ids.fence(found, transaction_timeout_ms=60_000)
    offsets = f"mm2-offsets.{ONCE}.internal"
    stored = OffsetStore(connection, offsets, connector=CONNECTOR, source_alias=ONCE).read()
    copies = read_topic(cluster, remote(topic))
    return Remains(
        found,
        {tp.partition: at.offset + 1 for tp, at in stored.positions.items() if tp.topic == topic},
        {index: len(records) for index, records in copies.items()},
    )


@pytest.fixture(scope="module")
def killed(running: Running, clusters: dict[str, LocalCluster]) -> Remains:
    """SIGKILL to driver, JVM and workers under load; then a new process."""
    topics = ("everything", "once-everything")
    with load(clusters, *topics):
        await_more(clusters, *topics)
        before = running.mirror
        before.kill_everything()
        assert before.processes() == []
        found = remains(clusters["b"], "once-everything")
        running.start()
        await_more(clusters, *topics)
    return found


@pytest.mark.usefixtures("killed")
def test_killing_everything_loses_nothing(clusters: dict[str, LocalCluster]) -> None:
    """The next run sees what has arrived."""
    assert repeated(clusters, "everything") == 0


def test_killing_everything_leaves_records_and_positions_that_agree(
    killed: Remains, clusters: dict[str, LocalCluster]
) -> None:
    """In the middle of transactions: both are decided together, and a new run continues."""
    prefix = f"{ONCE}-mm2-{CONNECTOR}-"
    assert killed.transactional_ids == [f"{prefix}0", f"{prefix}1"]
    assert killed.committed == killed.positions
    assert sum(killed.committed.values()) > 0
    assert repeated(clusters, "once-everything") == 0


@pytest.mark.thorough
def test_a_target_that_hangs_does_not_delay_the_end(
    running: Running, clusters: dict[str, LocalCluster]
) -> None:
    """SIGTERM ends within 10 s although nothing is acknowledged; the next run continues."""
    hanging = clusters["b"].brokers[0]
    with load(clusters, "hanging"):
        await_more(clusters, "hanging")
        hanging.suspend()
        code, took = running.mirror.terminate()
        hanging.resume()
    measured(f"hanging: exit {code} after {took:.1f} s")
    assert code == 0
    assert took < STOP_SECONDS
    running.mirror.await_end_of_all()
    assert running.start("--once").wait(PATIENCE_SECONDS) == 0
    assert repeated(clusters, "hanging") <= (FLUSH_SECONDS + 2) * PER_SECOND
