# SPDX-License-Identifier: Apache-2.0
"""Follows the executors of one SparkContext on a cluster, and says why there are none.

Belongs to the thread of `shared_context`, which calls `check` once a second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkmirror.spark.context import RunningSpark
from sparkmirror.spark.executor_probe import (
    ExecutorReport,
    failed_report,
    hopeless_reason,
    probe_executors,
)
from sparkmirror.spark.slots import SlotAllocator
from sparkmirror.spark.spark_log import SparkLog
from sparkmirror.spark.spark_problem import SparkProblem
from sparkmirror.spark.standalone_master import (
    executor_problem,
    is_standalone,
    read_master_state,
)

_DIAGNOSE_SECONDS = 5.0  # without executors; a cluster assigns them within seconds
_MAX_FAILURES = 3  # of executors before the first one has registered
_MAX_LATER_FAILURES = 10  # since the last one was lost; that is a failure, too
_SETTLE_SECONDS = 1.0  # executors register one after another
_RETRY_SECONDS = 10.0  # between two probes while executors cannot run tasks
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a context."""

    slots: int
    problem: SparkProblem | None = None
    is_useless: bool = False  # it must be replaced


class ExecutorMonitor:
    """One context from its start to its replacement."""

    def __init__(
        self,
        running: RunningSpark,
        master: str,
        slots: SlotAllocator[Any],
        log: SparkLog,
        control_address: tuple[str, int],
    ) -> None:
        self._running = running
        self._master = master
        self._slots = slots
        self._log = log
        self._had_executors = False
        self._has_executors = False
        self._failures_seen = 0  # until an executor registered
        self._asked_at = 0.0
        self._problem: SparkProblem | None = None
        self._gains = _GainedSlots(running, control_address)

    def check(self, now: float) -> Verdict:
        """Count the task slots; look for the cause if there are none. Raises Py4JError."""
        if self._running.is_stopped():
            self._slots.set_slots(0, now)
            return Verdict(0, self._stop_problem(), is_useless=True)
        registered = self._running.task_slots()
        slots = self._gains.usable_slots(registered, now)
        self._slots.set_slots(slots, now)
        if registered:
            if not self._has_executors:
                self._failures_seen = len(self._log.executor_failures())
            self._has_executors = self._had_executors = True
            self._problem = None
            return Verdict(slots, None if slots else self._gains.problem)
        self._has_executors = False
        is_due = now - self._asked_at > _DIAGNOSE_SECONDS
        if is_due and self._slots.seconds_without(now) > _DIAGNOSE_SECONDS:
            self._asked_at = now
            failures = self._log.executor_failures()[self._failures_seen :]
            if len(failures) >= (_MAX_LATER_FAILURES if self._had_executors else _MAX_FAILURES):
                # The cluster would start another one at once, for ever.
                reason = f"Executors of {self._master} end while they start"
                return Verdict(0, _failed_executors(reason, failures[-1]), is_useless=True)
            self._problem = self._missing_executors(failures)
            if self._problem is None:
                reason = f"The Spark master {self._master} was restarted without recovery mode."
                problem = SparkProblem(f"{reason} It does not know this application.")
                return Verdict(0, problem, is_useless=True)
        return Verdict(0, self._problem)

    def _stop_problem(self) -> SparkProblem:
        """Return why Spark has stopped the context."""
        cause = self._log.last_error() or f"no reason in {self._log.path}"
        reason = f"Spark stopped the application: {cause}"
        failures = self._log.executor_failures()
        if self._had_executors or not failures:
            return SparkProblem(reason)
        return _failed_executors(reason, failures[-1])

    def _missing_executors(self, failures: Sequence[str]) -> SparkProblem | None:
        """Return why there are no executors; None if the master does not know the application."""
        running = self._running
        if is_standalone(self._master):
            state = read_master_state(running, self._master)
            if state is not None and not state.knows_application:
                return None
            cores = int(running.context.getConf().get("spark.executor.cores", "1"))
            memory_mib = running.scala_context.executorMemory()
            found = executor_problem(self._master, state, memory_mib, cores)
            if found is not None:
                return found
        waiting = f"Spark ({self._master}): no executor has registered yet; flows wait."
        if is_standalone(self._master):
            waiting += " Workers may be down, or their cores in use: see the master's web page."
        return SparkProblem(f"{waiting} Last failure: {failures[-1]}." if failures else waiting)


def _failed_executors(reason: str, failure: str) -> SparkProblem:
    return SparkProblem(
        f"{reason}: {failure}. Read the file stderr of an executor in the work directory of its "
        "worker. See docs/spark-cluster.md.",
        is_hopeless=True,
    )


class _GainedSlots:
    """Tests new executors before an epoch uses them, with a job on their free slots.

    The job starts Python there, which takes seconds, while the tasks of the running epoch continue
    on the other slots. An executor that cannot run tasks does not end a healthy epoch.
    """

    def __init__(self, running: RunningSpark, control_address: tuple[str, int]) -> None:
        self._running = running
        self._control_address = control_address
        self._usable = 0
        self._registered = 0
        self._registered_since = 0.0
        self._probed = 0  # the slots that were registered when the probe started
        self._probe: _Probe | None = None
        self._retry_at = 0.0
        self.problem: SparkProblem | None = None  # why gained slots cannot be used

    def usable_slots(self, registered: int, now: float) -> int:
        """Return the slots to use. A lost slot counts at once, a gained one after its test."""
        if registered != self._registered:
            self._registered, self._registered_since = registered, now
            self._retry_at = 0.0
        self._usable = min(self._usable, registered)
        if self._probe is not None and not self._probe.is_alive():
            self._finish(self._probe.reports, now)
        is_settled = now - self._registered_since >= _SETTLE_SECONDS and now >= self._retry_at
        if self._probe is None and registered > self._usable and is_settled:
            self._probed = registered
            self._probe = _Probe(self._running, self._control_address)
            self._probe.start()
        return self._usable

    def _finish(self, reports: list[ExecutorReport], now: float) -> None:
        self._probe = None
        before, self.problem = self.problem, probe_problem(reports)
        if self.problem is None:
            self._usable = min(self._probed, self._registered)
            return
        self._retry_at = now + _RETRY_SECONDS
        if self._usable and self.problem != before:
            _log.warning("New executors cannot be used: %s", self.problem)


class _Probe(threading.Thread):
    """One probe job. A daemon: a process that ends does not wait for it."""

    def __init__(self, running: RunningSpark, control_address: tuple[str, int]) -> None:
        super().__init__(name="spark/probe", daemon=True)
        self._running = running
        self._control_address = control_address
        self.reports: list[ExecutorReport] = []  # after its end

    def run(self) -> None:
        try:
            self.reports = probe_executors(self._running.context, self._control_address, ())
        except Exception as error:  # noqa: BLE001 - a thread's root: Spark may be stopping
            self.reports = [failed_report(str(error))]


def probe_problem(reports: list[ExecutorReport]) -> SparkProblem | None:
    """Return why executors cannot run tasks. Without a report in time they may be busy."""
    reason = hopeless_reason(reports)
    is_hopeless = not any(report.is_transient for report in reports)
    return SparkProblem(reason, is_hopeless) if reason else None
