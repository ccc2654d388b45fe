# SPDX-License-Identifier: Apache-2.0
"""What a worker writes about its connectors, with topics and a group in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.connect.config_cache import ParsedConfig
from sparkmirror.connect.reporter import Reporter
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import DesiredState, InstanceView
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    StatusRecord,
    TaskStatus,
)
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.connect_configs import ClusterConfigState
from sparkmirror.state.connect_statuses import ClusterStatusState

ME, OTHER = "me:1", "other:1"


def view(name: str, state: RunState, tasks: int = 1) -> InstanceView:
    """A connector in a state."""
    parts = {task: ReportedState(state) for task in range(tasks)}
    return InstanceView(
        name=name,
        kind=None,
        desired=DesiredState.RUNNING,
        state=ConnectorState(ReportedState(state), parts),
        snapshot=FlowStatus(name).snapshot(),
    )


class Bench:
    """A reporter, its group and its topics."""

    def __init__(self) -> None:
        self.configs = ClusterConfigState()
        self.statuses = ClusterStatusState()
        self.cluster = "b"
        self.is_member = True
        self.generation = 3
        self.views: dict[str, InstanceView] = {}
        self.owned = {"x", "y"}
        self.published: list[str] = []
        self.calls: list[str] = []
        self.problems: dict[str, str] = {}
        parts: Any = self
        self.reporter = Reporter(
            parts,
            parts,
            parts,
            parts,
            parts,
            ME,
            owns=lambda name: name in self.owned,
            instances=lambda: self.views,
            tracks_topics=False,
        )
        for name in self.owned:
            self.configs.configs[name] = {"name": name}

    # as GroupState

    def refresh_configs(self) -> None:
        """Read."""
        self.calls.append("configs")

    def refresh_statuses(self) -> None:
        """Read."""
        self.calls.append("statuses")

    def write_statuses(self, records: Sequence[StatusRecord], *, certain: bool = False) -> None:
        """Keep them."""
        self.calls.append("certain" if certain else "uncertain")
        for one in records:
            if isinstance(one, ConnectorStatus) and one.status is not None:
                self.statuses.connectors[one.connector] = one.status
            elif isinstance(one, TaskStatus):
                self.calls.append(f"{one.connector}-{one.task}")

    def remove_connector_status(self, name: str) -> None:
        """Forget it."""
        self.statuses.connectors = {
            other: one for other, one in self.statuses.connectors.items() if other != name
        }

    # as GroupLeader, ConnectorConfigCache and TaskPublisher

    def maintain(self) -> None:
        """Lead."""
        self.calls.append("maintain")

    def warning(self, name: str) -> str:
        """What is wrong with a config."""
        return self.problems.get(name, "")

    def problem(self, _name: str) -> str:
        """Tasks are published."""
        return ""

    def find(self, name: str) -> ParsedConfig:
        """A config."""
        return ParsedConfig({"name": name}, None, None)

    def publish(self, _parsed: ParsedConfig, one: InstanceView) -> bool:
        """Publish its tasks."""
        self.published.append(one.name)
        return True

    # what the topic says

    def states(self) -> dict[str, RunState]:
        """Of connectors."""
        return {name: one.state for name, one in self.statuses.connectors.items()}

    def say(self, name: str, state: RunState, worker: str = ME) -> None:
        """Somebody has written it."""
        self.statuses.connectors[name] = Status(state, worker, 1)


@pytest.fixture
def bench() -> Bench:
    """Two connectors that run here."""
    made = Bench()
    made.views = {name: view(name, RunState.RUNNING) for name in "xy"}
    return made


def test_states_are_written_and_tasks_published(bench: Bench) -> None:
    """Only of connectors that are owned and exist; leading comes with it."""
    bench.views["stranger"] = view("stranger", RunState.RUNNING)
    bench.reporter.report()
    assert bench.states() == {"x": RunState.RUNNING, "y": RunState.RUNNING}
    assert (bench.published, "maintain" in bench.calls) == (["x", "y"], True)
    bench.problems["x"] = "its file is gone"
    bench.reporter.report()
    assert bench.statuses.connectors["x"].warning == "its file is gone"


def test_statuses_are_written_at_once_on_request(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is left to the next report."""
    bench.reporter.update_statuses()
    assert bench.states() == {"x": RunState.RUNNING, "y": RunState.RUNNING}
    assert bench.published == []

    def refuse(*_: object, **__: object) -> None:
        raise ClusterError("gone", cluster="b")

    bench.views["x"] = view("x", RunState.RESTARTING)
    monkeypatch.setattr(bench, "write_statuses", refuse)
    bench.reporter.update_statuses()
    monkeypatch.undo()
    bench.reporter.report()
    assert bench.states()["x"] is RunState.RESTARTING


def test_a_worker_without_a_place_writes_nothing(bench: Bench) -> None:
    """It still gives the lead back."""
    bench.is_member = False
    bench.reporter.report()
    assert (bench.states(), bench.published) == ({}, [])
    assert bench.calls[-1] == "maintain"


def test_stopped_is_written_only_when_it_is_meant_and_true(bench: Bench) -> None:
    """A status that says so lets people alter offsets."""
    bench.configs.target_states["x"] = TargetState.STOPPED
    bench.reporter.report()
    assert bench.states() == {"y": RunState.RUNNING}  # x has not ended yet
    bench.views["x"] = view("x", RunState.STOPPED, tasks=0)
    bench.reporter.report()
    assert bench.states()["x"] is RunState.STOPPED
    bench.say("x", RunState.UNASSIGNED)
    bench.configs.target_states.clear()
    bench.reporter.report()
    assert bench.states()["x"] is RunState.UNASSIGNED  # the supervisor has not seen the target


def test_a_connector_is_announced_before_it_starts(bench: Bench) -> None:
    """If the group does not know it, or takes it for stopped; after a fresh read."""
    bench.say("y", RunState.STOPPED)
    bench.say("paused", RunState.PAUSED)
    bench.reporter.announce(["x", "y", "paused"])
    assert bench.states() == {
        "x": RunState.UNASSIGNED,
        "y": RunState.UNASSIGNED,
        "paused": RunState.PAUSED,
    }
    assert bench.calls == ["statuses", "certain"]
    bench.is_member = False
    with pytest.raises(ClusterError):
        bench.reporter.announce(["z"])


def test_what_is_given_up_is_unassigned_and_stays_so(bench: Bench) -> None:
    """What another worker has written meanwhile is left alone."""
    bench.reporter.report()
    bench.say("y", RunState.RUNNING, OTHER)
    bench.owned.clear()
    bench.reporter.give_up(["x", "y"])
    bench.reporter.report()
    assert bench.states() == {"x": RunState.UNASSIGNED, "y": RunState.RUNNING}


def test_deleted_connectors_are_forgotten_after_their_end(bench: Bench) -> None:
    """Those of other workers are theirs."""
    bench.reporter.report()
    bench.say("theirs", RunState.RUNNING, OTHER)
    bench.configs.configs.clear()
    bench.reporter.report()
    assert set(bench.states()) == {"x", "y", "theirs"}
    bench.views["x"] = replace(bench.views["x"], state=view("x", RunState.UNASSIGNED).state)
    del bench.views["y"]
    bench.reporter.report()
    assert set(bench.states()) == {"theirs"}
