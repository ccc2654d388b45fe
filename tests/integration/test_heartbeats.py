# SPDX-License-Identifier: Apache-2.0
"""Heartbeats on a real broker, also while it is away."""

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as WitnessPartition

from sparkmirror.connectors.heartbeat_connector import HeartbeatState, MirrorHeartbeatConnector
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import UnreachableError
from sparkmirror.formats.mm2_records import Heartbeat
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.model import Flow
from sparkmirror.wire.settings import ConnectionSettings
from support.clusters.topic_histories import create_with_admin
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

STOP_SECONDS = 5.0  # one, and what a busy machine adds
INTERVAL_MS = 300


@pytest.fixture(scope="module")
def cluster(target_cluster: LocalCluster) -> LocalCluster:
    """The shared target."""
    return target_cluster


class Heard:
    """What an independent consumer sees in the heartbeats topic."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "unused",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([WitnessPartition(topic, 0, 0)])

    def beats(self, count: int) -> list[tuple[Heartbeat, int]]:
        """That many heartbeats with their record timestamps."""
        messages = self._consumer.consume(count, timeout=PATIENCE_SECONDS)
        self._consumer.close()
        beats = []
        for message in messages:
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            beats.append((Heartbeat.from_record(key, value), message.timestamp()[1]))
        return beats


def test_heartbeats_are_those_of_mm2(
    admin: ClusterAdmin,
    cluster: LocalCluster,
    connection: ConnectionSettings,
) -> None:
    """One record an interval, after waiting first; the record's time is the value's."""
    topic = unique_name("heartbeats")
    create_with_admin(admin, NewTopic(topic, 1, 1, {"cleanup.policy": "compact"}))
    flow = Flow("a", "b")
    started = time.time_ns() // 1_000_000
    connector = MirrorHeartbeatConnector(
        flow, connection, topic=topic, interval_seconds=INTERVAL_MS / 1000
    )
    thread = run_in_thread(connector)
    eventually(lambda: connector.status.count >= 3, PATIENCE_SECONDS, "three heartbeats are out")
    connector.stop()
    assert has_ended(thread)
    assert connector.status.state is HeartbeatState.STOPPED
    beats = Heard(cluster, topic).beats(3)
    times = [beat.timestamp_ms for beat, _ in beats]
    assert {beat.flow for beat, _ in beats} == {flow}
    assert times == [timestamp for _, timestamp in beats]
    for number, at in enumerate(times, 1):
        assert at - started >= number * INTERVAL_MS


def run_in_thread(connector: MirrorHeartbeatConnector) -> threading.Thread:
    thread = threading.Thread(target=connector.run, args=((),), name="heartbeat", daemon=True)
    thread.start()
    return thread


def has_ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_SECONDS)
    return not thread.is_alive()


def beating_into_nowhere() -> tuple[MirrorHeartbeatConnector, threading.Thread]:
    """A connector that has missed its target."""
    nowhere = ConnectionSettings("nowhere", ("127.0.0.1:1",), "test")
    connector = MirrorHeartbeatConnector(
        Flow("a", "nowhere"), nowhere, topic="heartbeats", interval_seconds=0.05
    )
    thread = run_in_thread(connector)
    eventually(
        lambda: connector.status.state is HeartbeatState.RETRYING,
        PATIENCE_SECONDS,
        "the target is missed",
    )
    return connector, thread


def test_heartbeats_stop_while_the_target_does_not_respond() -> None:
    """A target that is down is named, and does not keep the thread alive."""
    connector, thread = beating_into_nowhere()
    assert "127.0.0.1:1" in str(connector.status.error)
    connector.stop()
    assert has_ended(thread)
    assert connector.status.state is HeartbeatState.STOPPED


@pytest.mark.thorough
def test_stopping_takes_less_than_a_second_while_no_broker_responds() -> None:
    """A target that is down must not delay the end of the program."""
    connector, thread = beating_into_nowhere()
    started = time.monotonic()
    connector.stop()
    assert has_ended(thread)
    assert time.monotonic() - started < STOP_SECONDS


def test_an_unforeseen_error_shows_in_the_status(caplog: pytest.LogCaptureFixture) -> None:
    """The thread may not end unnoticed."""
    nowhere = ConnectionSettings("nowhere", ("127.0.0.1:1",), "test")

    def broken_clock() -> int:
        raise ZeroDivisionError

    connector = MirrorHeartbeatConnector(
        Flow("a", "nowhere"),
        nowhere,
        topic="heartbeats",
        interval_seconds=0.01,
        clock_ms=broken_clock,
    )
    thread = run_in_thread(connector)
    eventually(
        lambda: connector.status.state is HeartbeatState.FAILED,
        PATIENCE_SECONDS,
        "the failure shows",
    )
    assert "ZeroDivisionError" in str(connector.status.error)
    assert has_ended(thread)
    assert "heartbeats ended unexpectedly" in caplog.text


@pytest.mark.thorough
def test_a_broker_that_dies_and_returns_is_survived(
    tmp_path: Path, kafka_version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The admin reconnects, heartbeats come back, and the log tells of the two changes only."""
    with LocalCluster("b", tmp_path, version=kafka_version) as cluster:
        address = (cluster.bootstrap_servers,)
        impatient = ConnectionSettings("b", address, "test", connect_timeout_seconds=3.0)
        with (
            ClusterAdmin(ConnectionSettings("b", address, "test")) as admin,
            ClusterAdmin(impatient) as impatient_admin,
        ):
            survive_a_kill(cluster, admin, impatient_admin)
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("sparkmirror.connectors")]
    assert len(lines) == 2
    assert "no heartbeat" in lines[0]
    assert "again" in lines[1]


def survive_a_kill(
    cluster: LocalCluster, admin: ClusterAdmin, impatient_admin: ClusterAdmin
) -> None:
    """Heartbeats before, during and after."""
    topic = unique_name("heartbeats")
    create_with_admin(admin, NewTopic(topic, 1, 1, {"cleanup.policy": "compact"}))
    connection = ConnectionSettings("b", (cluster.bootstrap_servers,), "test")
    connector = MirrorHeartbeatConnector(
        Flow("a", "b"), connection, topic=topic, interval_seconds=0.2
    )
    thread = run_in_thread(connector)
    try:
        eventually(lambda: connector.status.count >= 1, PATIENCE_SECONDS, "heartbeats are out")
        cluster.brokers[0].kill()
        with pytest.raises(UnreachableError):
            impatient_admin.cluster()
        eventually(
            lambda: connector.status.state is HeartbeatState.RETRYING,
            PATIENCE_SECONDS,
            "the broker is missed",
        )
        before = connector.status.count
        cluster.brokers[0].start()
        assert len(admin.cluster().brokers) == 1
        eventually(
            lambda: (
                connector.status.state is HeartbeatState.RUNNING and connector.status.count > before
            ),
            PATIENCE_SECONDS,
            "heartbeats are back",
        )
    finally:
        connector.stop()
        thread.join(PATIENCE_SECONDS)
