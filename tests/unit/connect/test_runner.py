# SPDX-License-Identifier: Apache-2.0
"""Commands to connectors in any order: two lives of one never overlap, and nobody waits.

The lives here are as slow as a test wants them; that real ones end is tested on real brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from sparkmirror.config.connector_config import ParsedConnector, read_connector
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import connector_supervisor as runner_module
from sparkmirror.connect.connector_supervisor import ConnectorSupervisor
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.errors import ArgumentError
from sparkmirror.formats.connect_status_records import RunState
from support.waiting import eventually

SOON = 5.0
NAME = "beat"
WORKER = WorkerConfig.parse(
    "bootstrap.servers=127.0.0.1:1\n"
    "group.id=g\n"
    "config.storage.topic=c\n"
    "offset.storage.topic=o\n"
    "status.storage.topic=s\n"
)


def reading(**changes: str) -> ParsedConnector:
    """A heartbeat connector, which needs no Spark."""
    config = {
        "name": NAME,
        "connector.class": ConnectorClass.HEARTBEAT.java_name,
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": "127.0.0.1:1",
    }
    return read_connector(config | {k.replace("_", "."): v for k, v in changes.items()}, WORKER)


@dataclass
class Life:
    """Ends when the test says so."""

    heard: list[str] = field(default_factory=list)
    is_finished: bool = False
    may_write: bool = True
    shown: RunState = RunState.RUNNING

    def start(self) -> None:
        """Note it."""
        self.heard.append("start")

    def stop(self) -> None:
        """Note it."""
        self.heard.append("stop")

    def replan(self) -> bool:
        """It has no tasks of its own."""
        return False

    def end(self) -> None:
        """Nothing of it is at work any more."""
        self.may_write = False
        self.is_finished = True

    def state(self) -> ConnectorState:
        """A connector with two tasks."""
        if self.shown is RunState.UNASSIGNED:
            return ConnectorState(ReportedState(self.shown))
        return ConnectorState(
            ReportedState(self.shown), dict.fromkeys((0, 1), ReportedState(self.shown))
        )


class Bench:
    """A runner and all lives that it ever began."""

    def __init__(self) -> None:
        self.made: list[Life] = []
        self.next_shown = RunState.RUNNING
        self.runner = ConnectorSupervisor({})

    def make(self, *_: object) -> Life:
        """The next life."""
        self.made.append(Life(shown=self.next_shown))
        return self.made[-1]

    def await_lives(self, count: int) -> Life:
        """The last of so many that have begun."""
        eventually(
            lambda: len(self.made) == count and self.made[-1].heard,
            SOON,
            f"{count} lives have begun",
        )
        return self.made[-1]

    def shown(self) -> RunState | None:
        """The connector's state; None: it is not known."""
        found = self.runner.states().get(NAME)
        if found is None:
            return None
        assert {one.state for one in found.tasks.values()} <= {found.connector.state}
        return found.connector.state

    def await_state(self, state: RunState | None) -> None:
        """Wait for it."""
        eventually(lambda: self.shown() is state, SOON, f"it is {state}")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A runner with one connector that runs."""
    made = Bench()
    monkeypatch.setattr(runner_module, "ConnectorInstance", made.make)
    made.runner.start(NAME, reading())
    made.await_lives(1)
    yield made
    for life in made.made:
        life.end()
    assert made.runner.close(SOON)


def test_a_paused_connector_is_paused_when_nothing_copies_any_more(bench: Bench) -> None:
    """Asked twice it is told once; before that it is what it was."""
    bench.runner.pause(NAME)
    bench.runner.pause(NAME)
    assert bench.made[0].heard == ["start", "stop"]
    assert bench.shown() is RunState.RUNNING
    bench.made[0].may_write = False
    assert bench.shown() is RunState.PAUSED
    bench.made[0].end()
    bench.await_state(RunState.PAUSED)
    assert list(bench.runner.states()[NAME].tasks) == [0, 1]


def test_a_resumed_connector_begins_when_its_predecessor_is_over(bench: Bench) -> None:
    """Until it has got somewhere it is still called paused."""
    bench.next_shown = RunState.UNASSIGNED
    bench.runner.pause(NAME)
    bench.runner.resume(NAME)
    bench.runner.resume(NAME)
    assert len(bench.made) == 1
    bench.made[0].end()
    life = bench.await_lives(2)
    assert bench.shown() is RunState.PAUSED
    life.shown = RunState.RUNNING
    assert bench.shown() is RunState.RUNNING
    assert life.heard == ["start"]


def test_a_restarted_connector_is_restarting_until_it_runs(bench: Bench) -> None:
    """With all its tasks."""
    bench.next_shown = RunState.UNASSIGNED
    bench.runner.restart(NAME)
    assert bench.shown() is RunState.RESTARTING
    assert list(bench.runner.states()[NAME].tasks) == [0, 1]
    bench.made[0].end()
    life = bench.await_lives(2)
    assert bench.shown() is RunState.RESTARTING
    life.shown = RunState.RUNNING
    assert bench.shown() is RunState.RUNNING


def test_restarting_the_tasks_of_a_small_connector_restarts_it(bench: Bench) -> None:
    """It has no tasks apart from itself."""
    bench.runner.restart_tasks(NAME)
    assert bench.made[0].heard == ["start", "stop"]


def test_a_paused_connector_stays_paused_after_a_restart(bench: Bench) -> None:
    """As in Connect."""
    bench.runner.pause(NAME)
    bench.runner.restart(NAME)
    bench.made[0].end()
    bench.await_state(RunState.PAUSED)
    assert len(bench.made) == 1


def test_a_stopped_connector_is_in_view_until_it_has_ended(bench: Bench) -> None:
    """Stopping it twice, or one that nobody knows, is no trouble."""
    for name in (NAME, NAME, "unknown"):
        bench.runner.stop(name)
    bench.made[0].may_write = False
    assert bench.shown() is RunState.UNASSIGNED
    bench.made[0].end()
    bench.await_state(None)
    assert bench.made[0].heard == ["start", "stop"]


def test_a_connector_that_comes_back_before_it_has_ended_begins_once(bench: Bench) -> None:
    """However often somebody changes his mind."""
    bench.runner.stop(NAME)
    bench.runner.start(NAME, reading(), paused=True)
    bench.runner.stop(NAME)
    bench.runner.start(NAME, reading())
    assert len(bench.made) == 1
    bench.made[0].end()
    bench.await_lives(2)
    assert bench.made[1].heard == ["start"]


def test_the_same_configuration_changes_nothing_and_another_one_restarts(bench: Bench) -> None:
    """A worker says again what is wanted after every rebalance."""
    bench.runner.start(NAME, reading())
    assert bench.made[0].heard == ["start"]
    bench.runner.start(NAME, reading(emit_heartbeats_interval_seconds="5"))
    assert bench.made[0].heard == ["start", "stop"]
    bench.made[0].end()
    bench.await_lives(2)


def test_a_connector_may_begin_paused(bench: Bench) -> None:
    """Nothing of it is made before it is resumed."""
    bench.runner.start("second", reading(), paused=True)
    assert bench.runner.states()["second"] == ConnectorState(ReportedState(RunState.PAUSED))
    assert len(bench.made) == 1
    bench.runner.resume("second")
    bench.await_lives(2)


@pytest.mark.parametrize("command", ["pause", "resume", "restart", "restart_tasks"])
def test_commands_to_nobody_are_refused_by_name(bench: Bench, command: str) -> None:
    """Also while a connector of that name is on its way out."""
    bench.runner.stop(NAME)
    for name in ("unknown", NAME):
        call: Callable[[str], None] = getattr(bench.runner, command)
        with pytest.raises(ArgumentError, match=name):
            call(name)


def test_a_configuration_that_cannot_be_run_fails_with_its_sentence(bench: Bench) -> None:
    """A better one is taken up; a restart tries again."""
    wrong = reading(emit_heartbeats_interval_seconds="often")
    bench.runner.start("second", wrong)

    def failure() -> ReportedState | None:
        found = bench.runner.states()["second"].connector
        return found if found.state is RunState.FAILED else None

    found = eventually(failure, SOON, "it has failed")
    assert "emit.heartbeats.interval.seconds" in found.trace
    bench.runner.restart("second")
    eventually(failure, SOON, "it has failed again")
    assert len(bench.made) == 1
    bench.runner.start("second", reading())
    bench.await_lives(2)


def test_one_that_does_not_end_is_said_once_and_never_doubled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its successor waits for it."""
    monkeypatch.setattr(runner_module, "SLOW_SECONDS", 0.0)
    bench.runner.restart(NAME)
    eventually(lambda: "has not ended within" in caplog.text, SOON, "the log says so")
    bench.runner.start("second", reading())
    bench.await_lives(2)  # the runner has looked again meanwhile
    assert caplog.text.count("has not ended within") == 1
    bench.made[0].end()
    bench.await_lives(3)


def test_an_end_that_takes_too_long_is_not_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes is told."""
    made = Bench()
    monkeypatch.setattr(runner_module, "ConnectorInstance", made.make)
    made.runner.start(NAME, reading())
    made.await_lives(1)
    assert not made.runner.close(0.2)
    assert made.made[0].heard == ["start", "stop"]


def test_after_its_end_nothing_begins() -> None:
    """A runner that has nothing to do ends at once, and a second time."""
    runner = ConnectorSupervisor({})
    assert runner.close(SOON)
    assert runner.close(SOON)
    with pytest.raises(ArgumentError, match="ending"):
        runner.start(NAME, reading())
    assert runner.states() == {}
