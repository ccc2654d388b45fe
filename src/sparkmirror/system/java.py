# SPDX-License-Identifier: Apache-2.0
"""Finds a Java runtime for Kafka and Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from sparkmirror.errors import SetupError

MIN_JAVA = 17

_REMEDY = f"Install Java {MIN_JAVA} or newer and set JAVA_HOME, or put java on the PATH."
_VERSION = re.compile(r'(?:version |JAVA_VERSION=)"(\d+)(?:\.(\d+))?')
_ANSWER_SECONDS = 60.0


def java_binary() -> Path:
    """Return the java of JAVA_HOME, else of the PATH. Raises SetupError if missing or too old."""
    home = os.environ.get("JAVA_HOME")
    if home:
        binary = Path(home) / "bin" / "java"
        if not os.access(binary, os.X_OK):
            raise SetupError(f"JAVA_HOME is {home}, which has no bin/java.", remedy=_REMEDY)
    else:
        found = shutil.which("java")
        if found is None:
            raise SetupError("Cannot find Java.", remedy=_REMEDY)
        binary = Path(found)
    version = java_version(binary)
    if version < MIN_JAVA:
        raise SetupError(f"{binary} is Java {version}, which is too old.", remedy=_REMEDY)
    return binary


def java_version(binary: Path) -> int:
    """Return the feature version of a java binary: 8, 11, 17, 21."""
    text = java_build(binary)
    match = _VERSION.search(text)
    if match is None:
        raise SetupError(
            f"Cannot read the version of {binary} (output: {text.partition(chr(10))[0]!r}).",
            remedy=_REMEDY,
        )
    major, minor = int(match[1]), int(match[2] or 0)
    # Java 8 and older report 1.8.
    return minor if major == 1 else major


@cache
def java_build(binary: Path) -> str:
    """Return text that identifies a Java build: its `release` file.

    Without that file, the output of `java -version`, which takes a tenth of a second.
    """
    release = binary.resolve().parent.parent / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace").strip()
        if _VERSION.search(text):
            return text
    try:
        answer = subprocess.run(
            [binary, "-version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"Cannot run {binary} ({error}).", remedy=_REMEDY) from error
    return answer.stdout.strip()
