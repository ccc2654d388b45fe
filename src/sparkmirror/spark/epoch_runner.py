# SPDX-License-Identifier: Apache-2.0
"""Runs the epochs of a flow: one Spark job each, with a watchdog.

The flow's thread blocks in `run`; any thread may call `end`, which makes the tasks finish within
seconds. The watchdog ends the epoch if its plan is outdated or a split has no task. It cancels the
job if a task is silent for longer than its lease, or an ended epoch does not finish; the splits
then continue from what their tasks had stored.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkmirror.model import ProducerState, TopicPartition
from sparkmirror.quantities import counted
from sparkmirror.spark.control_server import ControlServer, EpochTasks
from sparkmirror.spark.encryption_check import encryption_warning
from sparkmirror.spark.spark_problem import SparkProblem, job_problem
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.task.control_protocol import ControlEndpoint
from sparkmirror.task.entry_point import copy_function
from sparkmirror.task.messages import (
    Progress,
    Receipt,
    Split,
    TaskSettings,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

_START_SECONDS = 60.0  # a cold executor takes seconds to import
_RETRY_SECONDS = 10.0  # Spark has a slot for a failed task at once, or none
_UNSTARTED_END_SECONDS = 3.0  # nothing is lost with an epoch that never had a task
_END_SECONDS = 20.0  # tasks finish within seconds, and free slots for splits that wait
_WATCH_SECONDS = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """The position of a topic partition at the end of an epoch."""

    position: int
    downstream: int
    producer: ProducerState
    leader_epoch: int
    is_clean: bool  # everything written was acknowledged: a successor need not compare
    map_chunk: str = ""  # the open chunk of the offset map


@dataclass(frozen=True, slots=True)
class EpochResult:
    """The result of an epoch: positions for the next one, receipts, and the failure if any."""

    ends: dict[TopicPartition, PartitionEnd]
    receipts: list[Receipt]
    failure: SparkProblem | None = None
    idle_splits: int = 0  # splits that never got a task


class EpochRunner:
    """Runs the epochs of one flow, one at a time."""

    def __init__(
        self,
        name: str,
        spark: Callable[[], SparkContext],
        control: ControlServer,
        on_progress: Callable[[Progress], None],
        *,
        on_waiting: Callable[[Collection[int]], None] = lambda _: None,
        before: int = 0,
    ) -> None:
        self._name = name  # jobs are cancelled by name: no other flow may have it
        self._spark = spark
        self._control = control
        self._on_progress = on_progress
        self._on_waiting = on_waiting  # receives the splits that have had no task for some time
        self._tasks: EpochTasks | None = None
        self._lock = threading.Lock()
        self._end_early = False
        self._encryption_checked = False
        self.number = before  # a restarted flow continues counting

    def begin_planning(self) -> None:
        """Start planning: from now on `end` applies to the epoch that is being planned."""
        with self._lock:
            self._end_early = False

    def end(self) -> None:
        """Finish the running epoch, or the one that is being planned."""
        with self._lock:
            if self._tasks is not None:
                self._control.end_epoch(self._tasks)
            else:
                self._end_early = True

    def run(
        self,
        splits: tuple[Split, ...],
        settings: TaskSettings,
        is_outdated: Callable[[], bool] = lambda: False,
        *,
        takes_turns: bool = False,
    ) -> EpochResult:
        """Run one epoch to its end; blocks. Failures of Spark are returned as a value.

        The epoch ends early when another plan would be better (`is_outdated`). If the flow
        `takes_turns`, other flows may have all slots for as long as their epochs take.
        """
        self.number += 1
        spark = self._spark()
        self._check_encryption(spark, settings)
        tasks = EpochTasks({split.index: split for split in splits}, settings, self._on_progress)
        with self._lock:
            self._tasks = tasks
            tasks.is_ending = self._end_early
            self._end_early = False
        endpoint = self._control.open_epoch(tasks)
        group = f"{self._name} epoch {self.number}"
        partitions = sum(len(split.partitions) for split in splits)
        stop_watching = threading.Event()
        watchdog = ScopedThread(
            target=self._watch,
            args=(spark, group, tasks, is_outdated, stop_watching, takes_turns),
            name=f"{self._name}/watchdog",
            daemon=True,
        )
        watchdog.start()
        try:
            receipts = self._run_job(
                spark,
                group,
                f"{group}: {counted(partitions, 'topic partition')}",
                len(splits),
                endpoint,
            )
        except _spark_errors() as error:
            failure = (
                SparkProblem(tasks.cancel_reason) if tasks.cancel_reason else _problem_of(error)
            )
            self._control.disconnect_epoch(tasks)
            ends = {
                start.source: PartitionEnd(
                    start.position,
                    start.downstream,
                    start.producer,
                    start.leader_epoch,
                    is_clean=False,
                )
                for split in splits
                for start in tasks.resumed_split(split.index).partitions
            }
            return EpochResult(ends, [], failure, len(tasks.unstarted_splits()))
        finally:
            stop_watching.set()
            self._control.close_epoch(tasks)
            with self._lock:
                self._tasks = None
        return EpochResult(_ends_from(receipts), receipts)

    def _check_encryption(self, spark: SparkContext, settings: TaskSettings) -> None:
        if self._encryption_checked:
            return
        self._encryption_checked = True
        warning = encryption_warning(dict(spark.getConf().getAll()), settings)
        if warning:
            _log.warning("%s: %s", self._name, warning)

    def _run_job(
        self, spark: SparkContext, group: str, title: str, splits: int, endpoint: ControlEndpoint
    ) -> list[Receipt]:
        try:
            spark.setJobGroup(group, title, interruptOnCancel=True)
            # One row and one partition per split, in order.
            rdd = spark.parallelize(range(splits), splits)
            rows = rdd.flatMap(copy_function(endpoint)).collect()
        except (AttributeError, AssertionError) as error:
            if not _is_replaced(spark):
                raise
            raise ConnectionError("SparkContext was shut down") from error
        return [Receipt(*row) for row in rows]

    def _watch(
        self,
        spark: SparkContext,
        group: str,
        tasks: EpochTasks,
        is_outdated: Callable[[], bool],
        stop: threading.Event,
        takes_turns: bool,
    ) -> None:
        ended_at: float | None = None
        while not stop.wait(_WATCH_SECONDS):
            self._on_waiting(tasks.waiting_splits(_RETRY_SECONDS))
            reason = _cancel_reason(tasks, ended_at, takes_turns=takes_turns)
            if reason:
                tasks.cancel_reason = reason
                _log.warning("%s: %s; cancelling the job and replanning", group, reason)
                with contextlib.suppress(*_spark_errors(), AttributeError):  # it has been replaced
                    spark.cancelJobGroup(group)
                return
            if ended_at is None and (tasks.is_ending or is_outdated() or _is_stuck(tasks)):
                if not tasks.is_ending:
                    _log.info("%s: replanning", group)
                    self._control.end_epoch(tasks)
                ended_at = time.monotonic()


def _is_replaced(spark: SparkContext) -> bool:
    """Whether another thread has stopped this context; PySpark then fails on its own attributes."""
    return getattr(spark, "_jsc", None) is None


def _is_stuck(tasks: EpochTasks) -> bool:
    """Whether a split lost its task and Spark has no slot for another one."""
    lost = set(tasks.waiting_splits(_RETRY_SECONDS)) - set(tasks.unstarted_splits())
    return bool(lost)


def _cancel_reason(tasks: EpochTasks, ended_at: float | None, *, takes_turns: bool) -> str:
    # Twice the lease: a task ends itself first.
    silent = tasks.silent_splits(2 * tasks.settings.lease_seconds)
    if tasks.dead_splits:
        return f"the tasks of splits {sorted(tasks.dead_splits)} died"
    if silent:
        return f"splits {silent} are silent"
    never_ran = set(tasks.unstarted_splits())
    ending_seconds = 0.0 if ended_at is None else time.monotonic() - ended_at
    if len(never_ran) == tasks.split_count and ending_seconds > _UNSTARTED_END_SECONDS:
        return "it was ended before a task started"
    unstarted = set(tasks.waiting_splits(_START_SECONDS)) & never_ran
    if unstarted and not takes_turns:
        return f"{counted(len(unstarted), 'task')} never started"
    waiting = tasks.waiting_splits()
    return f"splits {waiting} have no task" if ending_seconds > _END_SECONDS and waiting else ""


def _ends_from(receipts: list[Receipt]) -> dict[TopicPartition, PartitionEnd]:
    return {
        TopicPartition(one.topic, one.partition): PartitionEnd(
            one.position,
            one.downstream,
            ProducerState(one.producer_id, one.producer_epoch, one.next_sequence),
            one.leader_epoch,
            one.is_clean,
            one.map_chunk,
        )
        for one in receipts
    }


def _problem_of(error: Exception) -> SparkProblem:
    if isinstance(error, ConnectionError):
        return SparkProblem("Spark's JVM does not answer")
    return job_problem(str(error))


def _spark_errors() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark, which starts late
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    # A JVM that has exited refuses the connection; the process reports it when it ends.
    return (Py4JError, PySparkException, ConnectionError)
