# SPDX-License-Identifier: Apache-2.0
"""An epoch whose SparkContext is replaced while it starts; the rest is tested with a real Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sparkmirror.spark.epoch_runner import EpochRunner
from sparkmirror.spark.spark_problem import job_problem


class Context:
    """PySpark's context after `stop`, if `_jsc` is None."""

    def __init__(self, jsc: object) -> None:
        self._jsc = jsc

    def setJobGroup(self, *_: object, **__: object) -> None:  # noqa: N802 - as in PySpark
        raise AttributeError("'NoneType' object has no attribute 'setJobGroup'")


def run(context: Context) -> None:
    runner: Any = object.__new__(EpochRunner)
    runner._run_job(context, "group", "title", 1, None)


def test_a_context_that_is_replaced_fails_the_epoch_and_not_the_flow() -> None:
    with pytest.raises(ConnectionError) as found:
        run(Context(None))
    problem = job_problem(str(found.value))
    assert str(problem) == "Spark has stopped the application"
    assert not problem.is_hopeless


def test_another_programming_error_is_not_hidden() -> None:
    with pytest.raises(AttributeError):
        run(Context(object()))
