# SPDX-License-Identifier: Apache-2.0
"""Pairs run while their gate is open, and are begun anew only after their end.

The herders and gates here do as a test wants them; real ones are tested on real brokers.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from sparkmirror.config.config_changes import ConfigChanges, FlowChange, FlowPart
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.runtime import flow_supervisor as pairs_module
from sparkmirror.runtime.commands import FlowCommands, RestartCommand, TargetStates
from sparkmirror.runtime.flow_supervisor import (
    FlowSpec,
    FlowSupervisor,
    OwnershipCallbacks,
    OwnershipStatus,
)
from sparkmirror.runtime.herder import Herder
from sparkmirror.security.settings import SecurityProtocol, SecuritySettings, TlsSettings
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.wire.settings import ConnectionSettings
from support.waiting import PATIENCE_SECONDS, eventually

AB, BA = Flow("a", "b"), Flow("b", "a")
FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
"""
WHOLE = ConfigChanges(
    changed=(FlowChange(AB, frozenset({FlowPart.ALL}), ("topics",)),), untouched=1
)
SMALL = ConfigChanges(
    changed=(FlowChange(AB, frozenset({FlowPart.CHECKPOINTS}), ("groups",)),), untouched=1
)


@dataclass
class SlowHerder:
    """Ends when the test says so."""

    flow: Flow
    heard: list[str] = field(default_factory=list)
    is_finished: bool = False
    is_settled: bool = True
    source: None = None

    @property
    def status(self) -> FlowStatus:
        """Where its figures are."""
        return FlowStatus(str(self.flow))

    @property
    def is_idle(self) -> bool:
        """Nothing is left of one that is over."""
        return self.is_finished

    def start(self) -> None:
        """Note it."""
        self.heard.append("start")

    def stop(self) -> None:
        """Note it."""
        self.heard.append("stop")

    def restart_connectors(
        self, *_: object, heartbeats: bool, checkpoints: bool, target_states: TargetStates
    ) -> None:
        """Note it."""
        resting = [kind.name.lower() for kind in target_states]
        self.heard.append(" ".join([f"change {heartbeats} {checkpoints}", *resting]))

    def join(self, _seconds: float) -> bool:
        """Whether it has ended."""
        return self.is_finished

    def snapshot(self) -> FlowSnapshot:
        """A flow that has done nothing."""
        return FlowStatus(str(self.flow)).snapshot()


