# SPDX-License-Identifier: Apache-2.0
"""Which Python executors run, and the package that Spark ships to them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sparkmirror.spark.executor_environment import (
    PACKAGE_ZIP,
    driver_python_warning,
    executor_python,
    zip_package,
)


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        ({}, {}, sys.executable),
        ({}, {"PYSPARK_PYTHON": "/env"}, "/env"),
        ({"spark.executorEnv.PYSPARK_PYTHON": "/key"}, {"PYSPARK_PYTHON": "/env"}, "/key"),
        (
            {"spark.pyspark.python": "/own", "spark.executorEnv.PYSPARK_PYTHON": "/key"},
            {"PYSPARK_PYTHON": "/env"},
            "/own",
        ),
        ({}, {"PYSPARK_PYTHON": ""}, sys.executable),
    ],
)
def test_sparks_keys_choose_the_python_of_executors(
    options: dict[str, str], environment: dict[str, str], expected: str
) -> None:
    assert executor_python(options, environment) == expected


def test_another_python_of_the_driver_is_named_as_without_effect() -> None:
    key = "spark.pyspark.driver.python"
    assert driver_python_warning({}) == ""
    assert driver_python_warning({key: sys.executable}) == ""
    assert "has no effect" in driver_python_warning({key: "/other/python"})


def test_the_shipped_package_runs_tasks_and_the_daemon(tmp_path: Path) -> None:
    """Its compiled modules are used, so executors do not compile them."""
    path = tmp_path / PACKAGE_ZIP
    zip_package(path)
    program = (
        "import sparkmirror.task.entry_point as task, sparkmirror.spark.daemon as daemon; "
        "print(task.__cached__ or task.__file__, daemon.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(path)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    files = done.stdout.decode().split()
    assert files == [
        f"{path}/sparkmirror/{name}.pyc" for name in ("task/entry_point", "spark/daemon")
    ]


def test_the_shipped_package_also_has_sources_for_another_python(tmp_path: Path) -> None:
    path = tmp_path / PACKAGE_ZIP
    zip_package(path)
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    sources = {name for name in names if name.endswith(".py")}
    assert {f"{name}c" for name in sources} == names - sources
    assert not any(name.startswith("sparkmirror/cli/") for name in names)
