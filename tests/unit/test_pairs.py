# SPDX-License-Identifier: Apache-2.0
"""Pairs are begun anew only after their end, however long that takes and whoever changes his mind.

The herders here are as slow as a test wants them; that real ones end is tested on real brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from sparkmirror import pairs as pairs_module
from sparkmirror.config.changes import Changes, PairChange, Part
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.herder import Herder
from sparkmirror.model import Flow
from sparkmirror.pairs import PairPlan, Pairs
from sparkmirror.pipeline.status import FlowSnapshot, FlowStatus
from sparkmirror.policy.loading import load_policy

AB, BA = Flow("a", "b"), Flow("b", "a")
FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
"""
WHOLE = Changes(changed=(PairChange(AB, frozenset({Part.ALL}), ("topics",)),), untouched=1)
SMALL = Changes(changed=(PairChange(AB, frozenset({Part.CHECKPOINTS}), ("groups",)),), untouched=1)


@dataclass
class SlowHerder:
    """Ends when the test says so."""

    flow: Flow
    heard: list[str] = field(default_factory=list)
    is_over: bool = False
    is_settled: bool = True
    source: None = None

    def start(self) -> None:
        """Note it."""
        self.heard.append("start")

    def stop(self) -> None:
        """Note it."""
        self.heard.append("stop")

    def change(self, *_: object, heartbeats: bool, checkpoints: bool) -> None:
        """Note it."""
        self.heard.append(f"change {heartbeats} {checkpoints}")

    def join(self, _seconds: float) -> bool:
        """Whether it has ended."""
        return self.is_over

    def snapshot(self) -> FlowSnapshot:
        """A flow that has done nothing."""
        return FlowStatus(str(self.flow)).snapshot()


class Bench:
    """Two pairs and all herders that were ever made for them."""

    def __init__(self) -> None:
        self.made: list[SlowHerder] = []
        config = MirrorConfig.parse(FILE)
        settings = [config.flow_settings(flow) for flow in (AB, BA)]
        self.plans = {
            one.flow: PairPlan(one, load_policy(one.policy, one.flow)) for one in settings
        }
        self.pairs = Pairs(self._make, self.plans.values())
        self.pairs.start()

    def _make(self, plan: PairPlan) -> Herder:
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
    return Bench()


def test_a_changed_pair_is_begun_anew_after_its_end_and_others_hear_nothing(bench: Bench) -> None:
    """Nobody waits meanwhile."""
    bench.pairs.apply(WHOLE, bench.plans)
    assert bench.pairs.proceed()
    assert bench.heard == [["start", "stop"], ["start"]]
    bench.made[0].is_over = True
    assert not bench.pairs.proceed()
    assert bench.heard == [["start", "stop"], ["start"], ["start"]]
    assert bench.shown() == ["a->b", "b->a"]


def test_a_stopped_pair_is_in_view_until_it_has_ended(bench: Bench) -> None:
    """Then it is gone."""
    bench.pairs.apply(Changes(stopped=(AB,)), {BA: bench.plans[BA]})
    assert bench.pairs.proceed()
    assert bench.shown() == ["b->a", "a->b"]
    bench.made[0].is_over = True
    assert not bench.pairs.proceed()
    assert bench.shown() == ["b->a"]


def test_a_pair_that_comes_back_before_it_has_ended_is_begun_once(bench: Bench) -> None:
    """Stopped, started and changed in three files, one after the other."""
    bench.pairs.apply(Changes(stopped=(AB,)), {BA: bench.plans[BA]})
    bench.pairs.apply(Changes(started=(AB,)), bench.plans)
    bench.pairs.apply(SMALL, bench.plans)
    assert bench.pairs.proceed()
    bench.made[0].is_over = True
    bench.pairs.proceed()
    assert bench.heard == [["start", "stop"], ["start"], ["start"]]


def test_a_small_change_reaches_the_herder_that_runs(bench: Bench) -> None:
    """Nothing is stopped; before everything has started it is begun anew instead."""
    bench.pairs.apply(SMALL, bench.plans)
    assert not bench.pairs.proceed()
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
        assert bench.pairs.proceed()
    assert len(bench.made) == 2
    assert caplog.text.count("a->b: has not ended within") == 1
    assert "does not end" in bench.pairs.snapshots()[0].troubles[0]
    bench.made[0].is_over = True
    assert not bench.pairs.proceed()
    assert bench.pairs.snapshots()[0].troubles == ()


def test_the_end_of_the_process_waits_for_pairs_that_are_ending(bench: Bench) -> None:
    """Whether all of them wrote their positions."""
    bench.pairs.apply(Changes(stopped=(AB,)), {BA: bench.plans[BA]})
    bench.made[1].is_over = True
    assert not bench.pairs.stop(0.1)
    bench.made[0].is_over = True
    assert bench.pairs.stop(0.1)
    assert "start" not in bench.made[0].heard[1:]
