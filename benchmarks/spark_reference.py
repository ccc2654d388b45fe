# SPDX-License-Identifier: Apache-2.0
"""Spark's own Kafka source and sink as a contender, for reference.

They need PySpark 4.2.0, the newest with a matching `spark-sql-kafka` artifact, so they have their
own virtual environment in the cache. If it cannot be created, the contender is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.addresses import Servers
from benchmarks.contenders import Contender
from sparkmirror.config.files.properties import read_properties
from sparkmirror.devcluster.jars import ivy_settings
from sparkmirror.devcluster.maven_repository import maven_repository
from sparkmirror.errors import SetupError
from sparkmirror.system.cache_directory import cache_directory, ensure_writable
from support.clients.librdkafka import create_topics, topics

PYSPARK = "4.2.0"
_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{PYSPARK}"
_INSTALL_SECONDS = 900.0
_ATTEMPTS = 3
_HOME = "spark-reference"


def spark_reference() -> Contender:
    """Return the contender. Raises SetupError if its environment cannot be created."""
    python = _environment()

    def start(file: Path) -> list[str]:
        """Create the remote topics first: Spark does not know their partition counts."""
        entries = {key: entry.text for key, entry in read_properties(file).entries.items()}
        alias = entries["clusters"].partition(",")[0].strip()
        source = entries[f"{alias}.bootstrap.servers"]
        target = entries["target.bootstrap.servers"]
        names = entries[f"{alias}->target.topics"].split(",")
        there = topics(Servers(source))
        create_topics(Servers(target), {f"{alias}.{name}": there[name] for name in names})
        checkpoints = file.with_suffix(".checkpoints")
        settings = _write_ivy_settings(file.with_suffix(".ivysettings.xml"))
        return [*_submit(python, settings), source, target, alias, str(checkpoints), *names]

    return Contender(
        "Spark's Kafka source and sink",
        start,
        lambda _alias, _partitions: (),
        _variables(python),
    )


def _submit(python: Path, ivy_settings: Path) -> list[str]:
    return [
        str(python.with_name("spark-submit")),
        "--master=local[*]",
        f"--packages={_PACKAGE}",
        f"--conf=spark.jars.ivySettings={ivy_settings}",
        "--conf=spark.driver.host=127.0.0.1",
        "--conf=spark.ui.enabled=false",
        str(Path(__file__).with_name("spark_job.py")),
    ]


def _variables(python: Path) -> dict[str, str]:
    return {
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": "",
        "SPARK_HOME": str(next(python.parents[1].glob("lib/python*/site-packages/pyspark"))),
        "SPARK_SUBMIT_OPTS": " ".join(maven_repository().java_options),
    }


def _environment() -> Path:
    """Return the Python of an environment with PySpark; creates it if it is missing."""
    home = ensure_writable(cache_directory()) / f"{_HOME}-{PYSPARK}"
    python = home / "bin" / "python"
    if (home / "complete").exists():
        return python
    _do([sys.executable, "-m", "venv", "--clear", str(home)], {})
    _do([str(python), "-m", "pip", "install", "--quiet", f"pyspark=={PYSPARK}"], {})
    # A job without arguments ends at once; its jars have been fetched then.
    settings = _write_ivy_settings(home / "ivysettings.xml")
    _do(_submit(python, settings), _variables(python))
    (home / "complete").touch()
    return python


def _do(command: list[str], variables: dict[str, str]) -> None:
    """Run a command that downloads; retry once."""
    reason = ""
    for _ in range(_ATTEMPTS):
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_INSTALL_SECONDS,
                check=False,
                env={**os.environ, **variables},
            )
        except subprocess.TimeoutExpired as error:
            raise SetupError(f"PySpark {PYSPARK} was not there in time.") from error
        if not done.returncode:
            return
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        missing = [line for line in lines if "module not found" in line]
        reason = (missing or lines or ["no reason given"])[-1].strip()
    raise SetupError(f"PySpark {PYSPARK} could not be installed: {reason}")


def _write_ivy_settings(settings: Path) -> Path:
    """Use the same repository as for the jars of Kafka."""
    cache = cache_directory() / f"{_HOME}-{PYSPARK}" / "ivy"
    settings.write_text(ivy_settings(cache), encoding="utf-8")
    return settings
