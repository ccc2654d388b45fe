# SPDX-License-Identifier: Apache-2.0
"""The Spark session that all flows share, started quickly and listening on loopback only.

The JVM does nothing hot in a plain flow: small heap, one garbage collector thread, no second
compiler. A class-data archive (written once per Java and installation of Spark, in the
background) halves its start.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import distribution, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
TASK_FAILURES = 4
_LOCAL = re.compile(r"local(\[(?P<threads>\d+|\*)(,(?P<failures>\d+))?])?$")


def choose_master(asked: str | None, splits: int) -> str:
    """The Spark master: what was asked for, else a local one with a slot per split and a spare.

    In local mode Spark retries a failed task only if told so.
    """
    if asked is None:
        return f"local[{splits + 1},{TASK_FAILURES}]"
    found = _LOCAL.match(asked)
    if found and found["failures"] is None:
        return f"local[{found['threads'] or 1},{TASK_FAILURES}]"
    return asked


def session_options(
    master: str, user: Mapping[str, str], *, archive: Path | None, dump: Path | None = None
) -> dict[str, str]:
    """Every Spark option; what the user set wins, except where a flow would break."""
    is_local = master.startswith("local")
    java = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xss4m"]
    java.append(f"-Dlog4j2.configurationFile={files('sparkmirror.pipeline') / 'log4j2.properties'}")
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
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # one split, one Arrow batch
    }
    if is_local:
        options |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
        }
    options |= user
    options["spark.speculation"] = "false"  # a second copy of a copy task would write twice
    if is_local:
        options["spark.master"] = master
    return options


def start_session(options: Mapping[str, str], log_file: Path) -> SparkSession:
    """Start Spark; takes seconds. What the JVM prints goes to the log file."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if options["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    # Half a second to import, hence here: in the background.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    conf = SparkConf(loadDefaults=False).setAll([*options.items()])
    with log_file.open("ab") as log:
        # A process group of its own: a signal to our process group is for us to handle, in order.
        gateway = launch_gateway(
            conf, popen_kwargs={"stdout": log, "stderr": log, "process_group": 0}
        )
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - takes ready gateways only here
    builder = SparkSession.builder
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop_session(spark: SparkSession) -> bool:
    """Stop Spark; whether it was still there to be stopped."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark, which starts late

    if jvm_exit_code(spark) is not None:
        return False
    try:
        spark.stop()
    except (Py4JError, OSError):
        return False  # it ended while we asked it to
    return True


def jvm_exit_code(spark: SparkSession) -> int | None:
    """The exit code of Spark's JVM, None while it runs."""
    process = spark.sparkContext._gateway.proc  # noqa: SLF001 - the only way to the process
    code: int | None = process.poll()
    return code


def spark_jars() -> Path:
    """The folder with Spark's jars, found without the half second that importing PySpark takes."""
    home = os.environ.get("SPARK_HOME")
    if home is not None:
        return Path(home) / "jars"
    return Path(str(distribution("pyspark").locate_file("pyspark/jars")))


def archive_name(java_version: str, jars: Path) -> str:
    """The class-data archive's file name: it fits one Java and one installation of Spark only.

    Java compares the path, size and time of every jar with those in the archive, and where one
    differs it starts without the archive and without a word.
    """
    digest = sha256(str(jars).encode())
    for jar in sorted(jars.glob("*.jar")):
        stat = jar.stat()
        digest.update(f"{jar.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    text = f"spark-{version('pyspark')}-{digest.hexdigest()[:12]}-java-{java_version}"
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text) + ".jsa"
