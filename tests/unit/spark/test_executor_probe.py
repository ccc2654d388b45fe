# SPDX-License-Identifier: Apache-2.0
"""What executors report becomes one sentence with the remedy."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import distribution

import pytest
from pyspark import cloudpickle

from sparkmirror import __version__
from sparkmirror.spark.executor_probe import (
    PACKAGES,
    ExecutorReport,
    _probe_function,
    failed_report,
    hopeless_reason,
    merge_reports,
)

DRIVER = "{}.{}".format(*sys.version_info)
FINE = ExecutorReport("h", "/srv/app-0/0", DRIVER, "/usr/bin/python3", __version__)
NO_PYTHON = """\
An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 \
times, most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): \
java.io.IOException: Cannot run program "/no/such/python": error=2, No such file or directory
\tat java.base/java.lang.ProcessBuilder.start(Unknown Source)
"""
OTHER_PYTHON = """\
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 \
times, most recent failure: Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.7 executor 0): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 2000, in main
    check_python_version(infile)
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has \
different version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor versions.
"""


def test_an_executor_that_has_everything_is_fine() -> None:
    assert hopeless_reason([FINE]) == ""
    assert FINE.ok


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"python": "3.9"}, "runs Python 3.9"),
        ({"import_errors": ("kafka: No module named 'kafka'",)}, "kafka: No module named 'kafka'"),
        ({"sparkmirror": "0.0.1"}, "imports sparkmirror 0.0.1"),
        ({"control_error": "d:1: Connection refused"}, "spark.sparkmirror.control.host"),
        ({"failure": "disk full"}, "disk full"),
    ],
)
def test_each_lack_is_hopeless_and_names_the_executor(
    change: dict[str, object], expected: str
) -> None:
    reason = hopeless_reason([FINE, replace(FINE, **change)])  # type: ignore[arg-type]
    assert expected in reason
    assert reason.startswith("Executor on h ")


def test_an_unreachable_broker_is_a_problem_but_not_a_hopeless_one() -> None:
    """Brokers come back."""
    report = replace(FINE, unreachable=(("b1:9092", "Connection refused"),))
    assert hopeless_reason([report]) == ""
    assert not report.ok


def test_a_missing_python_is_found_in_the_failure_of_the_job() -> None:
    reason = hopeless_reason([failed_report(NO_PYTHON)])
    assert reason.startswith("Executor on 10.0.0.7 cannot run Python tasks: Executors cannot start")
    assert "/no/such/python" in reason
    assert "Set spark.pyspark.python" in reason


def test_another_python_is_found_in_the_failure_of_the_job() -> None:
    reason = hopeless_reason([failed_report(OTHER_PYTHON)])
    assert "Executors run Python 3.9, and the driver runs Python 3.11." in reason


def test_the_tasks_of_one_executor_are_one_report() -> None:
    row = {"host": "h", "directory": "/a", "python": DRIVER}
    found = merge_reports([row, row, {**row, "directory": "/b"}])
    assert [one.directory for one in found] == ["/a", "/b"]


def test_the_probe_runs_where_sparkmirror_cannot_be_imported() -> None:
    """It is shipped by value and imports the standard library only."""
    listener = socket.create_server(("127.0.0.1", 0))
    closed = socket.create_server(("127.0.0.1", 0))
    address, refused = listener.getsockname(), closed.getsockname()
    closed.close()
    pyspark = distribution("pyspark").locate_file("pyspark")
    program = (
        # As on an executor, there is nothing but PySpark; a package of this name for cloudpickle.
        "import sys, pickle, json, types; package = types.ModuleType('pyspark'); "
        f"package.__path__ = [{str(pyspark)!r}]; sys.modules['pyspark'] = package; "
        "print(json.dumps(pickle.loads(sys.stdin.buffer.read())(0)))"
    )
    with listener:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", program],  # -S: no site-packages
            input=cloudpickle.dumps(_probe_function(address, (refused,))),
            capture_output=True,
            check=True,
        )
    row = json.loads(done.stdout)
    assert row["python"] == DRIVER
    assert [error.partition(":")[0] for error in row["import_errors"]] == list(PACKAGES)
    assert row["control_error"] == ""
    assert row["unreachable"] == [[f"127.0.0.1:{refused[1]}", "Connection refused"]]


def test_the_probed_packages_are_those_that_tasks_import() -> None:
    """A package that is added to tasks is probed, too."""
    program = "import sys, sparkmirror.task.entry_point; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.decode().split()}
    ours = {name for name in loaded if name not in sys.stdlib_module_names}
    hidden = {"sparkmirror", "_cffi_backend", "_openssl", "_distutils_hack", "__main__"}
    assert {one for one in ours - hidden if not one.startswith("__editable__")} == set(PACKAGES)
