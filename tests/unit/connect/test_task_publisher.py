# SPDX-License-Identifier: Apache-2.0
"""Task configs are published by the leader, or through it, when they differ from the topic's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.config.connector_config import read_connector
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors, task_publisher
from sparkmirror.connect.config_cache import ParsedConfig
from sparkmirror.connect.forwarding import ForwardedRequest, ForwardedResponse
from sparkmirror.connect.task_publisher import TaskPublisher, task_configs
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import ConnectorSpec, DesiredState, InstanceView
from sparkmirror.errors import UnreachableError
from sparkmirror.formats.connect_config_records import SessionKey, TargetState
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.connect_configs import ClusterConfigState

NAME = "beat"
WORKER = WorkerConfig.parse(
    "bootstrap.servers=127.0.0.1:1\n"
    "group.id=g\n"
    "config.storage.topic=c\n"
    "offset.storage.topic=o\n"
    "status.storage.topic=s\n"
)
CONFIG = {
    "name": NAME,
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "127.0.0.1:1",
}
TASK = {**CONFIG, "task.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"}


class Bench:
    """A group with a config topic in memory; this worker leads or does not."""

    def __init__(self) -> None:
        self.configs = ClusterConfigState(configs={NAME: CONFIG})
        self.configs.session_key = SessionKey(b"k" * 32, "HmacSHA256", 0)
        self.is_ready = True
        self.leader_url = "http://leader:1/"
        self.error: Exception | None = None
        self.written: list[Sequence[Config]] = []
        parts: Any = self
        self.publisher = TaskPublisher(WORKER.settings, parts, parts, parts)
        connector = read_connector(CONFIG, WORKER)
        spec = ConnectorSpec(connector.kind, "a->b|beat", connector, connector.settings)
        self.parsed = ParsedConfig(CONFIG, connector, spec)
        self.view = InstanceView(
            name=NAME,
            kind=connector.kind,
            desired=DesiredState.RUNNING,
            state=ConnectorState(
                ReportedState(RunState.RUNNING), {0: ReportedState(RunState.RUNNING)}
            ),
            snapshot=FlowStatus("a->b|beat").snapshot(),
        )

    @property
    def state(self) -> ClusterConfigState:
        """As ConfigLog."""
        return self.configs

    @contextmanager
    def writing(self) -> Iterator[Bench]:
        """As GroupLeader."""
        if self.error is not None:
            raise api_errors.config_write_failed() from self.error
        yield self

    def put_tasks(self, name: str, configs: Sequence[Config]) -> None:
        """As ConfigLog."""
        assert name == NAME
        self.written.append(configs)

    def publish(self) -> bool:
        """Once."""
        return self.publisher.publish(self.parsed, self.view)


@pytest.fixture
def bench() -> Bench:
    """A connector that runs, with nothing published."""
    return Bench()


def test_the_leader_writes_tasks_that_differ(bench: Bench) -> None:
    """Those that the topic has already are left alone."""
    assert bench.publish()
    assert bench.written == [[TASK]]
    bench.configs.task_counts[NAME] = 1
    bench.configs._tasks[NAME] = {0: TASK}
    assert bench.publish()
    bench.configs.inconsistent.add(NAME)
    assert bench.publish()
    assert bench.written == [[TASK], [TASK]]


def test_only_tasks_of_a_started_connector_that_runs_are_published(bench: Bench) -> None:
    """Others may change at any moment, and a stopped connector has none."""
    bench.configs.target_states[NAME] = TargetState.STOPPED
    assert bench.publish()
    bench.configs.target_states.clear()
    running = bench.view
    state = ConnectorState(ReportedState(RunState.RESTARTING), running.state.tasks)
    bench.view = replace(running, state=state)
    assert bench.publish()
    bench.view, parsed = running, bench.parsed
    bench.parsed = replace(parsed, spec=None)
    assert bench.publish()
    assert bench.written == []


def test_another_worker_sends_its_tasks_to_the_leader_signed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is a problem of the connector until it works."""
    sent: list[ForwardedRequest] = []
    status = 500

    def forward(request: ForwardedRequest, url: str, *_: object) -> ForwardedResponse:
        assert url == bench.leader_url
        sent.append(request)
        return ForwardedResponse(status, {}, b"not now")

    monkeypatch.setattr(task_publisher, "forward", forward)
    bench.is_ready = False
    assert not bench.publish()
    assert "answered 500: not now" in bench.publisher.problem(NAME)
    assert bench.publish()  # not due again yet
    assert len(sent) == 1
    assert (sent[0].method, sent[0].path) == ("POST", "/connectors/beat/tasks")
    assert sent[0].headers["X-Connect-Authorization"]
    status = 204
    bench.publisher._failed.clear()
    assert bench.publish()
    assert (bench.publisher.problem(NAME), bench.written) == ("", [])


def test_the_problem_of_a_leader_is_the_cause(bench: Bench) -> None:
    """Not Connect's sentence about it, which says nothing."""
    bench.error = UnreachableError("no broker answers", cluster="b")
    assert not bench.publish()
    assert "no broker answers" in bench.publisher.problem(NAME)


def test_task_configs_are_what_mm2_starts_its_tasks_with() -> None:
    """So that Java's worker can take the connector over."""
    config = {"connector.class": "MirrorSource", "name": "c"}
    parts = (TopicPartition("a-b", 0), TopicPartition("t", 3))
    tasks = {0: ReportedState(RunState.RUNNING, partitions=parts)}
    assert task_configs(ConnectorClass.SOURCE, config, tasks) == [
        {
            **config,
            "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
            "task.index": "0",
            "task.assigned.partitions": "a-b-0,t-3",
        }
    ]
    one = {0: ReportedState(RunState.RUNNING)}
    (checkpoint,) = task_configs(ConnectorClass.CHECKPOINT, config, one, ("g", "h"))
    assert checkpoint["task.assigned.groups"] == "g,h"
    (heartbeat,) = task_configs(ConnectorClass.HEARTBEAT, config, one)
    task_class = "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"
    assert heartbeat == {**config, "task.class": task_class}
