# SPDX-License-Identifier: Apache-2.0
"""Tests a Spark cluster for `check --connect`: master, executors, and what executors reach."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.errors import SetupError, SparkmirrorError
from sparkmirror.security.redaction import limit_library_logs
from sparkmirror.spark.context import RunningSpark, is_on_this_machine, spark_options, start_spark
from sparkmirror.spark.executor_environment import PACKAGE_ZIP, zip_package
from sparkmirror.spark.executor_probe import (
    Address,
    ExecutorReport,
    hopeless_reason,
    probe_executors,
)
from sparkmirror.spark.master_url import unreachable_masters, unreachable_problem
from sparkmirror.spark.spark_log import last_problem

_TIMEOUT_SECONDS = 150.0  # Spark tries a master for 60 s, and we executors for 60 s
_EXECUTOR_SECONDS = 60.0
_SETTLE_SECONDS = 3.0  # executors register one after another
_POLL_SECONDS = 0.25
_QUIET = 100  # above `critical`: py4j reports what we report


@dataclass(frozen=True, slots=True)
class SparkClusterReport:
    """The result of one test of a Spark cluster."""

    master: str
    unreachable: tuple[tuple[str, str], ...] = ()  # masters and why
    slots: int = 0  # concurrent tasks
    executors: tuple[ExecutorReport, ...] = ()
    problem: str = ""

    @property
    def ok(self) -> bool:
        return not self.problem and all(one.ok for one in self.executors)


def check_cluster(options: Mapping[str, str], brokers: Sequence[Address]) -> SparkClusterReport:
    """Start Spark with these options and probe its executors; blocks for minutes at most."""
    master = options["spark.master"]
    unreachable = tuple(unreachable_masters(master).items())
    problem = unreachable_problem(master) if unreachable else ""
    if problem:
        return SparkClusterReport(master, unreachable, problem=problem)
    found: list[SparkClusterReport] = []
    test = threading.Thread(
        target=lambda: found.append(_test(master, unreachable, options, brokers)),
        name="check of Spark",
        daemon=True,  # Spark may block for longer; its JVM ends with this process
    )
    test.start()
    test.join(_TIMEOUT_SECONDS)
    if found:
        return found[0]
    problem = f"Spark has not started with spark.master={master} for {_TIMEOUT_SECONDS:.0f} s."
    return SparkClusterReport(master, unreachable, problem=problem)


def needs_check(master: str) -> bool:
    """Whether executors are elsewhere, so that connections from here do not show theirs."""
    return not is_on_this_machine(master)


def _test(
    master: str,
    unreachable: tuple[tuple[str, str], ...],
    options: Mapping[str, str],
    brokers: Sequence[Address],
) -> SparkClusterReport:
    limit_library_logs("py4j", _QUIET)
    with tempfile.TemporaryDirectory(prefix="sparkmirror-check-") as folder:
        log_file = Path(folder) / "spark.log"
        try:
            spark = start_spark(spark_options(master, options, archive=None), log_file)
        except SparkmirrorError as error:
            sentence = str(error).removesuffix(f" See {log_file}.")  # it is deleted
            return SparkClusterReport(master, unreachable, problem=sentence)
        try:
            zip_package(Path(folder) / PACKAGE_ZIP)
            spark.context.addPyFile(str(Path(folder) / PACKAGE_ZIP))
            slots = _await_slots(spark)
            executors: list[ExecutorReport] = []
            problem = ""
            if slots:
                advertised = spark.context.getConf().get("spark.driver.host", "")
                host = options.get("spark.sparkmirror.control.host") or advertised
                with _listen(host, options) as listener:
                    address = (host, listener.getsockname()[1])
                    executors = probe_executors(spark.context, address, brokers)
                problem = hopeless_reason(executors)
            if not executors:
                problem = _absence(master, slots, log_file)
            return SparkClusterReport(master, unreachable, slots, tuple(executors), problem)
        except SetupError as error:
            return SparkClusterReport(master, unreachable, problem=str(error))
        finally:
            spark.stop()


def _await_slots(spark: RunningSpark) -> int:
    """Wait until executors have registered and no more arrive. Returns their slots."""
    began = time.monotonic()
    slots, since = 0, began
    while time.monotonic() - began < _EXECUTOR_SECONDS:
        now = spark.task_slots() if not spark.is_stopped() else 0
        if now != slots:
            slots, since = now, time.monotonic()
        elif slots and time.monotonic() - since > _SETTLE_SECONDS:
            return slots
        time.sleep(_POLL_SECONDS)
    return slots


def _absence(master: str, slots: int, log_file: Path) -> str:
    cause = last_problem(log_file)
    reason = f" Spark says: {cause.rstrip('.')}." if cause else ""
    if slots:
        return f"The executors of {master} have not run a task for {_EXECUTOR_SECONDS:.0f} s.{reason}"
    return (
        f"{master} has started no executor for {_EXECUTOR_SECONDS:.0f} s.{reason} Compare "
        "spark.executor.memory and spark.executor.cores with what its workers have free."
    )


def _listen(host: str, options: Mapping[str, str]) -> socket.socket:
    """Listen where a run would open the control channel. Raises SetupError."""
    bind = options.get("spark.driver.bindAddress") or host
    port = options.get("spark.sparkmirror.control.port", "0")
    try:
        return socket.create_server((bind, int(port)))
    except OSError as error:
        raise SetupError(
            f"Cannot listen on {bind}:{port} for the control channel: {error.strerror}.",
            remedy="Set spark.driver.bindAddress to an address of this machine, and a free "
            "spark.sparkmirror.control.port; a running sparkmirror may use it.",
        ) from error
