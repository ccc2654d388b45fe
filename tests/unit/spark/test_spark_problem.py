# SPDX-License-Identifier: Apache-2.0
"""The cause of a Spark failure, and whether a retry can help."""

from __future__ import annotations

import pytest

from sparkmirror.spark.spark_problem import failure_reason, job_problem

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
            _ABORTED + "Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.1 executor 1): "
            "ExecutorLostFailure (executor 1 exited)" + _JAVA,
            "executor 1: ExecutorLostFailure (executor 1 exited)",
        ),
        (
            _ABORTED + "PythonException: Traceback (most recent call last):\n"
            '  File "copy.py", line 7, in run\nsocket.gaierror: [Errno -2] Name not known' + _JAVA,
            "socket.gaierror: [Errno -2] Name not known",
        ),
        (
            "An error occurred while calling o48.collectToPython.\n"
            ": java.lang.IllegalStateException: SparkContext has been shut down" + _JAVA,
            "Spark has stopped the application",
        ),
        ("", "Spark printed no reason"),
    ],
)
def test_the_reason_is_the_line_that_says_most(text: str, reason: str) -> None:
    """Python's last line if there is one, then Java's exception, then the first line."""
    assert failure_reason(text) == reason


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        ("ModuleNotFoundError: No module named 'crc32c'", "has no module crc32c"),
        (
            (
                "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] "
                "Python in worker has different version: 3.9 than that in driver: 3.11, "
                "PySpark cannot run with different minor versions."
            ),
            "Executors run Python 3.9, and the driver runs Python 3.11",
        ),
        (
            (
                "sparkmirror.errors.ControlUnreachableError: The executor cannot reach the "
                "driver's control channel at 127.0.1.1:4000: Connection refused. Open this port"
            ),
            "control channel at 127.0.1.1:4000: Connection refused",
        ),
    ],
)
def test_a_broken_environment_is_hopeless(cause: str, sentence: str) -> None:
    """Retrying does not help before somebody changes it."""
    text = (
        _ABORTED + "PythonException: Traceback (most recent call last):\n"
        '  File "worker.py", line 7, in main\n' + cause + _JAVA
    )
    problem = job_problem(text)
    assert problem.is_hopeless
    assert sentence in problem.reason
    assert "docs/spark-cluster.md" in problem.reason


def test_a_missing_python_is_hopeless() -> None:
    problem = job_problem(
        _ABORTED + "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.1 executor 0): java.io.IOException: "
        'Cannot run program "/nope/python": Exec failed, error: 2 (No such file or directory)'
        + _JAVA
    )
    assert problem.is_hopeless
    assert problem.reason.startswith("Executors cannot start /nope/python.")


def test_a_python_that_cannot_start_pyspark_is_hopeless() -> None:
    """Spark indents what Python printed."""
    problem = job_problem(
        _ABORTED + "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.1 executor 0): "
        "org.apache.spark.SparkException: \nError from python worker:\n"
        "  Traceback (most recent call last):\n"
        '    File "runpy.py", line 197, in _run_module_as_main\n'
        "      return _run_code(code, main_globals, None)\n"
        "  TypeError: unsupported operand type(s) for |: 'type' and 'type'\n"
        "PYTHONPATH was:\n  sparkmirror.zip\n"
        "org.apache.spark.SparkException: EOFException occurred while reading the port number"
        + _JAVA
    )
    assert problem.is_hopeless
    assert "cannot start PySpark: TypeError: unsupported operand" in problem.reason
    assert "spark.pyspark.python" in problem.reason


def test_a_lost_executor_is_transient() -> None:
    assert not job_problem(_ABORTED + "ExecutorLostFailure (executor 1 exited)").is_hopeless
