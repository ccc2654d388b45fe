# SPDX-License-Identifier: Apache-2.0
"""What of a Spark failure is told to people."""

from __future__ import annotations

import pytest

from sparkmirror.spark.epoch_runner import failure_reason

_ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: "
)
_JAVA = "\n\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:581)\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            _ABORTED + "PythonException: Traceback (most recent call last):\n"
            '  File "copy.py", line 7, in run\n'
            "sparkmirror.errors.FencedError: a->b: somebody else has taken over" + _JAVA,
            "sparkmirror.errors.FencedError: a->b: somebody else has taken over",
        ),
        (
            _ABORTED + "PythonException: Traceback (most recent call last):\n"
            '  File "copy.py", line 7, in run\nMemoryError' + _JAVA,
            "MemoryError",
        ),
        (
            _ABORTED + "Lost task 0.3: ExecutorLostFailure (executor 1 exited)" + _JAVA,
            _ABORTED + "Lost task 0.3: ExecutorLostFailure (executor 1 exited)",
        ),
        (
            "An error occurred while calling o48.collectToPython.\n"
            ": java.lang.IllegalStateException: SparkContext has been shut down" + _JAVA,
            "java.lang.IllegalStateException: SparkContext has been shut down",
        ),
        ("", "Spark printed no reason"),
    ],
)
def test_the_reason_is_the_line_that_says_most(text: str, reason: str) -> None:
    """Python's last line if there is one, then Java's exception, then the first line."""
    assert failure_reason(text) == reason
