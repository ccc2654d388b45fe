# SPDX-License-Identifier: Apache-2.0
"""Starts the SparkContext that all flows share; in local mode it listens on loopback only.

The JVM does no hot work in a plain flow: small heap, serial garbage collector, no second compiler.
A class-data archive (built once per Java and installation of Spark, in the background) halves its
start. There is a context and no SQL session: an epoch is a job over one row per split. Planning it
as a query takes two seconds more at the start and 100 MiB (Catalyst in the JVM, pandas in workers).
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.config.files.spark_conf import SENSITIVE_PATTERN, is_sensitive
from sparkmirror.spark.executor_environment import (
    DAEMON_MODULE,
    PYTHON_PATH,
    QUICK_JAVA,
    archive_flags,
    executor_defaults,
    executor_python,
)
from sparkmirror.spark.master_url import LOCAL
from sparkmirror.spark.submitted_conf import (
    runs_under_spark_submit,
    spark_defaults,
    spark_home,
    submitted_conf,
    submitted_gateway,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOPBACK = "127.0.0.1"
TASK_FAILURES = 4
# Slots for flows that a changed file may add. In local mode a slot is a number; its thread starts
# with its first task. 64 more take no more time, and 10 MiB.
SPARE_SLOTS = 16
_FLOW_START_SECONDS = 0.3
_CLASS_LIST_VERSION = 2  # change it when other classes are loaded: older archives lack them
_log = logging.getLogger(__name__)


def choose_master(requested: str | None, splits: int) -> str:
    """Return the requested Spark master, else a local one with more slots than splits.

    In local mode Spark retries a failed task only if the master says so.
    """
    if requested is None:
        return f"local[{splits + 1 + SPARE_SLOTS},{TASK_FAILURES}]"
    found = LOCAL.match(requested)
    if found and found["failures"] is None:
        return f"local[{found['threads'] or 1},{TASK_FAILURES}]"
    return requested


def is_local(master: str) -> bool:
    """Whether Spark's tasks run in the driver's JVM, so that the number of slots is fixed."""
    return LOCAL.match(master) is not None


def is_on_this_machine(master: str) -> bool:
    """Whether executors share this machine and its Python; `local-cluster[...]` has some."""
    return master.startswith("local")


def spark_options(
    master: str,
    user: Mapping[str, str],
    *,
    archive: Path | None,
    dump: Path | None = None,
    executor_archive: Path | None = None,
) -> dict[str, str]:
    """Return all Spark options; the user's options win, except where a flow would break.

    `spark-defaults.conf` wins over our defaults, the user's options over it, and those of
    spark-submit's command line over all.
    """
    java = [*QUICK_JAVA, "-Xss4m"]
    java.append(f"-Dlog4j2.configurationFile={files('sparkmirror.spark') / 'log4j2.properties'}")
    java += archive_flags(archive, dump)
    options = {
        "spark.app.name": "sparkmirror",
        "spark.master": master,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FIFO",  # flows take turns; FAIR breaks ties by name
        "spark.redaction.regex": SENSITIVE_PATTERN.pattern,
    }
    if is_on_this_machine(master):
        options |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            # The executors' Python is this one, so it can start with our module.
            "spark.python.daemon.module": DAEMON_MODULE,
            # TCP's delayed acknowledgements between Java and Python doubled the change of epoch.
            "spark.python.unix.domain.socket.enabled": "true",
        }
    chosen = {**spark_defaults(), **user, **submitted_conf()}
    chosen.pop("spark.master", None)
    if not is_on_this_machine(master):
        options |= executor_defaults(chosen, archive_flags(executor_archive))
        if PYTHON_PATH in options:  # with what the user added
            chosen.pop(PYTHON_PATH, None)
    options |= chosen
    options["spark.speculation"] = "false"  # a second attempt of a copy task would write twice
    return options


@dataclass(frozen=True, slots=True)
class RunningSpark:
    """A SparkContext and the gateway to its JVM. Thread-safe, except for `stop`."""

    context: SparkContext
    gateway: Any
    scala_context: Any
    parent: int  # the process that has started this one

    def exit_code(self) -> int | None:
        """Return the exit code of Spark's JVM, None while it runs.

        Under spark-submit the JVM is our parent; its code is unknown, and 1 stands for it.
        """
        if self.gateway.proc is None:
            return None if os.getppid() == self.parent else 1
        code: int | None = self.gateway.proc.poll()
        return code

    def is_stopped(self) -> bool:
        """Whether Spark has stopped the context, for example after the master removed it."""
        return bool(self.scala_context.isStopped())

    def task_slots(self) -> int:
        """Return how many tasks the registered executors can run concurrently."""
        profile = self.scala_context.resourceProfileManager().defaultResourceProfile()
        return int(self.scala_context.maxNumConcurrentTasks(profile))

    def stop(self) -> bool:
        """Stop the context. Returns whether the JVM was still running."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark, which starts late

        if self.exit_code() is not None:
            return False
        try:
            self.context.stop()
        except (Py4JError, OSError):
            return False  # it exited meanwhile
        return True


