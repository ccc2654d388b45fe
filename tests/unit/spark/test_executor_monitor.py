# SPDX-License-Identifier: Apache-2.0
"""When the slots of new executors count; the rest is tested on a real cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from sparkmirror import __version__
from sparkmirror.spark import executor_monitor
from sparkmirror.spark.executor_monitor import _GainedSlots, probe_problem
from sparkmirror.spark.executor_probe import ExecutorReport, failed_report
from support.waiting import PATIENCE_SECONDS, eventually

HEALTHY = ExecutorReport("host", python="", sparkmirror=__version__)
CONTROL = ("127.0.0.1", 1)


class Probes:
    """Probe jobs that a test ends."""

    def __init__(self) -> None:
        self.count = 0
        self.reports = [HEALTHY]
        self.release = threading.Event()

    def __call__(self, *_: Any) -> list[ExecutorReport]:
        self.count += 1
        assert self.release.wait(PATIENCE_SECONDS)
        return self.reports


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Probes]:
    made = Probes()
    monkeypatch.setattr(executor_monitor, "probe_executors", made)
    yield made
    made.release.set()


def gains() -> _GainedSlots:
    return _GainedSlots(cast("Any", type("Running", (), {"context": None})), CONTROL)


def finish(found: _GainedSlots, registered: int, now: float) -> int:
    """The usable slots after the probe that runs."""
    probe = found._probe
    assert probe is not None
    eventually(probe.done, PATIENCE_SECONDS, "the probe ends")
    return found.usable_slots(registered, now)


def test_gained_slots_count_after_a_probe_and_lost_ones_at_once(probes: Probes) -> None:
    found = gains()
    assert found.usable_slots(2, 10.0) == 0
    assert found.usable_slots(4, 10.5) == 0
    assert found.usable_slots(4, 11.4) == probes.count == 0
    assert found.usable_slots(4, 11.6) == 0
    probes.release.set()
    assert finish(found, 4, 13.0) == 4
    assert found.usable_slots(2, 14.0) == 2
    assert found.usable_slots(2, 99.0) == 2
    assert probes.count == 1


def test_tasks_keep_their_slots_while_new_executors_are_tested(probes: Probes) -> None:
    probes.release.set()
    found = gains()
    found.usable_slots(2, 10.0)
    found.usable_slots(2, 12.0)
    assert finish(found, 2, 13.0) == 2
    probes.release.clear()
    found.usable_slots(4, 20.0)
    assert found.usable_slots(4, 22.0) == 2
    probes.release.set()
    assert finish(found, 3, 23.0) == 3


def test_executors_that_cannot_run_tasks_are_tested_again_later(probes: Probes) -> None:
    probes.release.set()
    probes.reports = [ExecutorReport("host", sparkmirror=__version__, import_errors=("lz4: no",))]
    found = gains()
    found.usable_slots(2, 10.0)
    found.usable_slots(2, 12.0)
    assert finish(found, 2, 13.0) == 0
    assert found.problem is not None
    assert found.problem.is_hopeless
    assert found.usable_slots(2, 20.0) == 0
    assert probes.count == 1
    probes.reports = [HEALTHY]
    found.usable_slots(2, 44.0)
    assert finish(found, 2, 45.0) == 2
    assert found.problem is None


def test_a_lost_executor_during_the_probe_is_transient() -> None:
    problem = probe_problem([failed_report("ExecutorLostFailure")])
    assert problem is not None
    assert not problem.is_hopeless
    assert probe_problem([]) is None