@dataclass
class ManualOwnership:
    """Opens and closes by hand; ends its pair when it is stopped, as a real one does."""

    plan: FlowSpec
    calls: OwnershipCallbacks
    heard: list[str] = field(default_factory=list)
    leaving: threading.Thread | None = None

    @property
    def commands(self) -> FlowCommands:
        """Nobody asks for them here."""
        raise NotImplementedError

    def opened(self, **target_states: TargetState) -> None:
        """Give the pair, with these connectors at rest."""
        self.calls.on_acquired(
            {ConnectorClass[kind.upper()]: w for kind, w in target_states.items()}
        )

    def start(self) -> None:
        """Note it."""
        self.heard.append("start")

    def close(self) -> threading.Thread:
        """Take the pair away; the thread ends when it has ended."""
        thread = threading.Thread(target=self.calls.on_revoked, daemon=True)
        thread.start()
        return thread

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Note it, if it is another."""
        if connection != self.plan.settings.target_admin:
            self.heard.append("renew")

    def stop(self, seconds: float) -> bool:
        """End the pair, beside whoever asks."""
        if self.leaving is None:
            self.heard.append("stop")
            self.leaving = self.close()
        self.leaving.join(max(seconds, 0.05))
        return not self.leaving.is_alive()

    def status(self) -> OwnershipStatus:
        """Always the same."""
        return OwnershipStatus(FlowState.STANDBY, "stands by: somebody runs it")


class Bench:
    """Two pairs and all herders and gates that were ever made for them."""

    def __init__(self) -> None:
        self.made: list[SlowHerder] = []
        self.plans_made: list[FlowSpec] = []
        self.target_states: list[TargetStates] = []
        self.gates: list[ManualOwnership] = []
        config = MirrorConfig.parse(FILE)
        settings = [config.flow_settings(flow) for flow in (AB, BA)]
        self.plans = {
            one.flow: FlowSpec(
                one, load_policy(one.policy, one.flow), GroupSettings(f"{one.flow.source}-mm2")
            )
            for one in settings
        }
        self.pairs = FlowSupervisor(self._make, self._make_gate, self.plans.values())
        self.pairs.start()

    def open(self) -> None:
        """Open all gates."""
        for gate in self.gates:
            gate.opened()

    def _make_gate(self, plan: FlowSpec, calls: OwnershipCallbacks) -> ManualOwnership:
        self.gates.append(ManualOwnership(plan, calls))
        return self.gates[-1]

    def _make(self, plan: FlowSpec, target_states: TargetStates) -> Herder:
        self.target_states.append(target_states)
        self.plans_made.append(plan)
        self.made.append(SlowHerder(plan.settings.flow))
        return cast("Herder", self.made[-1])

    @property
    def heard(self) -> list[list[str]]:
        """What every herder was told, in the order of their making."""
        return [one.heard for one in self.made]

    def shown(self) -> list[str]:
        """The flows in view."""
        return [one.flow for one in self.pairs.snapshots()]


@pytest.fixture
def bench() -> Bench:
    """Two pairs that run."""
    made = Bench()
    made.open()
    return made


def test_nothing_runs_before_its_gate_opens() -> None:
    """Then it does, once, however often the gate says so."""
    bench = Bench()
    assert [gate.heard for gate in bench.gates] == [["start"], ["start"]]
    assert bench.made == []
    assert bench.pairs.snapshots()[0].state is FlowState.STANDBY
    assert bench.pairs.snapshots()[0].reason == "stands by: somebody runs it"
    bench.gates[0].opened()
    bench.gates[0].opened()
    assert bench.heard == [["start"]]
    assert [one.state for one in bench.pairs.snapshots()] == [
        FlowState.STARTING,
        FlowState.STANDBY,
    ]


def test_a_gate_that_closes_ends_its_pair_and_waits_for_that(bench: Bench) -> None:
    """A gate that opens again finds nothing left of the pair, and begins it anew."""
    closing = bench.gates[0].close()
    eventually(
        lambda: "stop" in bench.made[0].heard, PATIENCE_SECONDS, "the herder is asked to end"
    )
    closing.join(0.1)
    assert closing.is_alive()
    bench.made[0].is_finished = True
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()
    assert bench.pairs.snapshots()[0].state is FlowState.STANDBY
    assert not bench.pairs.advance()
    bench.gates[0].opened()
    assert bench.heard == [["start", "stop"], ["start"], ["start"]]


def test_a_pair_that_stands_by_takes_a_newer_file_up_without_a_word() -> None:
    """It begins with the newest settings."""
    bench = Bench()
    bench.plans[AB] = replace(bench.plans[AB], group=bench.plans[AB].group)
    bench.pairs.apply(WHOLE, bench.plans)
    assert not bench.pairs.advance()
    bench.gates[0].opened()
    assert bench.plans_made[0] is bench.plans[AB]


def test_a_pair_with_another_group_leaves_and_joins(bench: Bench) -> None:
    """The old gate has ended before the new one is asked."""
    plans = {**bench.plans, AB: replace(bench.plans[AB], group=GroupSettings("other"))}
    bench.pairs.apply(WHOLE, plans)
    assert bench.gates[0].heard == ["start", "stop"]
    assert bench.pairs.advance()
    assert len(bench.gates) == 2
    bench.made[0].is_finished = True
    eventually(lambda: not bench.pairs.advance(), PATIENCE_SECONDS, "the pair has left")
    assert bench.gates[2].heard == ["start"]
    bench.gates[2].opened()
    assert bench.plans_made[2] is plans[AB]


def with_other_credentials(plan: FlowSpec) -> FlowSpec:
    """The same for another user of the target."""
    security = SecuritySettings(SecurityProtocol.SSL, TlsSettings("another authority"))
    admin = replace(plan.settings.target_admin, security=security)
    return replace(plan, settings=replace(plan.settings, target_admin=admin))


def test_a_pair_with_other_credentials_keeps_its_place(bench: Bench) -> None:
    """The old ones may not even be good for a farewell."""
    plans = {**bench.plans, AB: with_other_credentials(bench.plans[AB])}
    bench.pairs.apply(WHOLE, plans)
    assert bench.gates[0].heard == ["start", "renew"]
    bench.made[0].is_finished = True
    assert not bench.pairs.advance()
    assert len(bench.gates) == 2
    assert bench.plans_made[2] is plans[AB]


def test_a_pair_that_was_not_let_in_asks_at_once_with_other_credentials() -> None:
    """There is no place to be kept."""
    bench = Bench()
    bench.pairs.apply(WHOLE, {**bench.plans, AB: with_other_credentials(bench.plans[AB])})
    eventually(lambda: not bench.pairs.advance(), PATIENCE_SECONDS, "the pair has left")
    assert [gate.heard for gate in bench.gates] == [["start", "stop"], ["start"], ["start"]]


def test_a_changed_pair_is_begun_anew_after_its_end_and_others_hear_nothing(bench: Bench) -> None:
    """Nobody waits meanwhile."""
    bench.pairs.apply(WHOLE, bench.plans)
    assert bench.pairs.advance()
    assert bench.heard == [["start", "stop"], ["start"]]
    bench.made[0].is_finished = True
    assert not bench.pairs.advance()
    assert bench.heard == [["start", "stop"], ["start"], ["start"]]
    assert bench.shown() == ["a->b", "b->a"]


def test_a_stopped_pair_is_in_view_until_it_has_ended(bench: Bench) -> None:
    """Then it is gone."""
    bench.pairs.apply(ConfigChanges(stopped=(AB,)), {BA: bench.plans[BA]})
    assert bench.pairs.advance()
    assert bench.shown() == ["b->a", "a->b"]
    bench.made[0].is_finished = True
    eventually(lambda: not bench.pairs.advance(), PATIENCE_SECONDS, "the pair has left")
    assert bench.shown() == ["b->a"]


def test_a_pair_that_comes_back_before_it_has_ended_is_begun_once(bench: Bench) -> None:
    """Stopped, started and changed in three files, one after the other."""
    bench.pairs.apply(ConfigChanges(stopped=(AB,)), {BA: bench.plans[BA]})
    bench.pairs.apply(ConfigChanges(started=(AB,)), bench.plans)
    bench.pairs.apply(SMALL, bench.plans)
    assert bench.pairs.advance()
    bench.made[0].is_finished = True
    eventually(lambda: not bench.pairs.advance(), PATIENCE_SECONDS, "the pair has left")
    bench.gates[-1].opened()
    assert set(bench.made[0].heard[1:]) == {"stop"}
    assert bench.heard[1:] == [["start"], ["start"]]


def test_a_small_change_reaches_the_herder_that_runs(bench: Bench) -> None:
    """Nothing is stopped; before everything has started it is begun anew instead."""
    bench.pairs.apply(SMALL, bench.plans)
    assert not bench.pairs.advance()
    assert bench.heard == [["start", "change False True"], ["start"]]
    bench.made[0].is_settled = False
    bench.pairs.apply(SMALL, bench.plans)
    assert bench.made[0].heard[-1] == "stop"


def test_a_pair_that_does_not_end_is_said_once_and_never_doubled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and in view; when it ends at last, its successor begins."""
    monkeypatch.setattr(pairs_module, "SLOW_SECONDS", 0.0)
    bench.pairs.apply(WHOLE, bench.plans)
    for _ in range(3):
        assert bench.pairs.advance()
    assert len(bench.made) == 2
    assert caplog.text.count("a->b: has not ended within") == 1
    assert "does not end" in bench.pairs.snapshots()[0].problems[0]
    bench.made[0].is_finished = True
    assert not bench.pairs.advance()
    assert bench.pairs.snapshots()[0].problems == ()


