# SPDX-License-Identifier: Apache-2.0
"""The last line of Spark's log that explains a failure."""

from __future__ import annotations

import re
from pathlib import Path

_MAX_BYTES = 256 << 10  # of the end of the log
# The pattern of log4j2.properties: time, "spark", level, class, message.
_LINE = re.compile(r"^\S+ spark (?P<level>INFO|WARN|ERROR|FATAL) \S+: (?P<message>.+)$")
_EXECUTOR_EXIT = re.compile(r"Executor \S+ removed: (?!Worker shutting down|Killed|OK)")
_NOISE = re.compile(
    r"Error initializing SparkContext|Uncaught exception in thread|Exception when trying to compute"
    r"|Asked to remove non-existent|Set(ting)? the default log level"
)
_JAVA_ERROR = re.compile(
    r'^(?:Exception in thread "[^"]*" |Caused by: )?(?:java|org|scala)\.[\w.$]+'
    r"(?:Exception|Error): (?P<message>.+)$"
)
_LAUNCHER = re.compile(r"^(?:Error: |JAVA_HOME is not set|Unrecognized VM option |Could not find )")


def last_problem(log_file: Path) -> str:
    """Return the last warning or error, or reason why an executor ended; empty if there is none."""
    try:
        with log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _MAX_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return next(filter(None, map(_problem, reversed(lines))), "")


def _problem(line: str) -> str:
    found = _LINE.match(line)
    if found:
        message = found["message"].strip()
        explains = found["level"] != "INFO" or _EXECUTOR_EXIT.search(message)
        return message if explains and not _NOISE.search(message) else ""
    java = _JAVA_ERROR.match(line.strip())
    if java:
        return java["message"].strip()
    return line.strip() if _LAUNCHER.match(line) else ""
