# SPDX-License-Identifier: Apache-2.0
"""When the slots of new executors count; the rest is tested on a real cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sparkmirror import __version__
from sparkmirror.spark import executor_monitor
from sparkmirror.spark.executor_monitor import ExecutorMonitor, _GainedSlots, probe_problem
from sparkmirror.spark.executor_probe import ExecutorReport, failed_report
from sparkmirror.spark.slots import SlotAllocator
from sparkmirror.spark.spark_log import SparkLog
from support.waiting import PATIENCE_SECONDS, eventually

HEALTHY = ExecutorReport("host", python="", sparkmirror=__version__)
CONTROL = ("127.0.0.1", 1)


class Probes:
    """Probe jobs that a test ends."""

    def __init__(self) -> None:
        self.count = 0
        self.reports = [HEALTHY]
        self.release = threading.Event()
        self.error: Exception | None = None

    def __call__(self, *_: Any) -> list[ExecutorReport]:
        self.count += 1
        assert self.release.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
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
    eventually(lambda: not probe.is_alive(), PATIENCE_SECONDS, "the probe ends")
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
    found.usable_slots(2, 24.0)
    assert finish(found, 2, 25.0) == 2
    assert found.problem is None


def test_a_probe_that_raises_is_repeated(probes: Probes) -> None:
    """The context may have been stopped while the probe was cancelled."""
    probes.release.set()
    probes.error = RuntimeError("stopped")
    found = gains()
    found.usable_slots(2, 10.0)
    found.usable_slots(2, 12.0)
    assert finish(found, 2, 13.0) == 0
    assert found.problem is not None
    assert not found.problem.is_hopeless
    probes.error = None
    found.usable_slots(2, 24.0)
    assert finish(found, 2, 25.0) == 2


@pytest.mark.usefixtures("probes")
def test_a_process_that_ends_does_not_wait_for_a_probe() -> None:
    found = gains()
    found.usable_slots(2, 10.0)
    found.usable_slots(2, 12.0)
    assert found._probe is not None
    assert found._probe.is_alive()
    assert found._probe.daemon


@pytest.mark.parametrize(
    ("failures", "is_hopeless"), [((), False), (("Command exited with code 1",), True)]
)
def test_executors_are_blamed_only_if_some_have_failed(
    tmp_path: Path, failures: tuple[str, ...], is_hopeless: bool
) -> None:
    """A master that is lost before the first executor has registered stops the context, too."""
    log = SparkLog(tmp_path / "spark.log")
    lines = [f"Executor updated: app/0 is now EXITED ({one})\n" for one in failures]
    log.path.write_text("".join(lines), encoding="utf-8")
    stopped = type("Running", (), {"context": None, "is_stopped": lambda _: True})()
    monitor = ExecutorMonitor(stopped, "spark://h:1", SlotAllocator(""), log, CONTROL)
    verdict = monitor.check(10.0)
    assert verdict.is_useless
    assert verdict.problem is not None
    assert verdict.problem.is_hopeless == is_hopeless
    assert ("stderr" in str(verdict.problem)) == is_hopeless


@pytest.mark.usefixtures("probes")
@pytest.mark.parametrize(("was_used", "failures"), [(False, 3), (True, 10)])
def test_executors_that_end_while_they_start_stop_the_application(
    tmp_path: Path, *, was_used: bool, failures: int
) -> None:
    """Failures before an executor registered do not count afterwards."""
    log = SparkLog(tmp_path / "spark.log")
    line = "Executor updated: app/0 is now EXITED (Command exited with code 1)\n"
    slots = [2] if was_used else []
    members = {
        "context": None,
        "is_stopped": lambda _: False,
        "task_slots": lambda _: slots.pop() if slots else 0,
    }
    running = type("Running", (), members)()
    monitor = ExecutorMonitor(running, "k8s://h", SlotAllocator(""), log, CONTROL)
    if was_used:
        log.path.write_text(line * 2, encoding="utf-8")
        assert monitor.check(10.0).problem is None
    assert not monitor.check(11.0).is_useless
    with log.path.open("a", encoding="utf-8") as file:
        file.write(line * (failures - 1))
    verdict = monitor.check(20.0)
    assert not verdict.is_useless
    assert "Last failure: Command exited with code 1" in str(verdict.problem)
    with log.path.open("a", encoding="utf-8") as file:
        file.write(line)
    verdict = monitor.check(30.0)
    assert verdict.is_useless
    assert verdict.problem is not None
    assert verdict.problem.is_hopeless


def test_a_lost_executor_during_the_probe_is_transient() -> None:
    problem = probe_problem([failed_report("ExecutorLostFailure")])
    assert problem is not None
    assert not problem.is_hopeless
    assert probe_problem([]) is None