def test_the_end_of_the_process_waits_for_pairs_that_are_ending(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether all of them wrote their positions."""
    monkeypatch.setattr(pairs_module, "_LEAVE_SECONDS", 0.1)
    bench.pairs.apply(ConfigChanges(stopped=(AB,)), {BA: bench.plans[BA]})
    bench.made[1].is_finished = True
    assert not bench.pairs.stop(0.1)
    bench.made[0].is_finished = True
    assert bench.pairs.stop(0.1)
    assert "start" not in bench.made[0].heard[1:]


def test_a_pair_whose_copying_is_paused_is_begun_anew_without_it(bench: Bench) -> None:
    """And with it again when it is resumed; others hear nothing."""
    paused = TargetState.PAUSED
    bench.gates[0].opened(source=paused)
    bench.gates[0].opened(source=paused)
    assert bench.heard == [["start", "stop"], ["start"]]
    bench.made[0].is_finished = True
    assert not bench.pairs.advance()
    bench.gates[0].opened(source=TargetState.STOPPED)
    assert bench.heard == [["start", "stop"], ["start"], ["start"]]
    bench.gates[0].opened()
    bench.made[2].is_finished = True
    assert not bench.pairs.advance()
    resting = [{kind.name for kind in target_states} for target_states in bench.target_states]
    assert resting == [set(), set(), {"SOURCE"}, set()]


def test_small_connectors_rest_and_restart_while_the_copying_goes_on(bench: Bench) -> None:
    """Wishes stay: a newer file does not bring back what rests."""
    bench.gates[0].opened(checkpoint=TargetState.STOPPED)
    bench.gates[0].calls.on_restart(RestartCommand(ConnectorClass.HEARTBEAT, only_failed=False))
    bench.gates[0].calls.on_restart(RestartCommand(ConnectorClass.CHECKPOINT, only_failed=False))
    bench.pairs.apply(SMALL, bench.plans)
    assert bench.made[0].heard == [
        "start",
        "change False True checkpoint",
        "change True False checkpoint",
        "change False True checkpoint",
    ]


def test_a_connector_that_copies_is_restarted_with_its_pair(bench: Bench) -> None:
    """One that has not failed is left alone if that was asked for."""
    bench.gates[0].calls.on_restart(RestartCommand(ConnectorClass.SOURCE, only_failed=True))
    assert bench.made[0].heard == ["start"]
    bench.gates[0].calls.on_restart(RestartCommand(ConnectorClass.SOURCE, only_failed=False))
    assert bench.made[0].heard == ["start", "stop"]
