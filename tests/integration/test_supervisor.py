# SPDX-License-Identifier: Apache-2.0
"""The three connectors run one by one from flat configurations: paused, restarted, failing.

All tests share one supervisor and its Spark; each has topics and source aliases of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import TopicPartition
from support.clients.consumer_groups import commit
from support.clients.librdkafka import (
    Record,
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    read_topic,
    topics,
)
from support.clients.load_generator import Load
from support.mirrors.connector_runs import ConnectorWorker, ManualSupervisor
from support.waiting import PATIENCE_SECONDS, eventually

ANSWER_SECONDS = 5.0  # a command returns; on a busy machine
NOBODY = "127.0.0.1:1"  # port 1 is never ours
SOURCE, CHECKPOINT, HEARTBEAT = (
    ConnectorClass.SOURCE,
    ConnectorClass.CHECKPOINT,
    ConnectorClass.HEARTBEAT,
)

# A process has one Spark gateway in its life, and other tests of the ordinary run use theirs up.
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def runner() -> Iterator[ManualSupervisor]:
    """Ends in order, and leaves no thread of a connector behind."""
    made = ManualSupervisor()
    yield made
    assert made.close()
    assert at_work("runs-") == []


@pytest.fixture
def place(
    runner: ManualSupervisor, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> Iterator[ConnectorWorker]:
    """A worker on the target, as Connect wants it."""
    made = ConnectorWorker.made(runner, target_cluster, source_cluster, target_cluster)
    yield made
    for name in runner.states():
        runner.stop(name)
    for name in runner.states():
        made.await_gone(name)


def at_work(name: str) -> list[str]:
    """The threads that work for a connector or a flow."""
    return [one.name for one in threading.enumerate() if name in one.name]


@contextmanager
def never_two(place: ConnectorWorker) -> Iterator[None]:
    """Fails if two lives of a connector ever copied at the same time.

    The records alone would not tell: sequences and comparisons keep them right even then.
    """
    most = 0
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.wait(0.002):
            names = at_work(f"{place.alias}->")
            most = max(most, sum(name.endswith("/source/copy") for name in names))

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert most == 1


def answered(command: Callable[[str], None], name: str) -> None:
    """Give a command, which must not take long."""
    began = time.monotonic()
    command(name)
    assert time.monotonic() - began < ANSWER_SECONDS


def test_three_connectors_run_from_their_own_configurations(
    place: ConnectorWorker, unique_topic: Callable[..., str]
) -> None:
    """Records, a checkpoint of a group, heartbeats; each has the tasks it needs, and its topics."""
    topic = unique_topic()
    create_topics(place.source, {topic: 2})
    produce(place.source, topic, numbered(1000, 2))
    commit(place.source, f"{topic}-group", topic, {0: 100})
    place.start(SOURCE, "copy", topics=topic, tasks_max="2")
    place.start(CHECKPOINT, "groups", topics=topic, groups=f"{topic}-group")
    place.start(HEARTBEAT, "beats")
    remote = f"{place.alias}.{topic}"
    await_copy(place.source, topic, place.target, remote, PATIENCE_SECONDS)
    assert compare_topics(place.source, topic, place.target, remote) == 1000
    copying = place.await_state("copy", RunState.RUNNING, tasks=2)
    assert [part.partitions for _, part in sorted(copying.tasks.items())] == [
        (TopicPartition(topic, 0),),
        (TopicPartition(topic, 1),),
    ]
    for name in ("groups", "beats"):
        place.await_state(name, RunState.RUNNING, tasks=1)
    checkpoints = f"{place.alias}.checkpoints.internal"
    eventually(lambda: end_offsets(place.target, checkpoints)[0], PATIENCE_SECONDS, "a checkpoint")
    assert {tp for tp, one in place.positions("copy").items() if one.downstream is not None} == {
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
    }
    beats = [
        record
        for record in read_topic(place.target, "heartbeats")[0]
        if record.key and place.alias.encode() in record.key
    ]
    assert beats
    worker_topics = {f"{place.alias}-configs", f"{place.alias}-status"}
    assert not worker_topics & topics(place.target).keys()


def test_a_connector_under_load_is_paused_resumed_restarted_and_changed(
    place: ConnectorWorker, unique_topic: Callable[..., str]
) -> None:
    """Paused it copies nothing and keeps its place; in the end nothing is lost, nothing twice."""
    topic, name = unique_topic(), "steady"
    create_topics(place.source, {topic: 2})
    remote = f"{place.alias}.{topic}"
    place.start(SOURCE, name, topics=topic, tasks_max="2", paused=True)
    eventually(lambda: name in place.runner.states(), PATIENCE_SECONDS, "it is known")
    assert place.state(name).connector.state is RunState.PAUSED
    answered(place.runner.resume, name)
    place.await_state(name, RunState.RUNNING, tasks=2)

    def copied() -> int:
        return sum(end_offsets(place.target, remote).values())

    def grows() -> None:
        before = copied()
        eventually(lambda: copied() > before, PATIENCE_SECONDS, "records flow")

    with never_two(place), Load(place.source, topic, per_second=300, partitions=2):
        grows()
        began = time.monotonic()
        answered(place.runner.pause, name)
        answered(place.runner.pause, name)
        place.await_state(name, RunState.PAUSED, PATIENCE_SECONDS, tasks=2)
        took = time.monotonic() - began
        at = copied()
        stored = place.positions(name)
        assert sum(one.offset + 1 for one in stored.values()) == at, f"paused in {took:.1f} s"
        source_ends = end_offsets(place.source, topic)
        eventually(
            lambda: (
                sum(end_offsets(place.source, topic).values()) > sum(source_ends.values()) + 300
            ),
            PATIENCE_SECONDS,
            "the source goes on",
        )
        assert copied() == at
        answered(place.runner.resume, name)
        answered(place.runner.resume, name)
        grows()
        answered(place.runner.restart, name)
        assert place.state(name).connector.state is RunState.RESTARTING
        place.await_state(name, RunState.RUNNING, tasks=2)
        grows()
        answered(place.runner.restart_tasks, name)
        grows()
        place.start(SOURCE, name, topics=topic, tasks_max="1")  # as a PUT of its config
        place.await_state(name, RunState.RUNNING, tasks=1)
        grows()
        answered(place.runner.stop, name)
        place.start(SOURCE, name, topics=topic, tasks_max="1")  # deleted and created again
        grows()
    await_copy(place.source, topic, place.target, remote, PATIENCE_SECONDS)
    assert compare_topics(place.source, topic, place.target, remote) > 0
    answered(place.runner.stop, name)
    place.await_gone(name)
    assert at_work(place.alias) == []


def test_a_cluster_out_of_reach_is_a_warning(place: ConnectorWorker) -> None:
    """Each connector runs, and says which cluster it waits for; it can be stopped meanwhile."""
    for kind in (SOURCE, CHECKPOINT):
        name = kind.value
        place.start(kind, name, source_cluster_bootstrap_servers=NOBODY, topics="none")
    place.start(
        HEARTBEAT,
        HEARTBEAT.value,
        target_cluster_bootstrap_servers=NOBODY,
        producer_override_bootstrap_servers=NOBODY,
    )
    place.await_state(SOURCE.value, RunState.RUNNING)
    place.await_state(HEARTBEAT.value, RunState.RUNNING)
    place.await_state(CHECKPOINT.value, RunState.RUNNING, tasks=1)

    def warnings(name: str) -> str:
        found = place.state(name)
        parts = (found.connector, *found.tasks.values())
        assert {part.state for part in parts} == {RunState.RUNNING}
        return "; ".join(part.warning for part in parts)

    for name in (SOURCE.value, HEARTBEAT.value, CHECKPOINT.value):
        eventually(lambda: NOBODY in warnings(name), PATIENCE_SECONDS, f"{name} says so")  # noqa: B023 - called at once
    answered(place.runner.pause, SOURCE.value)
    place.await_state(SOURCE.value, RunState.PAUSED, PATIENCE_SECONDS)


def test_a_partition_in_quarantine_fails_its_task_and_no_other(
    place: ConnectorWorker, unique_topic: Callable[..., str]
) -> None:
    """The trace says what happened; after a remedy a restart of the tasks is enough."""
    topic, name = unique_topic(), "strict"
    remote = f"{place.alias}.{topic}"
    create_topics(place.source, {topic: 2})
    create_topics(place.target, {remote: 2}, {"max.message.bytes": "2000"})
    produce(place.source, topic, numbered(10, 2))
    produce(place.source, topic, [(1, Record(b"large", b"x" * 5000))])
    place.start(
        SOURCE,
        name,
        topics=topic,
        tasks_max="2",
        refused_record_policy="stop",
        sync_topic_configs_enabled="false",
    )
    failed = place.await_task(name, 1, RunState.FAILED)
    assert f"{remote}-1: MESSAGE_TOO_LARGE" in failed.trace
    assert failed.partitions == (TopicPartition(topic, 1),)
    assert place.state(name).tasks[0].state is RunState.RUNNING
    assert place.state(name).connector.state is RunState.RUNNING
    produce(place.source, topic, numbered(10, 1, first=100))
    eventually(
        lambda: end_offsets(place.target, remote)[0] == 15, PATIENCE_SECONDS, "the other one flows"
    )
    place.start(SOURCE, name, topics=topic, tasks_max="2", sync_topic_configs_enabled="false")
    place.await_state(name, RunState.RUNNING, tasks=2)  # its policy is now to set it aside


def test_positions_stay_with_a_worker_on_the_source(
    runner: ManualSupervisor,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    unique_topic: Callable[..., str],
) -> None:
    """They are there and not on the target, and the connector continues from them."""
    place = ConnectorWorker.made(runner, source_cluster, source_cluster, target_cluster)
    topic, name = unique_topic(), "from-the-source"
    remote = f"{place.alias}.{topic}"
    create_topics(source_cluster, {topic: 2})
    place.start(SOURCE, name, topics=topic, tasks_max="2")
    place.await_state(name, RunState.RUNNING, tasks=2)
    produce(source_cluster, topic, numbered(500, 2))
    await_copy(source_cluster, topic, target_cluster, remote, PATIENCE_SECONDS)
    ends = end_offsets(source_cluster, topic)

    def stored() -> dict[int, int]:
        return {tp.partition: one.offset + 1 for tp, one in place.positions(name).items()}

    eventually(lambda: stored() == ends, PATIENCE_SECONDS, "positions are flushed")
    runner.stop(name)
    place.await_gone(name)
    produce(source_cluster, topic, numbered(500, 2, first=500))
    place.start(SOURCE, name, topics=topic, tasks_max="2")
    await_copy(source_cluster, topic, target_cluster, remote, PATIENCE_SECONDS)
    assert compare_topics(source_cluster, topic, target_cluster, remote) == 1000
    assert place.offsets not in topics(target_cluster)
    runner.stop(name)
    place.await_gone(name)
    assert stored() == end_offsets(source_cluster, topic)
