# SPDX-License-Identifier: Apache-2.0
"""The supervisor's state machine with instances that end when a test says so.

Letters A to D name the invariants of `runtime/supervisor.py`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.connector_instance import ConnectorInstance
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import (
    ConnectorSpec,
    DesiredConnector,
    DesiredConnectors,
    DesiredState,
    InstanceView,
    Restart,
)
from sparkmirror.errors import ConfigError, SetupError, UnreachableError
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import Flow
from sparkmirror.runtime import connector_slot
from sparkmirror.runtime import supervisor as supervisor_module
from sparkmirror.runtime.supervisor import InstanceBuilder, Supervisor
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.spark.shared_context import SharedSparkContext
from support.waiting import PATIENCE_SECONDS, eventually

NAME = "one"
SETTINGS = MirrorConfig.parse(
    "clusters = a, b\n"
    "a.bootstrap.servers = 127.0.0.1:1\n"
    "b.bootstrap.servers = 127.0.0.1:1\n"
    "a->b.enabled = true\n"
    "tasks.max = 3\n"
).flow_settings(Flow("a", "b"))
RUNNING, PAUSED, STOPPED, STANDBY = (
    DesiredState.RUNNING,
    DesiredState.PAUSED,
    DesiredState.STOPPED,
    DesiredState.STANDBY,
)


@dataclass
class FakeInstance:
    """Ends when the test says so."""

    spec: ConnectorSpec
    status: FlowStatus
    calls: list[str] = field(default_factory=list)
    is_finished: bool = False
    may_write: bool = True
    shown: RunState = RunState.RUNNING
    task: RunState | None = None  # if it differs
    can_replan: bool = True
    groups: tuple[str, ...] = ()
    group_positions: Mapping[str, int] = field(default_factory=dict)
    heartbeat_error: str = ""

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def replan(self) -> bool:
        self.calls.append("replan")
        return self.can_replan

    def end(self) -> None:
        self.may_write = False
        self.is_finished = True

    def state(self) -> ConnectorState:
        if self.shown is RunState.UNASSIGNED:
            return ConnectorState(ReportedState(self.shown))
        task = ReportedState(self.task or self.shown)
        return ConnectorState(ReportedState(self.shown), {0: task, 1: ReportedState(self.shown)})

    @property
    def is_alive(self) -> bool:
        return "start" in self.calls and not self.is_finished


class Bench:
    """A supervisor that is stepped by hand; it is its own source, Spark and builder."""

    def __init__(self) -> None:
        self.targets: dict[str, DesiredConnector] = {}
        self.restarts: list[Restart] = []
        self.expects_copying = False
        self.made: list[FakeInstance] = []
        self.shown = RunState.RUNNING
        self.build_error: Exception | None = None
        self.announced: list[str] = []
        self.announce_error: Exception | None = None
        self.allocations: list[dict[str, int]] = []
        self.spark_starts: list[dict[str, int]] = []
        self.spark_error: Exception | None = None
        self.shrunk: list[str] = []
        self.on_poll = lambda: None
        self.on_build = lambda: None
        spark = cast("SharedSparkContext[str]", self)
        self.changes = 0
        self.supervisor = Supervisor(
            self, self.build, spark, start_spark=self.start_spark, on_change=self.count_change
        )

    def count_change(self) -> None:
        self.changes += 1

    def poll(self) -> DesiredConnectors:
        restarts, self.restarts = tuple(self.restarts), []
        wanted = DesiredConnectors({**self.targets}, restarts, self.expects_copying)
        self.on_poll()
        return wanted

    def announce(self, names: Collection[str]) -> None:
        if self.announce_error is not None:
            raise self.announce_error
        self.announced += names

    def build(self, spec: ConnectorSpec, status: FlowStatus) -> ConnectorInstance:
        if self.build_error is not None:
            raise self.build_error
        self.made.append(FakeInstance(spec, status, shown=self.shown))
        self.on_build()
        return cast("ConnectorInstance", self.made[-1])

    def start_spark(self, wanted: Mapping[str, int]) -> None:
        if self.spark_error is not None:
            raise self.spark_error
        self.spark_starts.append(dict(wanted))

    def reallocate_slots(self, wanted: Mapping[str, int]) -> Collection[str]:
        self.allocations.append(dict(wanted))
        return self.shrunk

    def want(
        self,
        desired: DesiredState,
        identity: object = 1,
        *,
        name: str = NAME,
        kind: ConnectorClass = ConnectorClass.SOURCE,
    ) -> None:
        spec = ConnectorSpec(kind, f"a->b|{name}", identity, SETTINGS)
        self.targets[name] = DesiredConnector(desired, spec)
        self.supervisor.step()

    def forget(self, name: str = NAME) -> None:
        del self.targets[name]
        self.supervisor.step()

    def restart(self, *, only_failed: bool = False, tasks_only: bool = False) -> None:
        self.restarts.append(Restart(NAME, only_failed=only_failed, tasks_only=tasks_only))
        self.supervisor.step()

    def end(self, index: int = -1) -> None:
        self.made[index].end()
        self.supervisor.step()

    @property
    def view(self) -> InstanceView:
        return self.supervisor.instances()[NAME]

    @property
    def state(self) -> RunState:
        found = self.view.state
        assert {one.state for one in found.tasks.values()} <= {found.connector.state}
        return found.connector.state

    @property
    def calls(self) -> list[list[str]]:
        return [one.calls for one in self.made]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.want(RUNNING)
    assert made.calls == [["start"]]
    return made


def test_a_running_target_is_announced_then_started_once() -> None:
    bench = Bench()
    bench.on_build = lambda: bench.announced.append("built")
    bench.want(RUNNING)
    bench.want(RUNNING)
    assert bench.announced == [NAME, "built"]
    assert bench.calls == [["start"]]
    assert bench.view.is_active


@pytest.mark.parametrize(
    ("desired", "state", "announced"),
    [
        (PAUSED, RunState.PAUSED, [NAME]),
        (STOPPED, RunState.STOPPED, []),
        (STANDBY, RunState.UNASSIGNED, []),
    ],
)
def test_a_connector_that_starts_idle_has_no_instance_until_it_runs(
    desired: DesiredState, state: RunState, announced: list[str]
) -> None:
    bench = Bench()
    bench.shown = RunState.UNASSIGNED
    bench.want(desired)
    assert bench.state is state
    assert not bench.view.is_active
    assert bench.announced == announced
    assert bench.made == []
    bench.want(RUNNING)
    assert bench.announced == [NAME]
    assert bench.calls == [["start"]]
    assert bench.state is (RunState.PAUSED if desired is PAUSED else RunState.UNASSIGNED)


def test_a_target_with_a_failure_is_shown_failed_and_a_better_one_starts() -> None:
    bench = Bench()
    bench.targets[NAME] = DesiredConnector(RUNNING, None, "no topics\ntrace")
    bench.supervisor.step()
    assert bench.view.state.connector == ReportedState(RunState.FAILED, "no topics\ntrace")
    assert bench.view.kind is None
    assert bench.view.snapshot.reason == "no topics"
    bench.want(RUNNING)
    assert bench.calls == [["start"]]
    bench.targets[NAME] = DesiredConnector(RUNNING, None, "no topics")
    bench.supervisor.step()
    assert bench.made[0].calls == ["start", "stop"]
    bench.end()
    assert bench.state is RunState.FAILED
    assert bench.view.kind is ConnectorClass.SOURCE
    assert len(bench.made) == 1


def test_nothing_new_starts_while_the_announcement_fails() -> None:
    bench = Bench()
    bench.announce_error = UnreachableError("no broker", cluster="b")
    bench.want(RUNNING)
    assert bench.made == []
    assert bench.supervisor.problem == "no broker"
    bench.announce_error = None

    def has_started() -> bool:
        bench.supervisor.step()
        return bool(bench.made)

    eventually(has_started, PATIENCE_SECONDS, "the announcement is retried")
    assert bench.supervisor.problem == ""


def test_an_instance_that_cannot_be_built_fails_until_something_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.build_error = ConfigError("no such class")
    bench.want(RUNNING)
    bench.supervisor.step()
    assert bench.view.state.connector.trace.startswith("no such class\nTraceback")
    assert bench.view.snapshot.state is FlowState.FAILED
    assert caplog.text.count("cannot start: no such class") == 1
    bench.restart()
    assert caplog.text.count("cannot start: no such class") == 2
    bench.want(PAUSED)
    assert bench.state is RunState.PAUSED
    bench.build_error = ValueError("odd")
    bench.want(RUNNING)
    assert bench.view.state.connector.trace.startswith("ValueError: odd\n")
    bench.build_error = None
    bench.want(RUNNING, 2)
    assert bench.calls == [["start"]]
    assert bench.state is RunState.RUNNING


def test_a_target_that_changes_while_an_instance_is_built_drops_it() -> None:
    """B: the instance was built from targets that were polled before the release."""
    bench = Bench()

    def release() -> None:
        bench.on_build = lambda: None
        bench.targets = {}
        assert bench.supervisor.release([NAME], 0.0)

    bench.on_build = release
    bench.want(RUNNING)
    assert bench.calls == [[]]
    bench.supervisor.step()
    assert bench.supervisor.instances() == {}


def test_a_release_during_a_poll_makes_the_supervisor_poll_again(bench: Bench) -> None:
    """B: what was polled before does not count; its restarts do."""
    bench.made[0].may_write = False

    def release() -> None:
        bench.on_poll = lambda: None
        bench.supervisor.release([NAME], 0.0)

    bench.on_poll = release
    bench.restarts.append(Restart(NAME))
    assert bench.supervisor.step() == 0.0
    assert bench.calls == [["start", "stop"]]


def test_another_identity_replaces_the_instance_after_its_end(bench: Bench) -> None:
    """A."""
    bench.shown = RunState.UNASSIGNED
    bench.want(RUNNING, 2)
    assert bench.calls == [["start", "stop"]]
    assert bench.state is RunState.RESTARTING
    bench.made[0].may_write = False
    bench.supervisor.step()
    assert len(bench.made) == 1
    bench.end()
    assert bench.calls == [["start", "stop"], ["start"]]
    assert bench.made[1].spec.identity == 2
    assert bench.state is RunState.RESTARTING
    bench.made[1].shown = RunState.RUNNING
    assert bench.state is RunState.RUNNING


def test_counters_survive_a_restart_and_the_other_fields_are_reset(bench: Bench) -> None:
    bench.made[0].status.set_problem("x", "bad")
    bench.made[0].status.count_change("created")
    bench.want(RUNNING, 2)
    bench.end()
    assert bench.view.snapshot.problems == ()
    assert bench.view.snapshot.topology_changes == {"created": 1}
    assert bench.made[1].status is not bench.made[0].status


def test_a_paused_connector_is_shown_paused_when_it_writes_nothing(bench: Bench) -> None:
    bench.want(PAUSED)
    bench.want(PAUSED)
    assert bench.calls == [["start", "stop"]]
    assert bench.state is RunState.RUNNING
    bench.made[0].may_write = False
    assert bench.state is RunState.PAUSED
    bench.end()
    assert bench.state is RunState.PAUSED
    assert bench.view.snapshot.state is FlowState.PAUSED
    assert list(bench.view.state.tasks) == [0, 1]
    assert not bench.view.is_active


def test_a_resumed_connector_is_shown_paused_until_it_reports(bench: Bench) -> None:
    bench.shown = RunState.UNASSIGNED
    bench.want(PAUSED)
    bench.want(RUNNING)
    assert len(bench.made) == 1
    bench.end()
    assert bench.calls == [["start", "stop"], ["start"]]
    assert bench.state is RunState.PAUSED
    bench.made[1].shown = RunState.RUNNING
    assert bench.state is RunState.RUNNING


def test_a_stopped_connector_is_shown_stopped_without_tasks_after_its_end(bench: Bench) -> None:
    bench.want(STOPPED)
    bench.made[0].may_write = False
    assert bench.state is RunState.RUNNING
    bench.end()
    assert bench.view.state == ConnectorState(ReportedState(RunState.STOPPED))
    bench.announced.clear()
    bench.shown = RunState.UNASSIGNED
    bench.want(RUNNING)
    assert bench.announced == [NAME]
    assert bench.view.state == ConnectorState(ReportedState(RunState.UNASSIGNED))


@pytest.mark.parametrize("way", ["standby", "missing", "released"])
def test_a_connector_that_leaves_is_shown_unassigned_when_it_writes_nothing(
    bench: Bench, way: str
) -> None:
    if way == "standby":
        bench.want(STANDBY)
    elif way == "missing":
        bench.forget()
    else:
        assert not bench.supervisor.release([NAME, "unknown"], 0.0)
    assert bench.calls == [["start", "stop"]]
    assert bench.state is RunState.RUNNING
    bench.made[0].may_write = False
    assert bench.state is RunState.UNASSIGNED
    if way == "released":
        bench.targets = {}
    bench.end()
    names = [*bench.supervisor.instances()]
    assert names == ([NAME] if way == "standby" else [])


def test_a_connector_that_comes_back_before_its_end_starts_once(bench: Bench) -> None:
    """A, however often the target changes."""
    bench.forget()
    bench.want(PAUSED)
    bench.forget()
    bench.want(RUNNING)
    bench.supervisor.step()
    assert len(bench.made) == 1
    assert bench.state is RunState.RESTARTING
    bench.end()
    assert bench.calls == [["start", "stop"], ["start"]]


def test_a_round_that_changes_an_instance_is_reported_and_no_other(bench: Bench) -> None:
    """The status of a connector that restarts does not wait for the next report."""
    before = bench.changes
    bench.supervisor.step()
    assert bench.changes == before
    bench.restart()
    assert bench.changes == before + 1
    bench.made[0].end()
    bench.supervisor.step()
    assert (len(bench.made), bench.changes) == (2, before + 2)
    bench.supervisor.step()
    bench.want(DesiredState.PAUSED)
    assert bench.changes == before + 3


def test_a_restart_replaces_the_instance_and_tasks_are_shown_restarting(bench: Bench) -> None:
    bench.restart()
    bench.restart()
    assert bench.calls == [["start", "stop"]]
    assert bench.state is RunState.RESTARTING
    assert list(bench.view.state.tasks) == [0, 1]
    bench.end()
    assert bench.calls == [["start", "stop"], ["start"]]


def test_only_failed_parts_restart_if_requested(bench: Bench) -> None:
    bench.restart(only_failed=True)
    assert bench.calls == [["start"]]
    bench.made[0].task = RunState.FAILED
    bench.supervisor.restart(Restart(NAME, include_tasks=False, only_failed=True))
    assert bench.calls == [["start"]]
    bench.restart(only_failed=True)
    assert bench.calls == [["start", "replan"]]
    bench.made[0].can_replan = False
    bench.restart(only_failed=True)
    assert bench.calls == [["start", "replan", "replan", "stop"]]
    bench.end()
    bench.made[1].shown = RunState.FAILED
    bench.restart(only_failed=True)
    assert bench.made[1].calls == ["start", "stop"]


def test_a_restart_of_tasks_replans_or_restarts_a_connector_without_tasks(bench: Bench) -> None:
    bench.restart(tasks_only=True)
    assert bench.calls == [["start", "replan"]]
    bench.made[0].can_replan = False
    bench.restart(tasks_only=True)
    assert bench.calls == [["start", "replan", "replan", "stop"]]


def test_a_paused_connector_stays_paused_after_a_restart(bench: Bench) -> None:
    bench.want(PAUSED)
    bench.restart()
    bench.end()
    assert bench.supervisor.restart(Restart(NAME))
    bench.supervisor.step()
    assert bench.state is RunState.PAUSED
    assert len(bench.made) == 1


def test_restarts_of_unknown_or_leaving_connectors_find_nothing(bench: Bench) -> None:
    assert not bench.supervisor.restart(Restart("unknown"))
    bench.forget()
    assert not bench.supervisor.restart(Restart(NAME))


def test_an_instance_that_ends_without_a_request_is_not_replaced(bench: Bench) -> None:
    bench.end()
    assert bench.calls == [["start"]]
    bench.restart()
    bench.supervisor.step()
    assert bench.calls == [["start", "stop"], ["start"]]


def test_a_slow_end_is_logged_once_and_shown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A: its successor waits for it."""
    bench.restart()
    assert bench.supervisor.step() < 0.5
    monkeypatch.setattr(connector_slot, "SLOW_SECONDS", 0.0)
    for _ in range(3):
        assert bench.supervisor.step() == 0.5
    assert caplog.text.count("a->b|one: has not ended within") == 1
    assert bench.view.is_slow
    assert len(bench.made) == 1
    bench.end()
    assert not bench.view.is_slow
    assert len(bench.made) == 2


