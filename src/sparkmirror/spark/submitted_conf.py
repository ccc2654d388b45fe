# SPDX-License-Identifier: Apache-2.0
"""Options that come neither from a file of sparkmirror nor from its defaults.

`spark-defaults.conf` of the installation of Spark yields to the file. What was passed to
`spark-submit` wins over it, as a command line does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from sparkmirror.config.files.properties import read_properties

_GATEWAY = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it for the program that it starts
_DEFAULT_MASTER = "local[*]"  # of spark-submit


def runs_under_spark_submit() -> bool:
    return _GATEWAY in os.environ


def spark_home() -> Path:
    """Return Spark's directory without importing PySpark, which takes half a second."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else Path(str(distribution("pyspark").locate_file("pyspark")))


def spark_defaults() -> dict[str, str]:
    """Return `spark-defaults.conf`. Raises ConfigError if it cannot be read."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")
    file = folder / "spark-defaults.conf"
    if not file.is_file():
        return {}
    entries = read_properties(file).entries
    return {key: entry.text.strip() for key, entry in entries.items() if key.startswith("spark.")}


@cache
def submitted_gateway() -> Any:
    """Return the gateway to spark-submit's JVM. Takes a second."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - importing takes half a second

    return launch_gateway()


@cache
def submitted_conf() -> Mapping[str, str]:
    """Return what spark-submit's command line passed; empty outside of it."""
    if not runs_under_spark_submit():
        return {}
    pairs = submitted_gateway().jvm.org.apache.spark.SparkConf(True).getAll()
    found = {pair._1(): pair._2() for pair in pairs}  # noqa: SLF001 - Scala's tuples
    defaults = spark_defaults()
    return {key: text for key, text in found.items() if defaults.get(key) != text}


def submitted_master() -> str | None:
    """Return spark-submit's `--master`; None if it was not passed."""
    master = submitted_conf().get("spark.master")
    return None if master == _DEFAULT_MASTER else master
