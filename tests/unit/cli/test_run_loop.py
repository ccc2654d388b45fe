# SPDX-License-Identifier: Apache-2.0
"""The main loop of `run` and `worker`: what ends it, and with which exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

import pytest

from sparkmirror.cli import run as run_file
from sparkmirror.cli import run_loop as loop
from sparkmirror.cli.run import _EndOfRun
from sparkmirror.cli.run_loop import (
    FATAL,
    OK,
    START_FAILED,
    UNCLEAN,
    Ending,
    run_until_stopped,
)
from sparkmirror.errors import SetupError
from sparkmirror.runtime.mirror import Mirror
from sparkmirror.runtime.reload import Reloader
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState, FlowStatus


class FakeSignals:
    """A stop after so many waits; every second wait is ended by SIGHUP."""

    waits = 3

    def __init__(self, *, reloads: bool) -> None:
        self.reloads = reloads
        self._left = self.waits

    def wait(self, _seconds: float) -> bool:
        self._left -= 1
        return self._left < 0

    def consume_reload_request(self) -> bool:
        return self._left % 2 == 0


class FakeRuntime:
    """Notes its calls; also a view and a reloader."""

    errors = ("the file is wrong",)

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.lines: list[str] = []
        self.remarks: list[Sequence[str]] = []
        self.failure: Exception | None = None
        self.is_clean = True

    def start(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.calls.append("start")

    def snapshots(self) -> list[FlowSnapshot]:
        return []

    def stop(self) -> bool:
        self.calls.append("stop")
        return self.is_clean

    def poll(self, *, is_requested: bool) -> None:
        self.calls.append(f"poll {is_requested}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, _flows: object, remarks: Sequence[str] = ()) -> None:
        self.remarks.append(remarks)

    def print_summary(self, _flows: object) -> None:
        self.lines.append("summary")

    def run(self, ending: Ending | None = None, *, reloads: bool = True) -> int:
        reloader = cast("Reloader", self) if reloads else None
        return run_until_stopped(self, self, reloader, lambda: ending)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    made = FakeRuntime()
    monkeypatch.setattr(loop, "ProcessSignals", FakeSignals)
    for level in ("warning", "error"):
        monkeypatch.setattr(loop._log, level, made.lines.append)
    return made


def test_a_signal_ends_the_loop_in_order(runtime: FakeRuntime) -> None:
    assert runtime.run() == OK
    assert runtime.calls == ["start", "poll True", "poll False", "poll True", "stop"]
    assert runtime.remarks == [runtime.errors] * 3 + [()]
    assert runtime.lines == ["summary"]


def test_positions_that_were_not_written_are_reported(runtime: FakeRuntime) -> None:
    runtime.is_clean = False
    assert runtime.run(reloads=False) == OK
    assert runtime.calls == ["start", "stop"]
    assert runtime.lines == [UNCLEAN, "summary"]


def test_an_ending_is_reported_with_its_exit_code(runtime: FakeRuntime) -> None:
    assert runtime.run(Ending(FATAL, "Spark is gone")) == FATAL
    assert runtime.calls == ["start", "poll True", "stop"]
    assert runtime.lines == ["Spark is gone", "summary"]


def test_a_failed_start_ends_at_once(runtime: FakeRuntime) -> None:
    runtime.failure = SetupError("The port is taken.")
    assert runtime.run() == START_FAILED
    assert runtime.calls == []
    assert runtime.lines == ["The port is taken."]


class FakeMirror:
    """One flow."""

    def __init__(self) -> None:
        self.status = FlowStatus("a->b")
        self.error: Exception | None = None

    def failure(self) -> Exception | None:
        return self.error

    def snapshots(self) -> list[FlowSnapshot]:
        return [self.status.snapshot()]

    copying_snapshots = snapshots

    def is_done(self) -> bool:
        return self.status.snapshot().state is FlowState.DONE


def test_a_run_without_spark_fails_as_a_start_until_it_has_copied() -> None:
    mirror = FakeMirror()
    end = _EndOfRun(cast("Mirror", mirror), once=False)
    assert end.check() is None
    mirror.error = SetupError("no Java")
    assert end.check() == Ending(START_FAILED, "no Java")
    mirror.error = None
    mirror.status.begin_epoch(1, [])
    assert end.check() is None
    mirror.error = SetupError("JVM died")
    assert end.check() == Ending(FATAL, "JVM died")


def test_a_bounded_run_ends_when_it_is_done_or_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = FakeMirror()
    end = _EndOfRun(cast("Mirror", mirror), once=True)
    mirror.status.set_state(FlowState.STANDBY, "stands by: host/2 runs it")
    assert end.check() is None
    monkeypatch.setattr(run_file, "_STUCK_SECONDS", -1.0)
    found = end.check()
    assert found is not None
    assert found.code == FATAL
    assert "a->b stands by: host/2 runs it" in found.message
    mirror.status.set_state(FlowState.FAILED)
    found = end.check()
    assert found is not None
    assert found.message == "no flow makes progress, and the problems above need manual action."
    mirror.status.set_state(FlowState.DONE)
    assert end.check() == Ending(OK)
