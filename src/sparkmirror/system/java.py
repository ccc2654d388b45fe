# SPDX-License-Identifier: Apache-2.0
"""Finds a Java runtime that can run Kafka and Spark, and says plainly when there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from sparkmirror.errors import SetupError

OLDEST_JAVA = 17

_REMEDY = f"Install Java {OLDEST_JAVA} or newer and set JAVA_HOME, or put java on the PATH."
_VERSION = re.compile(r'(?:version |JAVA_VERSION=)"(\d+)(?:\.(\d+))?')
_ANSWER_SECONDS = 60.0


def java_binary() -> Path:
    """The java of JAVA_HOME, else of the PATH; a SetupError when it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    if home:
        binary = Path(home) / "bin" / "java"
        if not os.access(binary, os.X_OK):
            raise SetupError(f"JAVA_HOME is {home}, but there is no java in it.", remedy=_REMEDY)
    else:
        found = shutil.which("java")
        if found is None:
            raise SetupError("Java was not found on this machine.", remedy=_REMEDY)
        binary = Path(found)
    version = java_version(binary)
    if version < OLDEST_JAVA:
        raise SetupError(f"{binary} is Java {version}, which is too old.", remedy=_REMEDY)
    return binary


def java_version(binary: Path) -> int:
    """The feature version of a java binary: 8, 11, 17, 21."""
    text = java_build(binary)
    match = _VERSION.search(text)
    if match is None:
        raise SetupError(
            f"{binary} did not tell its version (it said: {text.partition(chr(10))[0]!r}).",
            remedy=_REMEDY,
        )
    major, minor = int(match[1]), int(match[2] or 0)
    # Java 8 and older call themselves 1.8.
    return minor if major == 1 else major


@cache
def java_build(binary: Path) -> str:
    """What tells two builds of the same version apart: the release file that a Java comes with.

    Without one, all that `java -version` prints; a start-up waits a tenth of a second for it.
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
        raise SetupError(f"{binary} could not be run ({error}).", remedy=_REMEDY) from error
    return answer.stdout.strip()
