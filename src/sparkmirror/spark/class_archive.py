# SPDX-License-Identifier: Apache-2.0
"""The class-data archives that halve the start-up time of Spark's JVMs.

Java can store the classes that a program loaded and map them into memory at the next start. An
archive fits one Java build and one installation of Spark, is in the cache, and is optional. That of
executors is used where their machine has it at the same path as the driver's.
Building it starts and stops a temporary Spark, always in a separate process: a process has one
Spark gateway.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from sparkmirror.spark.context import archive_name, spark_jars, spark_options, start_spark
from sparkmirror.spark.executor_environment import QUICK_JAVA, archive_flags
from sparkmirror.spark.submitted_conf import runs_under_spark_submit
from sparkmirror.system.cache_directory import cache_directory, ensure_writable
from sparkmirror.system.java import java_binary, java_build

_LOWEST_PRIORITY = 19
_MAX_ARCHIVES = 8  # of 60 to 70 MB; a machine may have several virtual environments
_SCRATCH = "build-"
_MAX_BUILD_SECONDS = 3600.0
_MAX_WAIT_SECONDS = 300.0
_EXECUTOR_EXIT_SECONDS = 30.0
_POLL_SECONDS = 0.5
_COMMAND = (sys.executable, "-m", "sparkmirror.spark.class_archive")


class SparkJvm(StrEnum):
    """A JVM of Spark; each loads other classes from another class path."""

    DRIVER = "driver"
    EXECUTOR = "executor"


def archive_path(jvm: SparkJvm = SparkJvm.DRIVER) -> Path:
    """Return the path of the archive for this Java and this installation of Spark."""
    name = archive_name(java_build(java_binary()), spark_jars())
    return cache_directory() / "class-data" / f"{jvm}-{name}"


def existing_archive(jvm: SparkJvm = SparkJvm.DRIVER) -> Path | None:
    """Return the archive if it exists."""
    path = archive_path(jvm)
    if not path.is_file():
        return None
    with suppress(PermissionError):  # another user's cache
        path.touch()  # the least recently used archive is evicted first
    return path


def evict_old_archives(folder: Path) -> None:
    """Delete the least recently used archives, and what builds that were killed have left."""
    for left in folder.glob(f"{_SCRATCH}*"):
        if time.time() - left.stat().st_mtime > _MAX_BUILD_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    archives = sorted(folder.glob("*.jsa"), key=lambda found: found.stat().st_mtime)
    for old in archives[: max(0, len(archives) - _MAX_ARCHIVES + 1)]:
        old.unlink(missing_ok=True)


def _build(jvm: SparkJvm) -> None:
    """Build the archive unless it exists: runs one small job and ends the JVM cleanly."""
    path = archive_path(jvm)
    if path.is_file():
        return
    folder = ensure_writable(path.parent)
    with tempfile.TemporaryDirectory(dir=folder, prefix=_SCRATCH) as scratch:
        dump = Path(scratch) / "spark.jsa"
        spark = start_spark(_build_options(jvm, dump), Path(scratch) / "spark.log")
        spark.context.parallelize(range(1), 1).flatMap(lambda row: [row]).collect()
        spark.stop()
        if jvm is SparkJvm.EXECUTOR:
            _await_file(dump)  # the end of the driver's JVM would kill the executor
        spark.gateway.shutdown()
        spark.gateway.proc.stdin.close()  # the JVM exits and writes the archive
        spark.gateway.proc.wait(timeout=120)
        if dump.is_file():
            evict_old_archives(folder)
            dump.rename(path)


def _build_options(jvm: SparkJvm, dump: Path) -> dict[str, str]:
    if jvm is SparkJvm.EXECUTOR:
        java = " ".join([*QUICK_JAVA, *archive_flags(None, dump)])
        user = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": java}
        return spark_options("local-cluster[1,1,512]", user, archive=None)
    ui = {"spark.ui.enabled": "true", "spark.ui.port": "0"}  # for its classes
    return spark_options("local[1,4]", ui, archive=None, dump=dump)


def _await_file(file: Path) -> None:
    """Wait until a file has its final size, or for some time."""
    size = 0
    deadline = time.monotonic() + _EXECUTOR_EXIT_SECONDS
    while time.monotonic() < deadline:
        before, size = size, file.stat().st_size if file.is_file() else 0
        if size and size == before:
            return
        time.sleep(_POLL_SECONDS)


def build_and_wait() -> None:
    """Build the archive unless it exists, and wait. A failure only costs start-up time."""
    if existing_archive() is None:
        subprocess.run([*_COMMAND, SparkJvm.DRIVER], check=False, stdin=subprocess.DEVNULL)


def build_in_background(jvm: SparkJvm = SparkJvm.DRIVER) -> None:
    """Build the archive for the next start, at the lowest priority.

    Not under spark-submit: the process would use its JVM, which runs the flows.
    """
    if runs_under_spark_submit():
        return
    subprocess.Popen(
        [*_COMMAND, jvm, "--gently"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _build_all() -> None:
    """Build each archive in its own process. A failure is printed there, and only costs time."""
    for one in SparkJvm:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([*_COMMAND, one], check=False, timeout=_MAX_WAIT_SECONDS)


if __name__ == "__main__":
    if "--gently" in sys.argv:
        os.nice(_LOWEST_PRIORITY)
    named = [one for one in SparkJvm if one in sys.argv]
    if named:
        _build(named[0])
    else:
        _build_all()
