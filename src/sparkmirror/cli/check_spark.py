# SPDX-License-Identifier: Apache-2.0
"""The part of `check` about Spark: its master, and with `--connect` the executors of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkmirror.cli.check_report import CheckReport
from sparkmirror.config.files.notices import Notice, NoticeLevel, notice_at_line, sorted_notices
from sparkmirror.config.files.properties import PropertiesFile
from sparkmirror.errors import ConfigError
from sparkmirror.spark.cluster_check import check_cluster
from sparkmirror.spark.context import is_on_this_machine
from sparkmirror.spark.executor_environment import driver_python_warning
from sparkmirror.spark.executor_probe import Address
from sparkmirror.spark.master_url import master_problem
from sparkmirror.spark.shared_context import CONTROL_PORT_KEY, control_port
from sparkmirror.spark.submitted_conf import spark_defaults

_MASTER = "spark.master"
_DRIVER_PYTHON = "spark.pyspark.driver.python"


def check_spark(
    report: CheckReport,
    file: PropertiesFile,
    read_options: Callable[[], Mapping[str, str]],
    *,
    connect: bool,
) -> CheckReport:
    """Add notices about Spark and, with `connect`, the test of its cluster."""
    try:
        options = read_options()
    except ConfigError:
        return report  # its errors are among the notices
    master = options.get(_MASTER, "local")
    options = {**spark_defaults(), **options, _MASTER: master}  # as a run does
    notices = spark_notices(file, options)
    report = replace(report, notices=tuple(sorted_notices([*report.notices, *notices])))
    broken = any(one.level is NoticeLevel.ERROR for one in report.notices)
    if not connect or broken or is_on_this_machine(master):
        return report
    return replace(report, spark_cluster=check_cluster(options, _brokers(report)))


def spark_notices(file: PropertiesFile, options: Mapping[str, str]) -> list[Notice]:
    """Return what is wrong with the master and with keys that have no effect."""
    found = []
    problem = master_problem(options.get(_MASTER, "local"), options)
    if problem:
        found.append((NoticeLevel.ERROR, _MASTER, problem))
    try:
        control_port(options)
    except ConfigError as error:
        found.append((NoticeLevel.ERROR, CONTROL_PORT_KEY, str(error)))
    warning = driver_python_warning(options)
    if warning:
        found.append((NoticeLevel.WARNING, _DRIVER_PYTHON, warning))
    return [
        notice_at_line(level, key, file.entries[key].line if key in file.entries else 0, sentence)
        for level, key, sentence in found
    ]


def _brokers(report: CheckReport) -> list[Address]:
    """Return the advertised addresses of all brokers of the flows."""
    addresses = [broker.address for one in report.clusters for broker in one.probe.brokers]
    parts = [address.rpartition(":") for address in addresses]
    return [(host.strip("[]"), int(port)) for host, _, port in parts]
