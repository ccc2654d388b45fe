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

from sparkmirror.errors import SetupError
from sparkmirror.security.redaction import limit_library_logs
from sparkmirror.spark.context import RunningSpark, spark_options, start_spark
from sparkmirror.spark.executor_environment import PACKAGE_ZIP, zip_package
from sparkmirror.spark.executor_probe import (
    Address,
    ExecutorReport,
    hopeless_reason,
    probe_executors,
)
from sparkmirror.spark.shared_context import CONTROL_HOST_KEY, control_port
from sparkmirror.spark.spark_log import SparkLog
from sparkmirror.spark.spark_problem import java_cause
from sparkmirror.spark.standalone_master import (
    connection_problem,
    executor_problem,
    is_standalone,
    read_master_state,
)

_TIMEOUT_SECONDS = 150.0  # Spark tries a master for 60 s, and we executors for 60 s
_EXECUTOR_SECONDS = 60.0
_SETTLE_SECONDS = 3.0  # executors register one after another
_POLL_SECONDS = 0.25
_QUIET = 100  # above `critical`: py4j reports what we report


@dataclass(frozen=True, slots=True)
class SparkClusterReport:
    """The result of one test of a Spark cluster."""

    master: str
    slots: int = 0  # concurrent tasks
    executors: tuple[ExecutorReport, ...] = ()
    problem: str = ""
    brokers: int = 0  # that each executor tried to reach

    @property
    def ok(self) -> bool:
        return not self.problem and all(one.ok for one in self.executors)


def check_cluster(options: Mapping[str, str], brokers: Sequence[Address]) -> SparkClusterReport:
    """Start Spark with these options and probe its executors; blocks for minutes at most."""
    master = options["spark.master"]
    problem = connection_problem(master) if is_standalone(master) else ""
    if problem:
        return SparkClusterReport(master, problem=problem)
    found: list[SparkClusterReport] = []
    test = threading.Thread(
        target=lambda: found.append(_test(master, options, brokers)),
        name="check of Spark",
        daemon=True,  # Spark may block for longer; its JVM ends with this process
    )
    test.start()
    test.join(_TIMEOUT_SECONDS)
    if found:
        return found[0]
    problem = f"Spark has not started with spark.master={master} for {_TIMEOUT_SECONDS:.0f} s."
    return SparkClusterReport(master, problem=problem)


def _test(
    master: str, options: Mapping[str, str], brokers: Sequence[Address]
) -> SparkClusterReport:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    limit_library_logs("py4j", _QUIET)
    with tempfile.TemporaryDirectory(prefix="sparkmirror-check-") as folder:
        log = SparkLog(Path(folder) / "spark.log")
        try:
            spark = start_spark(spark_options(master, options, archive=None), log.path)
        except (Py4JError, PySparkException, OSError, ValueError) as error:
            cause = log.start_failure() or java_cause(error)
            return SparkClusterReport(
                master, problem=f"Cannot start Spark ({master}): {cause.rstrip('.')}."
            )
        try:
            zip_package(Path(folder) / PACKAGE_ZIP)
            spark.context.addPyFile(str(Path(folder) / PACKAGE_ZIP))
            return _probe(spark, options, brokers, log)
        except (Py4JError, OSError, SetupError) as error:
            problem = str(error) if isinstance(error, SetupError) else java_cause(error)
            return SparkClusterReport(master, problem=log.last_error() or problem)
        finally:
            spark.stop()


def _probe(
    spark: RunningSpark, options: Mapping[str, str], brokers: Sequence[Address], log: SparkLog
) -> SparkClusterReport:
    master = options["spark.master"]
    slots = _await_slots(spark)
    if not slots:
        return SparkClusterReport(master, problem=_absence(spark, master, log))
    advertised = spark.context.getConf().get("spark.driver.host", "")
    host = options.get(CONTROL_HOST_KEY) or advertised
    with _listen(host, options) as listener:
        executors = probe_executors(spark.context, (host, listener.getsockname()[1]), brokers)
    problem = hopeless_reason(executors)
    if not executors:
        problem = f"The executors of {master} have not run a task in time."
    return SparkClusterReport(master, slots, tuple(executors), problem, len(brokers))


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


def _absence(spark: RunningSpark, master: str, log: SparkLog) -> str:
    """Return why there are no executors."""
    if is_standalone(master) and not spark.is_stopped():
        conf = spark.context.getConf()
        state = read_master_state(spark, master)
        cores = int(conf.get("spark.executor.cores", "1"))
        found = executor_problem(master, state, spark.scala_context.executorMemory(), cores)
        if found is not None:
            return str(found)
    cause = "".join(log.executor_failures()[-1:]) or log.last_error()
    return (
        f"{master} has started no executor for {_EXECUTOR_SECONDS:.0f} s"
        f"{f': {cause}' if cause else ''}. Read the logs of its workers."
    )


def _listen(host: str, options: Mapping[str, str]) -> socket.socket:
    """Listen where a run would open the control channel. Raises SetupError."""
    bind = options.get("spark.driver.bindAddress") or host
    port = control_port(options)
    try:
        return socket.create_server((bind, port))
    except OSError as error:
        raise SetupError(
            f"Cannot listen on {bind}:{port} for the control channel: {error.strerror}.",
            remedy="Set spark.driver.bindAddress to an address of this machine, and a free "
            "spark.sparkmirror.control.port; a running sparkmirror may use it.",
        ) from error
