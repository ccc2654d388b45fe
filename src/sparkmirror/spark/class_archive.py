# SPDX-License-Identifier: Apache-2.0
"""The class-data archive that halves the start-up time of Spark's JVM.

Java can store the classes that a program loaded and map them into memory at the next start. The
archive fits one Java build and one installation of Spark, is in the cache, and is optional.
Building it starts and stops a temporary Spark, always in a separate process: a process has one
Spark gateway.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sparkmirror.spark.context import archive_name, spark_jars, spark_options, start_spark
from sparkmirror.spark.submitted_conf import runs_under_spark_submit
from sparkmirror.system.cache_directory import cache_directory, ensure_writable
from sparkmirror.system.java import java_binary, java_build

_LOWEST_PRIORITY = 19
_MAX_ARCHIVES = 4  # of 70 MB; a machine may have several virtual environments
_COMMAND = (sys.executable, "-m", "sparkmirror.spark.class_archive")


def archive_path() -> Path:
    """Return the path of the archive for this Java and this installation of Spark."""
    name = archive_name(java_build(java_binary()), spark_jars())
    return cache_directory() / "class-data" / name


def existing_archive() -> Path | None:
    """Return the archive if it exists."""
    path = archive_path()
    if not path.is_file():
        return None
    with suppress(PermissionError):  # another user's cache
        path.touch()  # the least recently used archive is evicted first
    return path


def evict_old_archives(folder: Path) -> None:
    """Delete the least recently used archives; those of removed installations are among them."""
    archives = sorted(folder.glob("*.jsa"), key=lambda found: found.stat().st_mtime)
    for old in archives[: max(0, len(archives) - _MAX_ARCHIVES + 1)]:
        old.unlink(missing_ok=True)


def _build() -> None:
    """Build the archive unless it exists: runs one small job and ends the JVM cleanly."""
    path = archive_path()
    if path.is_file():
        return
    folder = ensure_writable(path.parent)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        dump = Path(scratch) / "spark.jsa"
        options = spark_options("local[1,4]", {}, archive=None, dump=dump)
        options["spark.ui.enabled"] = "true"  # for its classes
        options["spark.ui.port"] = "0"
        spark = start_spark(options, Path(scratch) / "spark.log")
        spark.context.parallelize(range(1), 1).flatMap(lambda row: [row]).collect()
        spark.stop()
        spark.gateway.shutdown()
        spark.gateway.proc.stdin.close()  # the JVM exits and writes the archive
        spark.gateway.proc.wait(timeout=120)
        if dump.is_file():
            evict_old_archives(folder)
            dump.rename(path)


def build_and_wait() -> None:
    """Build the archive unless it exists, and wait. A failure only costs start-up time."""
    if existing_archive() is None:
        subprocess.run([*_COMMAND], check=False, stdin=subprocess.DEVNULL)


def build_in_background() -> None:
    """Build the archive for the next start, at the lowest priority.

    Not under spark-submit: the process would use its JVM, which runs the flows.
    """
    if runs_under_spark_submit():
        return
    subprocess.Popen(
        [*_COMMAND, "--gently"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


if __name__ == "__main__":
    if "--gently" in sys.argv:
        os.nice(_LOWEST_PRIORITY)
    _build()
