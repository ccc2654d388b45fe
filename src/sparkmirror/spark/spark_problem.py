# SPDX-License-Identifier: Apache-2.0
"""Classifies what Spark reports: the cause in one sentence, and whether a retry can help. Pure.

A hopeless problem stays until the configuration or the machines change: the flow is FAILED, and is
retried about once a minute. Every other problem is retried with a short backoff.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PAGE = "See docs/spark-cluster.md."
_TRACEBACK = "Traceback (most recent call last):"
_NO_WORKER = "Error from python worker"  # it died before it ran a task
_STOPPED = re.compile(r"stopped SparkContext|SparkContext (?:was|has been) shut ?down")
_LOST_TASK = "most recent failure: "


@dataclass(frozen=True, slots=True)
class SparkProblem:
    """Why Spark cannot run the tasks of a flow."""

    reason: str
    is_hopeless: bool = False

    def __str__(self) -> str:
        return self.reason


# A pattern of the cause, and the sentence for it. All of these are hopeless.
_HOPELESS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"No module named '?(?P<module>[\w.]+)'?"),
        (
            "The executors' Python has no module {module}. Install sparkmirror on the nodes, or "
            "ship an environment with `sparkmirror pack`."
        ),
    ),
    (
        re.compile(
            r"worker has different version: (?P<worker>[\d.]+) .*in driver: (?P<driver>[\d.]+\d)"
        ),
        (
            "Executors run Python {worker}, and the driver runs Python {driver}. Set "
            "spark.pyspark.python to a Python {driver} on the nodes."
        ),
    ),
    (
        re.compile(r"Cannot run program \"(?P<program>[^\"]+)\"(?:.*?error(?:=|: )(?P<why>.*))?"),
        (
            "Executors cannot start {program}. Set spark.pyspark.python to a Python that exists on "
            "the nodes."
        ),
    ),
    (
        re.compile(r"(?P<cause>The executor cannot reach the driver's control channel.*)"),
        "{cause}",
    ),
)


def job_problem(text: str) -> SparkProblem:
    """Classify the text of a failed Spark job."""
    return classify(failure_reason(text), text)


def classify(reason: str, text: str = "") -> SparkProblem:
    """Classify a cause; `text` is where a more specific pattern may be found."""
    for pattern, sentence in _HOPELESS:
        found = pattern.search(reason) or pattern.search(text)
        if found:
            return SparkProblem(f"{sentence.format(**found.groupdict())} {_PAGE}", True)
    if _NO_WORKER in text:
        ship = "Set spark.pyspark.python to the driver's version on the nodes."
        return SparkProblem(f"Python on the executors cannot start PySpark: {reason}. {ship}", True)
    return SparkProblem(reason)


def failure_reason(text: str) -> str:
    """Return the line of a Spark failure with its cause.

    The last line of the last Python traceback; without one, the reason of the lost task, the
    exception of the Java call, or the first line.
    """
    if _STOPPED.search(text):
        return "Spark has stopped the application"
    python_error = _last_python_error(text.splitlines())
    if python_error:
        return python_error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if _LOST_TASK in line:
            return _without_task(line.partition(_LOST_TASK)[2])
    for line in lines:
        if line.startswith(": "):  # py4j: the call, then Java's exception
            return line.removeprefix(": ")
    return lines[0] if lines else "Spark printed no reason"


def _last_python_error(lines: Iterable[str]) -> str:
    """Return the first line after the frames of the last traceback, which may be indented."""
    found, depth = "", None
    for line in lines:
        text = line.lstrip()
        if text.rstrip().endswith(_TRACEBACK):
            depth = len(line) - len(text) if text.startswith(_TRACEBACK) else 0
        elif depth is not None and text and len(line) - len(text) <= depth:
            found, depth = text.rstrip(), None
    return found


def _without_task(text: str) -> str:
    """Remove `Lost task 0.3 in stage 1.0 (TID 7) (host executor 0): ` from a reason."""
    found = re.match(r"Lost task \S+ in stage \S+ \(TID \d+\) \(\S+ executor (\S+)\): (.*)", text)
    return text if found is None else f"executor {found[1]}: {found[2]}"


def java_cause(error: BaseException) -> str:
    """Return the innermost message of a Java exception that py4j raised, else the first line."""
    java = getattr(error, "java_exception", None)
    message = ""
    while java is not None:
        message = java.toString() or message
        java = java.getCause()
    return re.sub(r"^[\w.$]+\.(\w+)", r"\1", message or str(error) or repr(error)).splitlines()[0]
