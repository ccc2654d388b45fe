# SPDX-License-Identifier: Apache-2.0
"""Follows the executors of one SparkContext on a cluster, and says why there are none.

Belongs to the thread of `shared_context`, which calls `check` once a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkmirror.spark.context import RunningSpark
from sparkmirror.spark.slots import SlotAllocator
from sparkmirror.spark.spark_log import SparkLog
from sparkmirror.spark.spark_problem import SparkProblem, classify
from sparkmirror.spark.standalone_master import (
    executor_problem,
    is_standalone,
    read_master_state,
)

_DIAGNOSE_SECONDS = 5.0  # without executors; a cluster assigns them within seconds


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a context."""

    slots: int
    problem: SparkProblem | None = None
    is_useless: bool = False  # it must be replaced


class ExecutorMonitor:
    """One context from its start to its replacement."""

    def __init__(
        self, running: RunningSpark, master: str, slots: SlotAllocator[Any], log: SparkLog
    ) -> None:
        self._running = running
        self._master = master
        self._slots = slots
        self._log = log
        self._had_executors = False
        self._asked_at = 0.0
        self._problem: SparkProblem | None = None

    def check(self, now: float) -> Verdict:
        """Count the task slots; look for the cause if there are none. Raises Py4JError."""
        if self._running.is_stopped():
            return Verdict(0, self._stop_problem(), is_useless=True)
        slots = self._running.task_slots()
        self._slots.observe(slots, now)
        if slots:
            self._had_executors, self._problem = True, None
            return Verdict(slots)
        is_due = now - self._asked_at > _DIAGNOSE_SECONDS
        if is_due and self._slots.seconds_without(now) > _DIAGNOSE_SECONDS:
            self._asked_at = now
            self._problem = self._missing_executors()
            if self._problem is None:
                reason = f"The Spark master {self._master} was restarted without recovery mode."
                problem = SparkProblem(f"{reason} It does not know this application.")
                return Verdict(0, problem, is_useless=True)
        return Verdict(0, self._problem)

    def _stop_problem(self) -> SparkProblem:
        """Return why Spark has stopped the context."""
        cause = self._log.last_error() or f"no reason in {self._log.path}"
        detail = self._log.last_executor_failure()
        found = classify(detail or cause)
        if found.is_hopeless:
            return found
        reason = f"Spark stopped the application: {cause}"
        if self._had_executors:
            return SparkProblem(reason)
        return SparkProblem(
            f"{reason} No executor could start{f': {detail}' if detail else ''}. Read its stderr "
            "file in the work directory of the worker. See docs/spark-cluster.md.",
            is_hopeless=True,
        )

    def _missing_executors(self) -> SparkProblem | None:
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
        detail = self._log.last_executor_failure()
        waiting = f"Spark ({self._master}): no executor has registered yet; flows wait."
        return SparkProblem(f"{waiting} Last failure: {detail}" if detail else waiting)
