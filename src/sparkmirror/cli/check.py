# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror check FILE`: what a file means, what is wrong with it, and who answers."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sparkmirror.cli.check_report import (
    CheckReport,
    ClusterReport,
    FlowReport,
    as_json,
    plain_lines,
    print_tables,
)
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.notices import Level
from sparkmirror.config.settings import ConnectionSettings, FlowSettings
from sparkmirror.errors import ClusterError, ConfigError
from sparkmirror.kafka.probe import ClusterProbe, missing_permissions, probe_cluster
from sparkmirror.policy.loading import load_policy
from sparkmirror.topology.internal_topics import Side, internal_topics

_MOST_TOPICS = 50  # permissions are looked at for so many topics of a flow; patterns repeat

# Spark's keys are not in our table: this is what Spark itself redacts.
_SPARK_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)


def check(
    file: Annotated[Path, typer.Argument(help="The MM2 properties file.")],
    *,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also reach every broker of every cluster.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    clusters: Annotated[
        list[str] | None,
        typer.Option("--clusters", help="Only flows to these clusters (repeat or use commas)."),
    ] = None,
) -> None:
    """Print each effective value with where it came from, and all that is wrong; exit 1 if so."""
    targets = [name for item in clusters or () for name in item.split(",") if name]
    console = Console()
    try:
        report = examine(MirrorConfig.load(file), targets, connect=connect)
    except ConfigError as error:
        Console(stderr=True).print(f"error: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if json:
        typer.echo(as_json(report))
    elif console.is_terminal:
        print_tables(report, console)
    else:
        for line in plain_lines(report):
            typer.echo(line)
    if not report.ok:
        raise typer.Exit(1)


def examine(config: MirrorConfig, targets: list[str], *, connect: bool) -> CheckReport:
    """Look at the whole file and, where that makes sense, at the clusters it names."""
    notices = tuple(config.problems(targets))
    broken = any(n.level is Level.ERROR for n in notices)
    try:
        flows = config.pairs(targets)
    except ConfigError:
        flows = []  # its sentence is among the notices
    readings = [config.reading(flow) for flow in flows]
    return CheckReport(
        file=config.name,
        flows=tuple(
            FlowReport(r.settings.flow, r.settings.enabled, tuple(r.report.effective))
            for r in readings
        ),
        notices=notices,
        spark=tuple(
            (key, "[hidden]" if _SPARK_SECRET.search(key) else text)
            for key, text in sorted(config.spark.items())
        ),
        clusters=_reach([r.settings for r in readings]) if connect and not broken else (),
    )


def _reach(flows: list[FlowSettings]) -> tuple[ClusterReport, ...]:
    # kafka-python logs each failed connect by itself; the report says it in one sentence.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    connections: dict[str, ConnectionSettings] = {}
    for settings in flows:
        connections.setdefault(settings.flow.source, settings.source_admin)
        connections.setdefault(settings.flow.target, settings.target_admin)
    probes = {alias: probe_cluster(connection) for alias, connection in connections.items()}
    return tuple(
        ClusterReport(probes[alias], _missing(connection, flows, probes))
        for alias, connection in connections.items()
    )


def _missing(
    connection: ConnectionSettings, flows: list[FlowSettings], probes: dict[str, ClusterProbe]
) -> tuple[str, ...]:
    """What a run would be refused on this cluster; nothing is tried where a broker is missing."""
    alias = connection.alias
    if not probes[alias].reachable:
        return ()
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for settings in flows:
        policy = load_policy(settings.policy, settings.flow)
        copied = [
            topic
            for topic in probes[settings.flow.source].topics
            if settings.enabled and policy.selection.replicate(topic)
        ][:_MOST_TOPICS]
        flow, names = settings.flow, policy.replication
        if alias == flow.source:
            reads.update(dict.fromkeys(copied))
        if alias == flow.target:
            remote = (names.format_remote_topic(flow.source, topic) for topic in copied)
            writes.update(dict.fromkeys(remote))
        for topic in internal_topics(settings, names):
            if alias == (flow.source if topic.side is Side.SOURCE else flow.target):
                writes[topic.name] = None
    try:
        return tuple(missing_permissions(connection, list(reads), list(writes)))
    except ClusterError as error:
        return (str(error),)
