# SPDX-License-Identifier: Apache-2.0
"""A real worker of Java's Connect on topics that we wrote, and we on what it writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.connect_config_records import (
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
)
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    TaskStatus,
    TopicSeen,
    TopicStatus,
)
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.state.connect_configs import (
    ConfigEvent,
    ConfigLog,
    ConnectorChanged,
    ConnectorRemoved,
    TargetChanged,
    TasksChanged,
)
from sparkmirror.state.connect_statuses import StatusLog
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import create_topics
from support.mirrors.java_connect import ConnectTopics, JavaConnect, heartbeat_config
from support.waiting import PATIENCE_SECONDS, eventually

COMPACT = {"cleanup.policy": "compact"}
ELSEWHERE = "elsewhere:8083"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[LocalCluster]:
    """One broker, which is all that heartbeats need."""
    directory = tmp_path_factory.mktemp("connect")
    with LocalCluster("connect", directory, version=kafka_version) as started:
        yield started


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[ClusterClient]:
    """Ours."""
    servers = (cluster.bootstrap_servers,)
    opened = ClusterClient(ConnectionSettings("connect", servers, "connect-interop"))
    yield opened
    opened.close()


def test_java_understands_what_we_wrote(
    cluster: LocalCluster, client: ClusterClient, tmp_path: Path
) -> None:
    """Its API shows our connectors, tasks, states, statuses and topics, and it runs them."""
    topics = ConnectTopics("written-by-us")
    create_topics(cluster, {topics.configs: 1, topics.statuses: 5, topics.offsets: 25}, COMPACT)
    configs, statuses = ConfigLog(client, topics.configs), StatusLog(client, topics.statuses)
    config = heartbeat_config(cluster) | {"note": '"ü" \N{GRINNING FACE} \\ \x1f'}
    task = {"task.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"}
    wanted = {
        "our-runner": (TargetState.STARTED, 1),
        "our-sleeper": (TargetState.PAUSED, 1),
        "our-stopped-one": (TargetState.STOPPED, 0),
    }
    for name, (state, tasks) in wanted.items():
        configs.put_connector(name, config | {"name": name}, state)
        configs.put_tasks(name, [config | task | {"name": name}] * tasks)
    configs.put_connector("our-deleted-one", config | {"name": "our-deleted-one"})
    configs.remove_connector("our-deleted-one")
    failed = Status(RunState.FAILED, ELSEWHERE, 99, 'Because:\n\tof "ü"', "0.1")
    # Of a connector that is in no config: a leader takes it away, if it understands it.
    statuses.put(ConnectorStatus("nobody's", failed), TaskStatus("nobody's", 11, failed))

    with JavaConnect(cluster, tmp_path, topics) as java:
        java.await_states("our-runner", "RUNNING", "RUNNING")
        java.await_states("our-sleeper", "PAUSED", "PAUSED")
        java.await_states("our-stopped-one", "STOPPED")
        assert sorted(java.get("/connectors")) == sorted(wanted)
        for name in wanted:
            assert java.get(f"/connectors/{name}/config") == config | {"name": name}
        told = java.get("/connectors/our-sleeper/tasks")
        assert [one["config"] for one in told] == [config | task | {"name": "our-sleeper"}]

        def is_taken_away() -> bool:
            statuses.refresh()
            known = statuses.state
            return known.connectors.keys() == wanted.keys() and not known.tasks("nobody's")

        eventually(is_taken_away, PATIENCE_SECONDS, "Java takes away what has no config")
        statuses.put(
            ConnectorStatus("our-stopped-one", failed),
            TaskStatus("our-stopped-one", 11, Status(RunState.PAUSED, ELSEWHERE, 99)),
            TopicStatus("our-stopped-one", "a.topic", TopicSeen(11, 1_700_000_000_000)),
        )
        java.await_states("our-stopped-one", "FAILED", "PAUSED")
        told = java.get("/connectors/our-stopped-one/status")
        assert told["connector"] == {
            "state": "FAILED", "worker_id": ELSEWHERE, "trace": failed.trace, "version": "0.1",
        }  # fmt: skip
        assert [(one["id"], one["worker_id"]) for one in told["tasks"]] == [(11, ELSEWHERE)]
        told = java.get("/connectors/our-stopped-one/topics")
        assert told == {"our-stopped-one": {"topics": ["a.topic"]}}

        # And while it runs: it does what we tell it through the topic.
        configs.put_target_state("our-sleeper", TargetState.STARTED)
        java.await_states("our-sleeper", "RUNNING", "RUNNING")
        configs.remove_connector("our-runner")
        eventually(
            lambda: sorted(java.get("/connectors")) == ["our-sleeper", "our-stopped-one"],
            PATIENCE_SECONDS,
            "the runner is gone",
        )


def test_we_understand_what_java_writes(
    cluster: LocalCluster, client: ClusterClient, tmp_path: Path
) -> None:
    """Whatever is done over its API reaches us, and is reported once."""
    topics = ConnectTopics("written-by-java")
    config = heartbeat_config(cluster)
    with JavaConnect(cluster, tmp_path, topics) as java:
        configs, statuses = ConfigLog(client, topics.configs), StatusLog(client, topics.statuses)
        configs.refresh()
        events: list[ConfigEvent] = []

        def are_told(*wanted: ConfigEvent) -> None:
            def all_of_them() -> bool:
                events.extend(configs.refresh())
                assert [one for one in events if not isinstance(one, SessionKey)] == list(wanted)
                return True

            eventually(all_of_them, PATIENCE_SECONDS, "Java's doings are told")
            events.clear()

        java.create("beat", config)
        java.await_states("beat", "RUNNING", "RUNNING")
        are_told(ConnectorChanged("beat"), TasksChanged("beat", (0,)))
        assert configs.state.configs == {"beat": config | {"name": "beat"}}
        assert configs.state.tasks("beat") == [
            one["config"] for one in java.get("/connectors/beat/tasks")
        ]
        statuses.refresh()
        assert statuses.state.connectors["beat"].state is RunState.RUNNING
        assert statuses.state.tasks("beat")[0].worker_id == java.worker_id

        java.request_ok("PUT", "/connectors/beat/pause")
        are_told(TargetChanged("beat"))
        assert configs.state.target_state("beat") is TargetState.PAUSED
        java.request_ok("PUT", "/connectors/beat/stop")
        are_told(TasksChanged("beat", ()), TargetChanged("beat"))
        assert configs.state.target_state("beat") is TargetState.STOPPED
        java.request_ok("PUT", "/connectors/beat/resume")
        java.await_states("beat", "RUNNING", "RUNNING")
        are_told(TargetChanged("beat"), TasksChanged("beat", (0,)))
        java.request_ok("POST", "/connectors/beat/restart?includeTasks=true&onlyFailed=true")
        are_told(RestartRequest("beat", include_tasks=True, only_failed=True))
        java.request_ok("PUT", "/admin/loggers/org.apache.x?scope=cluster", {"level": "ERROR"})
        are_told(LoggerLevel("org.apache.x", "ERROR"))
        java.request_ok("DELETE", "/connectors/beat")
        are_told(ConnectorRemoved("beat"))

        key = configs.state.session_key
        assert key is not None
        assert key.algorithm == "HmacSHA256"
        assert 0 <= time.time() - key.created_ms / 1000 < 3600

        def is_forgotten() -> bool:
            statuses.refresh()
            known = statuses.state
            return (known.connectors, known.tasks("beat"), known.topics("beat")) == ({}, {}, {})

        eventually(is_forgotten, PATIENCE_SECONDS, "nothing is known of it any more")
        assert (configs.state.skipped_records, statuses.state.skipped_records) == (0, 0)
