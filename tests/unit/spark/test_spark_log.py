# SPDX-License-Identifier: Apache-2.0
"""What Spark's log says about a context that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.spark.spark_log import SparkLog

_KILLED = "Master removed our application: FAILED"


@pytest.fixture
def log(tmp_path: Path) -> SparkLog:
    """A log that does not exist yet."""
    return SparkLog(tmp_path / "spark.log")


def test_a_missing_log_says_nothing(log: SparkLog) -> None:
    log.mark()
    assert log.last_error() == log.start_failure() == ""
    assert log.executor_failures() == []


def test_the_last_error_is_without_time_and_class(log: SparkLog) -> None:
    log.path.write_text(
        "WARNING: Using incubator modules\n"
        "10:00:01 spark ERROR StandaloneAppClient: first\n"
        "10:00:02 spark ERROR StandaloneSchedulerBackend: Application has been killed. "
        f"Reason: {_KILLED}\n"
        "10:00:02 spark ERROR Utils: Uncaught exception in thread stop-spark-context\n"
        "10:00:03 spark WARN TaskSchedulerImpl: Initial job has not accepted any resources\n"
        "\tat java.lang.Thread.run\n",
        encoding="utf-8",
    )
    assert log.last_error() == _KILLED


def test_lines_of_an_earlier_context_do_not_count(log: SparkLog) -> None:
    log.path.write_text("10:00:01 spark ERROR StandaloneAppClient: first\n", encoding="utf-8")
    log.mark()
    assert log.last_error() == ""


def test_an_executor_failure_names_its_reason(log: SparkLog) -> None:
    log.path.write_text(
        "10:00:01 spark INFO StandaloneAppClient$ClientEndpoint: Executor updated: "
        "app-20261118-0000/0 is now RUNNING\n"
        "10:00:02 spark INFO StandaloneAppClient$ClientEndpoint: Executor updated: "
        "app-20261118-0000/0 is now EXITED (Command exited with code 1)\n",
        encoding="utf-8",
    )
    assert log.executor_failures() == ["Command exited with code 1"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            (
                'Exception in thread "main" org.apache.spark.SparkException: Master must either be '
                "yarn or start with spark, k8s, or local"
            ),
            "Master must either be yarn or start with spark, k8s, or local",
        ),
        ("Error: Could not find or load main class x", "Could not find or load main class x"),
        (
            (
                "10:00:02 spark ERROR StandaloneSchedulerBackend: Application has been killed. "
                "Reason: All masters are unresponsive! Giving up."
            ),
            "All masters are unresponsive! Giving up",
        ),
    ],
)
def test_a_rejected_start_is_named(log: SparkLog, line: str, reason: str) -> None:
    log.path.write_text(f"WARNING: Using incubator modules\n{line}\n\tat x\n", encoding="utf-8")
    assert log.start_failure() == reason