def test_spark_is_shared_among_those_that_run_or_stand_by() -> None:
    bench = Bench()
    bench.want(RUNNING)
    bench.want(STANDBY, name="two")
    bench.want(PAUSED, name="three")
    bench.want(RUNNING, name="beats", kind=ConnectorClass.HEARTBEAT)
    bench.supervisor.step()
    assert bench.allocations == [{"a->b|one": 3}, {"a->b|one": 3, "a->b|two": 3}]
    bench.shrunk = ["a->b|one", "a->b|two"]
    bench.want(RUNNING, name="three")
    assert bench.made[0].calls == ["start", "replan"]
    assert bench.made[-1].calls == ["start"]
    assert bench.spark_starts == bench.allocations


def test_spark_starts_ahead_only_where_copying_is_expected() -> None:
    bench = Bench()
    bench.want(RUNNING, kind=ConnectorClass.HEARTBEAT)
    assert bench.spark_starts == []
    bench.expects_copying = True
    bench.supervisor.step()
    bench.supervisor.step()
    assert bench.spark_starts == [{}]


def test_without_spark_only_connectors_that_copy_fail() -> None:
    bench = Bench()
    bench.spark_error = SetupError("The control port is taken.")
    bench.want(RUNNING)
    bench.want(RUNNING, name="beats", kind=ConnectorClass.HEARTBEAT)
    bench.supervisor.step()
    assert bench.view.state.connector.trace.startswith("The control port is taken.")
    assert [one.spec.kind for one in bench.made] == [ConnectorClass.HEARTBEAT]
    bench.spark_error = None
    bench.restart()
    assert bench.made[-1].calls == ["start"]


