# SPDX-License-Identifier: Apache-2.0
"""The Spark that all flows share, started quickly and listening on loopback only.

The JVM does nothing hot in a plain flow: small heap, one garbage collector thread, no second
compiler. A class-data archive (written once per Java and installation of Spark, in the
background) halves its start. There is a context and no SQL session: an epoch is a job over one row
per split, and planning it as a query would take two seconds of the first start.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import distribution, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from sparkmirror.config.files.spark_conf import SENSITIVE_PATTERN, is_sensitive

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOPBACK = "127.0.0.1"
TASK_FAILURES = 4
# Slots for flows that a changed file may add: in local mode a slot is a number, its thread comes
# with its first task. Starting with 64 more takes as long, and 10 MiB more.
SPARE_SLOTS = 16
_FLOWS_BEGIN_SECONDS = 0.3
_CLASS_LIST_VERSION = 2  # another number when other classes are loaded: older archives lack them
_LOCAL = re.compile(r"local(\[(?P<threads>\d+|\*)(,(?P<failures>\d+))?])?$")


def choose_master(asked: str | None, splits: int) -> str:
    """The Spark master: what was asked for, else a local one with more slots than splits.

    In local mode Spark retries a failed task only if told so.
    """
    if asked is None:
        return f"local[{splits + 1 + SPARE_SLOTS},{TASK_FAILURES}]"
    found = _LOCAL.match(asked)
    if found and found["failures"] is None:
        return f"local[{found['threads'] or 1},{TASK_FAILURES}]"
    return asked


def spark_options(
    master: str, user: Mapping[str, str], *, archive: Path | None, dump: Path | None = None
) -> dict[str, str]:
    """Every Spark option; what the user set wins, except where a flow would break."""
    is_local = master.startswith("local")
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
    if is_local:
        options |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            # The executors' Python is this one, so that it can begin with our module.
            "spark.python.daemon.module": "sparkmirror.spark.daemon",
            # Between Java and Python: TCP's delayed acknowledgements doubled a change of epoch.
            "spark.python.unix.domain.socket.enabled": "true",
        }
    options |= user
    options["spark.speculation"] = "false"  # a second copy of a copy task would write twice
    if is_local:
        options["spark.master"] = master
    return options


def start_spark(options: Mapping[str, str], log_file: Path) -> SparkContext:
    """Start Spark; takes seconds. What the JVM prints goes to the log file.

    Secrets are not on the command line, which everybody on the machine may read: the context is
    told them once there is a JVM.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if options["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    # Half a second to import, hence here: in the background.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    public = [(key, text) for key, text in options.items() if not is_sensitive(key)]
    conf = SparkConf(loadDefaults=False).setAll(public)
    with log_file.open("ab") as log:
        # A process group of its own: a signal to our process group is for us to handle, in order.
        gateway = launch_gateway(
            conf, popen_kwargs={"stdout": log, "stderr": log, "process_group": 0}
        )
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - takes ready gateways only here
    return SparkContext.getOrCreate(conf.setAll([*options.items()]))


def warm_up(spark: SparkContext) -> None:
    """Start what Python workers are forked from, with a job that does nothing.

    That takes a second, which passes while a flow with much to create is still busy with it; where
    an epoch begins at once, it does the same.
    """
    time.sleep(_FLOWS_BEGIN_SECONDS)
    if not spark.statusTracker().getActiveJobsIds():
        spark.setJobGroup("sparkmirror", "start of the Python workers")
        spark.parallelize((0,), 1).foreach(abs)


def stop_spark(spark: SparkContext) -> bool:
    """Stop Spark; whether it was still there to be stopped."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark, which starts late

    if jvm_exit_code(spark) is not None:
        return False
    try:
        spark.stop()
    except (Py4JError, OSError):
        return False  # it ended while we asked it to
    return True


def jvm_exit_code(spark: SparkContext) -> int | None:
    """The exit code of Spark's JVM, None while it runs."""
    process = spark._gateway.proc  # noqa: SLF001 - the only way to the process
    code: int | None = process.poll()
    return code


def spark_jars() -> Path:
    """The folder with Spark's jars, found without the half second that importing PySpark takes."""
    home = os.environ.get("SPARK_HOME")
    if home is not None:
        return Path(home) / "jars"
    return Path(str(distribution("pyspark").locate_file("pyspark/jars")))


def archive_name(java_build: str, jars: Path) -> str:
    """The class-data archive's file name: it fits one Java and one installation of Spark only.

    Java compares the path, size and time of every jar with those in the archive, and where one
    differs it starts without the archive and without a word.
    """
    digest = sha256(f"{_CLASS_LIST_VERSION}\n{java_build}\n{jars}\n".encode())
    for jar in sorted(jars.glob("*.jar")):
        stat = jar.stat()
        digest.update(f"{jar.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return f"spark-{version('pyspark')}-{digest.hexdigest()[:16]}.jsa"
