# SPDX-License-Identifier: Apache-2.0
"""A worker of Java's Connect and one of ours in the same group: they agree on who does what."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.connect.assignor import Configured
from sparkmirror.connect.membership import Membership
from sparkmirror.formats.connect_protocol import Assignment, TaskId, Version
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.local.cluster import LocalCluster
from sparkmirror.state.connect_configs import ConfigLog
from support.java_connect import ConnectTopics, JavaConnect, heartbeat_config
from support.waiting import eventually

PATIENCE_SECONDS = 60.0
NAMES = ("beat-0", "beat-1", "beat-2", "beat-3")
ALL = {*NAMES, *(TaskId(name, 0) for name in NAMES)}
OUR_URL = "http://127.0.0.1:1/"  # nobody listens: what goes through Kafka needs no API


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[LocalCluster]:
    """One broker, which is all that heartbeats need."""
    directory = tmp_path_factory.mktemp("group")
    with LocalCluster("connect", directory, version=kafka_version) as started:
        yield started


class TopicConfigs:
    """The config topic that both read."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self._log = ConfigLog(client, topic)
        self._lock = threading.Lock()

    def known(self) -> Configured:
        """What was read so far."""
        state = self._log.state
        return Configured(state.offset, {name: len(state.tasks(name)) for name in state.connectors})

    def fresh(self) -> Configured:
        """What there is."""
        with self._lock:
            self._log.refresh()
            return self.known()


def java_work(java: JavaConnect) -> set[str | TaskId]:
    """What Java's worker says it runs."""
    found: set[str | TaskId] = set()
    for name, answer in java.get("/connectors?expand=status").items():
        status = answer["status"]
        if (status["connector"]["worker_id"], status["connector"]["state"]) == (
            java.worker_id,
            "RUNNING",
        ):
            found.add(name)
        found |= {
            TaskId(name, task["id"])
            for task in status["tasks"]
            if (task["worker_id"], task["state"]) == (java.worker_id, "RUNNING")
        }
    return found


def test_java_leads_and_we_follow_then_the_reverse(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each takes what the other one gives; what one gives up, the other one runs."""
    topics = ConnectTopics("mixed")
    servers = (cluster.bootstrap_servers,)
    connection = ConnectionSettings("connect", servers, "mixed")
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    assigned: list[Assignment] = []
    settings = GroupSettings(
        topics.group,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        rebalance_delay_ms=0,
    )
    with closing(ClusterClient(connection)) as client:
        with JavaConnect(cluster, folders[0], topics) as java:
            for name in NAMES:
                java.create(name, heartbeat_config(cluster))
                java.await_states(name, "RUNNING", "RUNNING")
            assert java_work(java) == ALL
            configs = TopicConfigs(client, topics.configs)
            configs.fresh()
            member = Membership(
                connection,
                settings,
                OUR_URL,
                configs,
                on_assigned=assigned.append,
                on_revoked=lambda _connectors, _tasks: None,
            )
            member.start()

            def ours() -> set[str | TaskId]:
                return {*member.assignment.connectors, *member.assignment.tasks}

            def shared() -> bool:
                assert member.is_settled
                assert len(ours()) == len(ALL) / 2, ours()
                assert ours().isdisjoint(java_work(java))
                assert member.config_offset == configs.known().offset
                return True

            eventually(shared, PATIENCE_SECONDS, "Java's leader gives us half")
            assert (member.is_leader, member.leader_url) == (False, f"http://{java.worker_id}/")
            assert member.version is Version.SESSIONED
            java.stop()
        eventually(
            lambda: member.is_leader and ours() == ALL, PATIENCE_SECONDS, "we lead and have all"
        )
        with JavaConnect(cluster, folders[1], topics) as java:

            def given() -> bool:
                found = java_work(java)
                assert member.is_leader
                assert found == ALL - ours()
                assert len(found) == len(ALL) / 2
                return True

            eventually(given, PATIENCE_SECONDS, "Java runs what our leader gives it")
            for piece in ALL - ours():
                name, task = piece if isinstance(piece, TaskId) else (piece, None)
                assert member.owner_url(name, task) == f"http://{java.worker_id}/"
            assert member.stop(30)
            eventually(lambda: java_work(java) == ALL, PATIENCE_SECONDS, "Java has all again")
    assert assigned[-1].leader_url == OUR_URL
