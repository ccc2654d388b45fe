# SPDX-License-Identifier: Apache-2.0
"""Starts the SparkContext that all flows share; in local mode it listens on loopback only.

The JVM does no hot work in a plain flow: small heap, serial garbage collector, no second compiler.
A class-data archive (built once per Java and installation of Spark, in the background) halves its
start. There is a context and no SQL session: an epoch is a job over one row per split. Planning it
as a query takes two seconds more at the start and 100 MiB (Catalyst in the JVM, pandas in workers).
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import distribution, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.config.files.spark_conf import SENSITIVE_PATTERN, is_sensitive

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOPBACK = "127.0.0.1"
TASK_FAILURES = 4
# Slots for flows that a changed file may add. In local mode a slot is a number; its thread starts
# with its first task. 64 more take no more time, and 10 MiB.
SPARE_SLOTS = 16
_FLOW_START_SECONDS = 0.3
_CLASS_LIST_VERSION = 2  # change it when other classes are loaded: older archives lack them
_LOCAL = re.compile(r"local(\[(?P<threads>\d+|\*)(,(?P<failures>\d+))?])?$")


def choose_master(requested: str | None, splits: int) -> str:
    """Return the requested Spark master, else a local one with more slots than splits.

    In local mode Spark retries a failed task only if the master says so.
    """
    if requested is None:
        return f"local[{splits + 1 + SPARE_SLOTS},{TASK_FAILURES}]"
    found = _LOCAL.match(requested)
    if found and found["failures"] is None:
        return f"local[{found['threads'] or 1},{TASK_FAILURES}]"
    return requested


def is_local(master: str) -> bool:
    """Whether Spark's tasks run in the driver's JVM, so that the number of slots is fixed."""
    return _LOCAL.match(master) is not None


def is_on_this_machine(master: str) -> bool:
    """Whether executors share this machine and its Python; `local-cluster[...]` has some."""
    return master.startswith("local")


def spark_options(
    master: str, user: Mapping[str, str], *, archive: Path | None, dump: Path | None = None
) -> dict[str, str]:
    """Return all Spark options; the user's options win, except where a flow would break."""
    java = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xss4m"]
    java.append(f"-Dlog4j2.configurationFile={files('sparkmirror.spark') / 'log4j2.properties'}")
    if dump is not None:
        java += [f"-XX:ArchiveClassesAtExit={dump}", "-Xlog:disable", "-Xlog:all=off"]
    elif archive is not None:
        java += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=off"]
    options = {
        "spark.app.name": "sparkmirror",
        "spark.master": master,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.redaction.regex": SENSITIVE_PATTERN.pattern,
    }
    if is_on_this_machine(master):
        options |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            # The executors' Python is this one, so it can start with our module.
            "spark.python.daemon.module": "sparkmirror.spark.daemon",
            # TCP's delayed acknowledgements between Java and Python doubled the change of epoch.
            "spark.python.unix.domain.socket.enabled": "true",
        }
    options |= user
    options["spark.speculation"] = "false"  # a second attempt of a copy task would write twice
    if is_on_this_machine(master):
        options["spark.master"] = master
    return options


@dataclass(frozen=True, slots=True)
class RunningSpark:
    """A SparkContext and the gateway to its JVM. Thread-safe, except for `stop`."""

    context: SparkContext
    gateway: Any
    scala_context: Any

    def exit_code(self) -> int | None:
        """Return the exit code of Spark's JVM, None while it runs."""
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
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_this_machine(options["spark.master"]):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    # Importing takes half a second; this runs in the background.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    public = [(key, text) for key, text in options.items() if not is_sensitive(key)]
    conf = SparkConf(loadDefaults=False).setAll(public)
    if previous is not None:
        gateway = previous.gateway
    else:
        with log_file.open("ab") as log:
            # A separate process group: signals to our process group are handled here, in order.
            gateway = launch_gateway(
                conf, popen_kwargs={"stdout": log, "stderr": log, "process_group": 0}
            )
    context = SparkContext(conf=conf.setAll([*options.items()]), gateway=gateway)
    scala_context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    return RunningSpark(context, gateway, scala_context)


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
    home = os.environ.get("SPARK_HOME")
    if home is not None:
        return Path(home) / "jars"
    return Path(str(distribution("pyspark").locate_file("pyspark/jars")))


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
