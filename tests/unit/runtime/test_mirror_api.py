# SPDX-License-Identifier: Apache-2.0
"""What a mirror that runs a file answers, for pairs that run here, elsewhere, or rest.

Pairs are put together by hand; orders are noted instead of written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from sparkmirror.config.config_changes import parse_run
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connect.api import ApiError, ConnectApi
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState, source_state
from sparkmirror.connectors.desired_state import DesiredState, InstanceView
from sparkmirror.errors import UnreachableError
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import Flow, TopicPartition
from sparkmirror.runtime.commands import FlowCommands, TargetStates
from sparkmirror.runtime.mirror_api import MirrorApi
from sparkmirror.runtime.mirror_reconciler import MirrorFlow
from sparkmirror.runtime.ownership import FlowOwnership, OwnershipStatus
from sparkmirror.spark.flow_status import FlowState, FlowStatus

FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
a->b.topics = t
b->a.emit.heartbeats.enabled = true
a->b.emit.heartbeats.enabled = false
"""
SOURCE, CHECKPOINT = "a->b.MirrorSourceConnector", "a->b.MirrorCheckpointConnector"
BEATS = "b->a.MirrorHeartbeatConnector"


@dataclass
class FakeCommands:
    """Notes them, or fails."""

    target_states: TargetStates | None = None
    problem: str = ""
    noted: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def set_target_state(self, kind: ConnectorClass, state: TargetState, _seconds: float) -> None:
        """Note it."""
        self._note(f"{kind.name} {state}")

    def request_restart(self, kind: ConnectorClass, _seconds: float, *, only_failed: bool) -> None:
        """Note it."""
        self._note(f"{kind.name} restart {only_failed}")

    def _note(self, order: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.noted.append(order)


@dataclass
class FakeOwnership:
    """Stands by, or runs the pair."""

    is_owner: bool = False

    def status(self) -> OwnershipStatus:
        """Always the same."""
        return OwnershipStatus(FlowState.STANDBY, "stands by: http://other/ runs it")


class Bench:
    """A mirror of two pairs; a->b runs here."""

    def __init__(self, *lines: str) -> None:
        self.reading = parse_run(MirrorConfig.parse("\n".join((FILE, *lines))))
        self.pairs = {flow: self._pair(flow) for flow in self.reading.flows}
        self.pair = self.pairs[Flow("a", "b")]
        self.pair.ownership = cast("FlowOwnership", FakeOwnership(is_owner=True))
        self.orders.target_states = {}
        self.status = FlowStatus("a->b")
        tp = TopicPartition("t", 0)
        self.status.begin_epoch(1, [(tp, 0, None)], {tp: 0})
        self.status.set_state(FlowState.RUNNING)
        self.desired = dict.fromkeys((SOURCE, CHECKPOINT), DesiredState.RUNNING)
        self.is_active = {SOURCE: True, CHECKPOINT: True}
        self.api: ConnectApi = MirrorApi(
            "mm2.properties",
            lambda: [*self.pairs.values()],
            self.instances,
            lambda: self.reading,
            "host:8083",
        )

    def instances(self) -> dict[str, InstanceView]:
        """As the supervisor shows them."""
        now = self.status.snapshot()
        idle = ConnectorState(ReportedState(RunState.STOPPED))
        states = {
            SOURCE: source_state(now, self.status.tasks()),
            CHECKPOINT: ConnectorState(ReportedState(RunState.RUNNING)),
        }
        kinds = {SOURCE: ConnectorClass.SOURCE, CHECKPOINT: ConnectorClass.CHECKPOINT}
        return {
            name: InstanceView(
                name,
                kind,
                self.desired[name],
                states[name] if self.is_active[name] else idle,
                now,
                is_active=self.is_active[name],
            )
            for name, kind in kinds.items()
        }

    def _pair(self, flow: Flow) -> MirrorFlow:
        return MirrorFlow(
            self.reading.flows[flow].settings,
            self.reading.groups[flow],
            cast("FlowOwnership", FakeOwnership()),
            cast("FlowCommands", FakeCommands()),
        )

    @property
    def orders(self) -> FakeCommands:
        """For a->b."""
        return cast("FakeCommands", self.pair.commands)


@pytest.fixture
def bench() -> Bench:
    """A mirror."""
    return Bench()


def test_the_connectors_are_those_of_the_file(bench: Bench) -> None:
    """Named after their pair."""
    assert sorted(bench.api.connectors()) == [CHECKPOINT, SOURCE, BEATS]


def test_a_connector_is_shown_as_mm2_would_write_it_down(bench: Bench) -> None:
    """With the name that it has here."""
    found = bench.api.info(SOURCE)
    assert found.config["name"] == SOURCE
    assert found.config["topics"] == "t"
    assert found.config["source.cluster.bootstrap.servers"] == "127.0.0.1:1"
    assert found.config["connector.class"] == ConnectorClass.SOURCE.java_name
    assert found.tasks == (0,)
    [task] = bench.api.task_configs(SOURCE)
    assert task["task.assigned.partitions"] == "t-0"


def test_one_that_runs_here_names_this_process(bench: Bench) -> None:
    """And the topics on the other side."""
    found = bench.api.status(SOURCE)
    assert (found.connector.state, found.connector.worker_id) == (RunState.RUNNING, "host:8083")
    assert bench.api.task_status(SOURCE, 0).state is RunState.RUNNING
    assert bench.api.topics(SOURCE) == ["a.t"]
    assert bench.api.topics("nobody") == []


def test_one_that_runs_elsewhere_is_unassigned_and_shows_where(bench: Bench) -> None:
    """It has no tasks here."""
    found = bench.api.status(BEATS)
    assert (found.connector.state, found.tasks) == (RunState.UNASSIGNED, {})
    assert found.connector.warning == "stands by: http://other/ runs it"


def test_a_connector_rests_when_it_copies_no_more(bench: Bench) -> None:
    """The others of its pair are not asked."""
    bench.orders.target_states = {ConnectorClass.SOURCE: TargetState.STOPPED}
    bench.desired[SOURCE] = DesiredState.STOPPED
    assert bench.api.status(SOURCE).connector.state is RunState.RUNNING
    bench.is_active[SOURCE] = False
    assert bench.api.status(SOURCE).connector.state is RunState.STOPPED
    assert bench.api.status(CHECKPOINT).connector.state is RunState.RUNNING


def test_orders_go_where_all_processes_read_them(bench: Bench) -> None:
    """A task is restarted with its connector."""
    bench.api.pause(SOURCE)
    bench.api.stop(CHECKPOINT)
    bench.api.resume(SOURCE)
    assert bench.api.restart(SOURCE, include_tasks=False, only_failed=False) is None
    found = bench.api.restart(SOURCE, include_tasks=True, only_failed=True)
    bench.api.restart_task(SOURCE, 0)
    assert found is not None
    assert found.connector.state is RunState.RUNNING
    assert bench.orders.noted == [
        "SOURCE PAUSED",
        "CHECKPOINT STOPPED",
        "SOURCE STARTED",
        "SOURCE restart False",
        "SOURCE restart True",
        "SOURCE restart False",
    ]


def test_an_order_that_cannot_be_written_is_an_error(bench: Bench) -> None:
    """With what the cluster said."""
    bench.orders.failure = UnreachableError("b is silent.", cluster="b")
    with pytest.raises(ApiError, match="b is silent") as refused:
        bench.api.pause(SOURCE)
    assert refused.value.status == 500


def test_what_the_file_decides_is_refused_with_its_name(bench: Bench) -> None:
    """And how to do it."""
    for call in (
        lambda: bench.api.create("x", {}, None),
        lambda: bench.api.put_config(SOURCE, {}),
        lambda: bench.api.patch_config(SOURCE, {}),
        lambda: bench.api.delete(SOURCE),
    ):
        with pytest.raises(ApiError, match=r"file mm2\.properties. Change the file") as refused:
            call()
        assert refused.value.status == 403


def test_altering_offsets_is_refused_with_the_command_that_resets_them(bench: Bench) -> None:
    for call in (
        lambda: bench.api.alter_offsets(SOURCE, []),
        lambda: bench.api.reset_offsets(SOURCE),
    ):
        with pytest.raises(
            ApiError, match=r"offsets reset mm2\.properties --flow 'a->b'"
        ) as refused:
            call()
        assert refused.value.status == 403


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ((), "config.providers=env there"),
        (("config.providers.env.param.allowlist.pattern=GOOD_.*",), "does not allow OTHER_ONE"),
        (("config.providers=env",), ""),
    ],
    ids=["none", "another", "any"],
)
def test_the_files_own_providers_count_in_a_validation(
    monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], error: str
) -> None:
    """Whoever asks has only those looked up that it declares."""
    monkeypatch.setenv("OTHER_ONE", "east")
    kind = "MirrorHeartbeatConnector"
    config = {
        "name": "n",
        "connector.class": kind,
        "source.cluster.alias": "${env:OTHER_ONE}",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": "127.0.0.1:1",
    }
    found = Bench(*lines).api.validate(kind, config)
    assert [error in one for one in found.errors] == ([True] if error else [])


def test_an_unknown_connector_is_not_found(bench: Bench) -> None:
    """Whatever is asked of it."""
    for call in (bench.api.info, bench.api.status, bench.api.pause, bench.api.delete):
        with pytest.raises(ApiError) as refused:
            call("nobody")
        assert refused.value.status == 404


def test_health_is_that_of_the_process_and_readiness_that_of_its_flows(bench: Bench) -> None:
    """A flow that runs elsewhere is ready; a restart would not help a failed one."""
    bench.status.set_state(FlowState.STARTING)
    assert bench.api.health()[0] == 503
    assert bench.api.readiness()[0] == 503
    bench.status.set_state(FlowState.RUNNING)
    assert bench.api.health()[0] == 200
    assert bench.api.readiness()[0] == 200
    bench.status.set_state(FlowState.STARTING)
    assert bench.api.health()[0] == 200
    assert bench.api.readiness()[0] == 503
    bench.status.set_state(FlowState.FAILED, "broken")
    assert bench.api.health()[0] == 200
    assert bench.api.readiness() == (
        503,
        {"status": "not ready", "message": "a->b: FAILED broken"},
    )
