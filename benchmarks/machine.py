# SPDX-License-Identifier: Apache-2.0
"""Describes the machine and the versions of a benchmark run."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

from sparkmirror.devcluster.jars import DEFAULT_KAFKA

_ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    """Return the commit; marked if files have uncommitted changes."""
    short = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src")
    return f"{short}-changed" if changed else short


def description() -> dict[str, str]:
    """Machine and versions."""
    return {
        "commit": commit(),
        "processor": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{psutil.virtual_memory().total / (1 << 30):.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java(),
        "Kafka, MirrorMaker 2": DEFAULT_KAFKA,
        "PySpark": version("pyspark"),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],  # noqa: S607 - whichever git there is
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or ("" if arguments[0] == "status" else "unknown")


def _java() -> str:
    done = subprocess.run(
        ["java", "-version"],  # noqa: S607 - as the brokers do
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.partition("\n")[0]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
