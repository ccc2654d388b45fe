# SPDX-License-Identifier: Apache-2.0
"""What `check` says about Spark: the master of the file, and the test of a cluster."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sparkmirror import __version__
from sparkmirror.cli.check import check
from sparkmirror.cli.check_report import CheckReport, as_json, plain_lines, print_styled
from sparkmirror.spark.cluster_check import SparkClusterReport, check_cluster
from sparkmirror.spark.executor_probe import ExecutorReport

MIRROR = """\
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
"""
WORKER = """\
bootstrap.servers = 127.0.0.1:1
group.id = g
config.storage.topic = c
offset.storage.topic = o
status.storage.topic = s
"""
MASTER = "spark://127.0.0.1:7077"
PYTHON = "{}.{}".format(*sys.version_info)
FINE = ExecutorReport("h1", "/srv/app-0/0", PYTHON, "/usr/bin/python3", __version__)
LAME = replace(FINE, host="h2", unreachable=(("b1:9092", "Connection refused"),))

app = typer.Typer()
app.command()(check)


def run(file: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of `check`."""
    result = CliRunner().invoke(app, [str(file), *options])
    return result.exit_code, result.stdout


def report(cluster: SparkClusterReport) -> CheckReport:
    """A report with nothing but Spark in it."""
    return CheckReport("f", (), (), (), spark_cluster=cluster)


def test_options_of_spark_defaults_are_checked_as_a_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.dynamicAllocation.enabled true\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    file = tmp_path / "f.properties"
    file.write_text(f"{MIRROR}spark.master = {MASTER}\n")
    code, out = run(file)
    assert code == 1
    assert "spark.dynamicAllocation.enabled=true is not supported" in out


def test_a_control_port_that_is_none_is_an_error_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "f.properties"
    file.write_text(f"{MIRROR}spark.sparkmirror.control.port = many\n")
    code, out = run(file)
    assert code == 1
    assert "error: line 5: Invalid spark.sparkmirror.control.port 'many'" in out


@pytest.mark.parametrize("text", [MIRROR, WORKER])
def test_a_master_that_cannot_work_is_an_error_at_its_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.properties"
    file.write_text(f"{text}spark.master = spark://host\n")
    code, out = run(file)
    line = len(text.splitlines()) + 1
    assert code == 1
    assert f"error: line {line}: Invalid address 'host' in spark.master=spark://host" in out


def test_a_key_without_effect_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "f.properties"
    file.write_text(f"{MIRROR}spark.pyspark.driver.python = /other/python\n")
    code, out = run(file)
    assert code == 0
    assert "warning: line 5: spark.pyspark.driver.python=/other/python has no effect" in out


def test_a_master_that_is_down_is_named_within_seconds() -> None:
    """Port 1 of the loopback refuses at once; no Spark is started."""
    found = check_cluster({"spark.master": "spark://127.0.0.1:1"}, [])
    assert "Cannot reach the Spark master spark://127.0.0.1:1" in found.problem
    assert not found.ok


def test_a_sound_cluster_is_printed_with_its_executors() -> None:
    found = report(SparkClusterReport(MASTER, 4, (FINE,), brokers=3))
    lines = list(plain_lines(found))
    assert found.ok
    assert f"    executor on h1: Python {PYTHON}, sparkmirror {__version__}" in lines
    assert (
        "    executors: nothing is missing; they reach the control address and 3 brokers" in lines
    )


def test_a_broker_that_executors_do_not_reach_is_an_error() -> None:
    found = report(SparkClusterReport(MASTER, 4, (FINE, LAME), brokers=1))
    lines = list(plain_lines(found))
    assert not found.ok
    assert "        error: cannot connect to broker b1:9092: Connection refused." in lines
    assert lines[-1].endswith("problems on the Spark cluster")


def test_json_has_the_same() -> None:
    cluster = SparkClusterReport(MASTER, 4, (LAME,), problem="No.")
    found = json.loads(as_json(report(cluster)))["sparkCluster"]
    assert (found["master"], found["slots"], found["ok"], found["problem"]) == (
        MASTER,
        4,
        False,
        "No.",
    )
    (executor,) = found["executors"]
    assert executor["unreachable"] == [{"address": "b1:9092", "error": "Connection refused"}]
    assert executor["python"] == PYTHON


def test_a_table_has_the_same() -> None:
    console = Console(file=io.StringIO(), width=160, force_terminal=True)
    print_styled(report(SparkClusterReport(MASTER, 4, (FINE, LAME), "No executor.")), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "b1:9092: Connection refused" in text
    assert "No executor." in text
