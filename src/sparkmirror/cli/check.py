# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror check FILE`: effective values, errors and warnings; optionally a connection test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    print_styled,
)
from sparkmirror.cli.check_spark import check_spark
from sparkmirror.config.files.notices import Notice, NoticeLevel, notice_at_line
from sparkmirror.config.files.properties import PropertiesFile, read_properties
from sparkmirror.config.files.spark_conf import displayed_spark_conf
from sparkmirror.config.flows.flow_settings import ParsedFlow
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig, is_worker_file
from sparkmirror.config.worker_settings import WorkerSettings
from sparkmirror.connectors.loop_forecast import read_loop_plan
from sparkmirror.errors import ClusterError, ConfigError, WireError
from sparkmirror.kafka.broker_capabilities import Role
from sparkmirror.kafka.cluster_probe import ClusterProbe, missing_permissions, probe_cluster
from sparkmirror.policy.loading import load_policy
from sparkmirror.topology.internal_topics import Side, internal_topics
from sparkmirror.topology.unmatched_topics import unmatched_topics
from sparkmirror.wire.settings import ConnectionSettings

_MAX_TOPICS = 50  # of a flow whose permissions are checked; patterns repeat


def check(
    file: Annotated[
        Path, typer.Argument(help="The MM2 properties file, or the file of a Connect worker.")
    ],
    *,
    connect: Annotated[
        bool,
        typer.Option(
            "--connect",
            help="Also connect to every broker of every cluster, and run a job on the executors "
            "of a Spark cluster.",
        ),
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only values that differ from the defaults.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            "--clusters",
            metavar="CLUSTER",
            help="Only flows into these clusters (repeat or use commas).",
        ),
    ] = None,
) -> None:
    """Print each effective value with its origin, and all errors and warnings; exit 1 on errors."""
    targets = [name for item in clusters or () for name in item.split(",") if name]
    console = Console()
    try:
        report = _report(read_properties(file), targets, connect=connect)
    except ConfigError as error:
        Console(stderr=True).print(f"error: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if changed:
        report = report.only_changed()
    if json:
        typer.echo(as_json(report))
    elif console.is_terminal:
        print_styled(report, console)
    else:
        for line in plain_lines(report):
            typer.echo(line)
    if not report.ok:
        raise typer.Exit(1)


def _report(file: PropertiesFile, targets: list[str], *, connect: bool) -> CheckReport:
    if not is_worker_file(file):
        mirror = MirrorConfig(file)
        report = check_mirror_config(mirror, targets, connect=connect)
        return check_spark(report, file, lambda: mirror.spark, connect=connect)
    if targets:
        raise ConfigError(
            f"--clusters names {', '.join(targets)}, but {file.name} is the file of a Connect "
            "worker, which has one cluster: leave the option out."
        )
    worker = WorkerConfig(file)
    report = check_worker_config(worker, connect=connect)
    return check_spark(report, file, lambda: worker.settings.spark, connect=connect)


def check_worker_config(file: WorkerConfig, *, connect: bool) -> CheckReport:
    """Check the file of a Connect worker: no flow, one cluster, three topics."""
    broken = any(n.level is NoticeLevel.ERROR for n in file.notices)
    return CheckReport(
        file=file.name,
        flows=(),
        notices=tuple(file.notices),
        spark=tuple(sorted(displayed_spark_conf(file.values).items())),
        clusters=(_probe_worker_cluster(file.settings),) if connect and not broken else (),
        worker=file.effective,
    )


def _probe_worker_cluster(settings: WorkerSettings) -> ClusterReport:
    probe = probe_cluster(settings.connection)
    topics = settings.internal_topics
    names = (topics.configs, topics.offsets, topics.status)
    return ClusterReport(
        probe,
        _missing_permissions(settings.connection, names, names) if probe.reachable else (),
        frozenset({Role.TARGET}),
    )


def check_mirror_config(config: MirrorConfig, targets: list[str], *, connect: bool) -> CheckReport:
    """Check the whole file and, with `connect` and without errors, its clusters."""
    notices = tuple(config.all_notices(targets))
    broken = any(n.level is NoticeLevel.ERROR for n in notices)
    try:
        flows = config.flows(targets)
    except ConfigError:
        flows = []  # the error is among the notices
    readings = [config.parsed_flow(flow) for flow in flows]
    clusters = _probe_clusters([r.settings for r in readings]) if connect and not broken else ()
    return CheckReport(
        file=config.name,
        flows=tuple(
            FlowReport(r.settings.flow, r.settings.enabled, tuple(r.report.effective))
            for r in readings
        ),
        notices=(
            *notices,
            *_unmatched_topics(readings, clusters),
            *_loops(config.enabled_settings() if clusters else (), clusters),
        ),
        mirror=config.effective,
        spark=tuple(sorted(config.displayed_spark_conf.items())),
        clusters=clusters,
    )


def _unmatched_topics(
    readings: Sequence[ParsedFlow], clusters: Sequence[ClusterReport]
) -> Iterator[Notice]:
    """Warn of items of `topics` that match no topic of a reachable source."""
    probes = {one.probe.alias: one.probe for one in clusters}
    for settings, report in ((one.settings, one.report) for one in readings):
        source = settings.flow.source
        if not settings.enabled or source not in probes or not probes[source].reachable:
            continue
        policy = load_policy(settings.policy, settings.flow)
        lines = (e.origin.line for e in report.effective if e.key == "topics")
        line = next(filter(None, lines), 0)
        for sentence in unmatched_topics(settings.policy, policy, source, probes[source].topics):
            message = f"{settings.flow}: {sentence}"
            yield notice_at_line(NoticeLevel.WARNING, "topics", line, message)


def _loops(enabled: Sequence[FlowSettings], clusters: Sequence[ClusterReport]) -> Iterator[Notice]:
    """Report flows that would be FAILED, because records would return or be lost."""
    topics = {one.probe.alias: one.probe.topics for one in clusters if one.probe.reachable}
    for settings in enabled:
        flow = settings.flow
        if not {flow.source, flow.target} <= topics.keys() or not settings.source.skips_loops:
            continue
        kept = {*filter(load_policy(settings.policy, flow).keeps_name, topics[flow.source])}
        try:
            if kept:
                read_loop_plan(settings, enabled, kept)
        except (ClusterError, WireError) as error:
            yield notice_at_line(NoticeLevel.ERROR, f"{flow}.loop.policy", 0, f"{flow}: {error}")


def _probe_clusters(flows: list[FlowSettings]) -> tuple[ClusterReport, ...]:
    # kafka-python logs each failed connection; the report has one line for it.
    connections: dict[str, ConnectionSettings] = {}
    for settings in flows:
        connections.setdefault(settings.flow.source, settings.source_admin)
        connections.setdefault(settings.flow.target, settings.target_admin)
    probes = {alias: probe_cluster(connection) for alias, connection in connections.items()}
    return tuple(
        ClusterReport(probes[alias], _missing(connection, flows, probes), _roles(alias, flows))
        for alias, connection in connections.items()
    )


def _roles(alias: str, flows: list[FlowSettings]) -> frozenset[Role]:
    """Return the cluster's roles in enabled flows; other flows write heartbeats at most."""
    copied = [settings.flow for settings in flows if settings.enabled]
    return frozenset(
        role
        for flow in copied
        for role, name in ((Role.SOURCE, flow.source), (Role.TARGET, flow.target))
        if name == alias
    )


def _missing(
    connection: ConnectionSettings, flows: list[FlowSettings], probes: dict[str, ClusterProbe]
) -> tuple[str, ...]:
    """Return the permissions that a run would lack; none for an unreachable cluster."""
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
            if settings.enabled and policy.selection.should_replicate_topic(topic)
        ][:_MAX_TOPICS]
        flow, names = settings.flow, policy.replication
        if alias == flow.source:
            reads.update(dict.fromkeys(copied))
        if alias == flow.target:
            remote = (names.format_remote_topic(flow.source, topic) for topic in copied)
            writes.update(dict.fromkeys(remote))
        for topic in internal_topics(settings, names):
            if alias == (flow.source if topic.side is Side.SOURCE else flow.target):
                writes[topic.name] = None
    return _missing_permissions(connection, tuple(reads), tuple(writes))


def _missing_permissions(
    connection: ConnectionSettings, reads: Sequence[str], writes: Sequence[str]
) -> tuple[str, ...]:
    try:
        return tuple(missing_permissions(connection, reads, writes))
    except ClusterError as error:
        return (str(error),)
