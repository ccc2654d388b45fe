# SPDX-License-Identifier: Apache-2.0
"""The log of Spark's JVM: the lines that say why it stopped.

    10:00:02 spark ERROR StandaloneSchedulerBackend: Application has been killed. Reason: ...

The levels are in `log4j2.properties`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_LINE = re.compile(r"\d\d:\d\d:\d\d spark (?P<level>[A-Z]+) (?P<logger>[\w.$]+): (?P<text>.*)")
_EXECUTOR = re.compile(r"Executor updated: \S+ is now (?:FAILED|EXITED|LOST)(?: \((?P<why>.*)\))?")
_KILLED = "Application has been killed. Reason: "
_START_FAILURE = re.compile(
    r"(?:Exception in thread \"main\" (?:[\w.$]+: )?|Error: |.*"
    + re.escape(_KILLED)
    + ")(?P<text>.+)"
)


class SparkLog:
    """Reads what was written since `mark`; the file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = 0

    def mark(self) -> None:
        """Ignore what was written before: it belongs to another context."""
        self._begin = self.path.stat().st_size if self.path.exists() else 0

    def last_error(self) -> str:
        """Return the last error, without its time, level and class; empty if there is none.

        The reason why the master ended the application wins over errors that follow from it.
        """
        found = ""
        for line in self._lines():
            matched = _LINE.match(line)
            if matched and matched["level"] == "ERROR":
                found = matched["text"].strip()
                if _KILLED in found:
                    return found.partition(_KILLED)[2]
        return found

    def executor_failures(self) -> list[str]:
        """Return why executors ended, as the cluster reports it."""
        found = map(_EXECUTOR.search, self._lines())
        return [one["why"] or "no reason given" for one in found if one]

    def start_failure(self) -> str:
        """Return why Spark's launcher rejected the options, or the master the application."""
        for line in self._lines():
            matched = _START_FAILURE.match(line)
            if matched:
                return matched["text"].strip().rstrip(".")
        return ""

    def _lines(self) -> Iterator[str]:
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._begin)
            yield from log