def test_release_waits_until_nothing_is_written_and_no_longer(bench: Bench) -> None:
    """C; the instance may still end afterwards."""
    bench.targets = {}
    timer = threading.Timer(0.1, lambda: setattr(bench.made[0], "may_write", False))
    timer.start()
    assert bench.supervisor.release([NAME], PATIENCE_SECONDS)
    assert not bench.made[0].may_write
    assert not bench.made[0].is_finished


def test_close_ends_everything_and_nothing_starts_afterwards(bench: Bench) -> None:
    bench.want(RUNNING, name="two")
    assert not bench.supervisor.close(0.0)
    assert bench.calls == [["start", "stop"], ["start", "stop"]]
    for one in bench.made:
        one.end()
    assert bench.supervisor.close(PATIENCE_SECONDS)
    assert len(bench.made) == 2


def test_close_does_not_take_longer_than_it_may(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that does not end leaves no time for the others."""
    monkeypatch.setattr(supervisor_module, "_SETTLE_SECONDS", PATIENCE_SECONDS)
    began = time.monotonic()
    assert not bench.supervisor.close(0.1)
    assert time.monotonic() - began < PATIENCE_SECONDS / 2


def test_close_waits_for_positions_and_not_for_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_SETTLE_SECONDS", 0.0)
    bench = Bench()
    bench.want(RUNNING, kind=ConnectorClass.HEARTBEAT)
    assert bench.supervisor.close(0.0)


def test_the_thread_is_woken_and_survives_a_failing_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D: `wake` returns at once."""
    bench = Bench()

    def fail() -> None:
        bench.on_poll = lambda: None
        raise RuntimeError("odd")

    bench.on_poll = fail
    bench.supervisor.start()
    eventually(lambda: "odd" in caplog.text, PATIENCE_SECONDS, "the failure is logged")
    spec = ConnectorSpec(ConnectorClass.HEARTBEAT, "a->b", 1, SETTINGS)
    bench.targets = {NAME: DesiredConnector(RUNNING, spec)}
    bench.supervisor.wake()
    eventually(lambda: bench.calls == [["start"]], PATIENCE_SECONDS, "an instance starts")
    bench.targets[NAME] = replace(bench.targets[NAME], desired=PAUSED)
    bench.supervisor.wake()
    eventually(lambda: "stop" in bench.made[0].calls, PATIENCE_SECONDS, "it is asked to end")
    bench.made[0].end()
    eventually(lambda: not bench.view.is_active, PATIENCE_SECONDS, "its end is noticed")
    assert bench.supervisor.problem == ""
    assert bench.supervisor.close(PATIENCE_SECONDS)


class EndingInstance(FakeInstance):
    """Ends a moment after it was asked to; counts how many are alive."""

    alive = 0
    most = 0
    lock = threading.Lock()

    def start(self) -> None:
        with self.lock:
            EndingInstance.alive += 1
            EndingInstance.most = max(self.most, self.alive)
        super().start()

    def stop(self) -> None:
        super().stop()
        threading.Timer(random.uniform(0, 0.01), self._finish).start()

    def _finish(self) -> None:
        with self.lock:
            self.may_write = False
            EndingInstance.alive -= 1
            self.is_finished = True


def test_instances_never_overlap_while_several_threads_change_the_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A, B and C: what was released does not write before it is wanted again."""
    monkeypatch.setattr(supervisor_module, "_ENDING_SECONDS", 0.001)
    bench = Bench()
    build = cast("InstanceBuilder", EndingInstance)
    spark = cast("SharedSparkContext[str]", bench)
    bench.supervisor = Supervisor(bench, build, spark)
    bench.supervisor.start()
    spec = ConnectorSpec(ConnectorClass.SOURCE, "a->b", 1, SETTINGS)
    stop = threading.Event()

    def restart() -> None:
        while not stop.wait(0.002):
            bench.supervisor.restart(Restart(NAME))

    thread = threading.Thread(target=restart, daemon=True)
    thread.start()
    for number in range(60):
        bench.targets = {NAME: DesiredConnector(RUNNING, replace(spec, identity=number % 3))}
        bench.supervisor.wake()
        time.sleep(random.uniform(0, 0.01))
        bench.targets = {}
        assert bench.supervisor.release([NAME], PATIENCE_SECONDS)
        assert EndingInstance.alive == 0
        time.sleep(random.uniform(0, 0.003))
        assert EndingInstance.alive == 0
    stop.set()
    thread.join()
    assert bench.supervisor.close(PATIENCE_SECONDS)
    assert EndingInstance.most == 1


_ACTIONS = st.sampled_from(
    ["run", "run other", "pause", "stop", "stand by", "forget", "release", "restart", "end", "step"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_ACTIONS, max_size=25))
def test_two_instances_of_one_name_never_overlap(actions: list[str]) -> None:
    """A, B and C under any sequence of targets, restarts, releases and ends."""
    bench = Bench()
    identity = 0
    for action in actions:
        match action:
            case "run" | "run other":
                identity += action == "run other"
                bench.want(RUNNING, identity)
            case "pause" | "stop" | "stand by":
                wanted = {"pause": PAUSED, "stop": STOPPED, "stand by": STANDBY}[action]
                bench.want(wanted, identity)
            case "forget" if bench.targets:
                bench.forget()
            case "release":
                bench.targets = {}
                is_quiet = bench.supervisor.release([NAME], -1.0)
                assert is_quiet == (not any(one.is_alive for one in bench.made))
            case "restart":
                bench.supervisor.restart(Restart(NAME))
            case "end" if bench.made:
                bench.made[-1].end()
            case _:
                bench.supervisor.step()
        assert sum(one.is_alive for one in bench.made) <= 1
        if not bench.targets:
            assert all("stop" in one.calls for one in bench.made)
    if bench.made:
        bench.end()
    bench.want(RUNNING, identity)
    bench.supervisor.step()
    has_ended_itself = bench.made[-1].is_finished and "stop" not in bench.made[-1].calls
    assert bench.made[-1].is_alive or has_ended_itself
