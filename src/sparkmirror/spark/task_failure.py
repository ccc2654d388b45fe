# SPDX-License-Identifier: Apache-2.0
"""The cause in the text of a failed Spark job."""

from __future__ import annotations

import re

# The last line of a Python traceback, or a PySpark error class in brackets.
_PYTHON_ERROR = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$"
)
_JAVA_CAUSE = re.compile(r"(?:Caused by: |: )?(?:java|org\.apache|scala)[\w.$]*: (.+)$")
_SPARK_CLASS = re.compile(r"^\[[A-Z_.0-9]+\] ")


def failure_cause(text: str) -> str:
    """Return the last error of Python in the text, else the innermost one of Java."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if _PYTHON_ERROR.match(line) and "." not in line.split(":")[0]]
    if python:
        return _without_dot(python[-1])
    dotted = [line for line in lines if _PYTHON_ERROR.match(line) and not _is_java(line)]
    if dotted:
        name, _, message = dotted[-1].partition(": ")
        return _without_dot(_SPARK_CLASS.sub("", message) or name)
    java = [found[1] for line in lines if (found := _JAVA_CAUSE.match(line))]
    if java:
        return _without_dot(java[-1])
    return _without_dot(lines[0]) if lines else "Spark gave no reason"


def _is_java(line: str) -> bool:
    return line.startswith(("java.", "javax.", "org.", "scala.", "py4j."))


def _without_dot(sentence: str) -> str:
    return sentence.rstrip(".")