def start_spark(
    options: Mapping[str, str], log_file: Path, previous: RunningSpark | None = None
) -> RunningSpark:
    """Start Spark; takes seconds. The JVM's output goes to the log file.

    A new context in the JVM of a `previous`, stopped one needs no new JVM.

    Secrets are not on the command line, which other users can read: the context gets them through
    the gateway. SPARK_LOCAL_IP and the bind address keep Spark's web page on loopback, too.
    """
    os.environ["PYSPARK_PYTHON"] = executor_python(options, os.environ)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_this_machine(options["spark.master"]):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    # Importing takes half a second; this runs in the background.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    conf = SparkConf(loadDefaults=False)
    gateway = previous.gateway if previous else _gateway(conf, options, log_file)
    context = SparkContext(conf=conf.setAll([*options.items()]), gateway=gateway)
    # PySpark prints a traceback when the JVM's connection ends; `failure` reports the JVM's end.
    context._accumulatorServer.handle_error = _ignore_lost_connection  # noqa: SLF001
    # `getOrCreate` would start another one if the master has ended this one meanwhile.
    scala_context = context._jsc.sc()  # noqa: SLF001 - PySpark has no other way
    return RunningSpark(context, gateway, scala_context, os.getppid())


def _ignore_lost_connection(_request: object, address: object) -> None:
    _log.debug("The JVM's connection for accumulators ended: %s", address, exc_info=True)


def _gateway(conf: Any, options: Mapping[str, str], log_file: Path) -> Any:
    if runs_under_spark_submit():
        log_file.touch()  # Spark's log is the one of spark-submit
        return submitted_gateway()
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above

    conf.setAll([(key, text) for key, text in options.items() if not is_sensitive(key)])
    with log_file.open("ab") as log:
        # A separate process group: signals to our process group are handled here, in order.
        return launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log, "process_group": 0})


def warm_up(spark: SparkContext) -> None:
    """Start the daemon that Python workers are forked from, with an empty job.

    It takes a second, in parallel to the flows' preparations. An epoch that starts at once does
    the same.
    """
    time.sleep(_FLOW_START_SECONDS)
    if not spark.statusTracker().getActiveJobsIds():
        spark.setJobGroup("sparkmirror", "start of the Python workers")
        spark.parallelize((0,), 1).foreach(abs)


def spark_jars() -> Path:
    """Return the directory of Spark's jars, without importing PySpark (half a second)."""
    return spark_home() / "jars"


def archive_name(java_build: str, jars: Path) -> str:
    """Return the file name of the class-data archive for one Java and one installation of Spark.

    Java compares path, size and time of every jar with the archive. If one differs, it silently
    starts without the archive, 4 s later.
    """
    digest = sha256(f"{_CLASS_LIST_VERSION}\n{java_build}\n{jars}\n".encode())
    for jar in sorted(jars.glob("*.jar")):
        stat = jar.stat()
        digest.update(f"{jar.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return f"spark-{version('pyspark')}-{digest.hexdigest()[:16]}.jsa"
