# SPDX-License-Identifier: Apache-2.0
"""The phases of an instance: what is stopped before it runs never writes anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from typing import cast

import pytest

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors import connector_instance as instance_module
from sparkmirror.connectors.connector_instance import ConnectorInstance, SparkProvider
from sparkmirror.connectors.desired_state import ConnectorSpec
from sparkmirror.connectors.heartbeat_connector import HeartbeatState, HeartbeatStatus
from sparkmirror.errors import ConfigError, UnreachableError
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import Flow
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from support.waiting import PATIENCE_SECONDS, eventually

SETTINGS = MirrorConfig.parse(
    "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\n"
).flow_settings(Flow("a", "b"))


class FakeSetup:
    """Lets the internal topics be ready when the test says so."""

    def __init__(self) -> None:
        self.is_entered = threading.Event()
        self.may_go_on = threading.Event()
        self.failure: Exception | None = None
        self.usable_topics = {"heartbeats"}

    def ensure(self, _settings: object, _topics: object, failed: Callable[..., None]) -> bool:
        self.is_entered.set()
        self.may_go_on.wait(PATIENCE_SECONDS)
        if isinstance(self.failure, UnreachableError):
            failed(self.failure)
        elif self.failure is not None:
            raise self.failure
        return True  # as if the stop came right after it was asked for


class FakeHeartbeat:
    """Runs until it is stopped, and has a helper that ends when the test says so."""

    def __init__(self) -> None:
        self.ready: Container[str] | None = None
        self.is_running = False
        self.stopping = threading.Event()
        self.status = HeartbeatStatus(HeartbeatState.RETRYING, error="nobody answers")

    def run(self, ready_topics: Container[str]) -> None:
        self.ready = ready_topics
        self.stopping.wait(PATIENCE_SECONDS)

    def stop(self) -> None:
        self.stopping.set()


class Bench:
    """An instance in its setup."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.setup = FakeSetup()
        self.connector = FakeHeartbeat()
        self.status = FlowStatus("a->b")
        monkeypatch.setattr(instance_module, "InternalTopicSetup", lambda *_: self.setup)
        monkeypatch.setattr(instance_module, "_build_heartbeat", lambda *_: self.connector)
        spec = ConnectorSpec(ConnectorClass.HEARTBEAT, "a->b", 1, SETTINGS)
        self.instance = ConnectorInstance(
            spec, self.status, ReplicationFactorChooser(), cast("SparkProvider", None)
        )
        self.instance.start()
        assert self.setup.is_entered.wait(PATIENCE_SECONDS)

    def run(self) -> None:
        self.setup.may_go_on.set()
        eventually(lambda: self.connector.ready, PATIENCE_SECONDS, "the connector runs")

    def await_end(self) -> None:
        eventually(lambda: self.instance.is_finished, PATIENCE_SECONDS, "it has finished")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_an_instance_that_is_stopped_during_setup_never_runs(bench: Bench) -> None:
    assert bench.instance.may_write
    bench.instance.stop()
    assert not bench.instance.may_write
    assert not bench.instance.is_finished
    bench.setup.may_go_on.set()
    bench.await_end()
    assert bench.connector.ready is None


def test_an_instance_that_runs_may_write_until_its_connector_has_returned(bench: Bench) -> None:
    bench.run()
    assert bench.connector.ready == {"heartbeats"}
    assert bench.instance.may_write
    bench.connector.is_running = True
    bench.instance.stop()
    eventually(lambda: not bench.instance.may_write, PATIENCE_SECONDS, "it writes nothing")
    assert not bench.instance.is_finished
    bench.connector.is_running = False
    bench.await_end()


def test_an_instance_that_ends_by_itself_is_not_finished_before_it_is_stopped(
    bench: Bench,
) -> None:
    bench.run()
    bench.connector.stop()
    eventually(lambda: not bench.instance.may_write, PATIENCE_SECONDS, "it has ended")
    assert not bench.instance.is_finished
    bench.instance.stop()
    bench.await_end()


def test_heartbeat_errors_show_in_the_state(bench: Bench) -> None:
    bench.run()
    assert bench.instance.heartbeat_error == "nobody answers"
    assert bench.instance.state().connector.state is RunState.RUNNING
    assert bench.instance.state().tasks[0].warning == "nobody answers"
    assert not bench.instance.replan()
    bench.connector.status = HeartbeatStatus(HeartbeatState.RUNNING, count=1)
    assert bench.instance.heartbeat_error == ""
    bench.instance.stop()
    bench.await_end()


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(ConfigError("no such class"), "no such class"), (ValueError("odd"), "ValueError: odd")],
)
def test_a_failed_setup_shows_in_the_status(
    bench: Bench, failure: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.setup.failure = failure
    bench.setup.may_go_on.set()
    eventually(lambda: not bench.instance.may_write, PATIENCE_SECONDS, "it has ended")
    now = bench.status.snapshot()
    assert (now.state, now.reason) == (FlowState.FAILED, reason)
    assert "Traceback" in now.trace
    assert ("failed" in caplog.text) == isinstance(failure, ValueError)


def test_a_cluster_out_of_reach_is_retried(bench: Bench) -> None:
    bench.setup.failure = UnreachableError("no broker", cluster="b")
    bench.instance.stop()
    bench.setup.may_go_on.set()
    bench.await_end()
    assert bench.status.snapshot().state is FlowState.RETRYING
