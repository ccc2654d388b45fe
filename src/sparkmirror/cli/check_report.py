# SPDX-License-Identifier: Apache-2.0
"""The results of `sparkmirror check` as plain lines, tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from sparkmirror.cli.console import print_wrapped
from sparkmirror.cli.tables import FittedTable
from sparkmirror.config.files.layering import Origin
from sparkmirror.config.files.notices import EffectiveValue, Notice, NoticeLevel
from sparkmirror.config.mirror_config import FILE_SECTION
from sparkmirror.kafka.broker_capabilities import (
    CAPABILITIES,
    Capability,
    Role,
    missing_capabilities,
)
from sparkmirror.kafka.cluster_probe import BrokerProbe, ClusterProbe
from sparkmirror.model import Flow
from sparkmirror.quantities import counted
from sparkmirror.spark.cluster_check import SparkClusterReport
from sparkmirror.spark.executor_probe import ExecutorReport

if TYPE_CHECKING:
    from rich.console import Console

_WORKER = "Connect worker"
_WHOLE_FILE = "whole file"
_STYLES = {NoticeLevel.ERROR: "bold red", NoticeLevel.WARNING: "yellow", NoticeLevel.INFO: "dim"}
# Keys that a flow uses even if it is not enabled.
_HEARTBEAT_KEYS = ("enabled", "emit.heartbeats", "heartbeats.topic", "replication.policy")


@dataclass(frozen=True, slots=True)
class FlowReport:
    """One flow: whether it copies, and its effective values."""

    flow: Flow
    enabled: bool
    effective: tuple[EffectiveValue, ...]

    @property
    def title(self) -> str:
        return f"{self.flow}" if self.enabled else f"{self.flow} (heartbeats only)"

    @property
    def shown(self) -> tuple[EffectiveValue, ...]:
        """The values to print: only heartbeat keys if the flow only emits heartbeats."""
        if self.enabled:
            return self.effective
        return tuple(
            e
            for e in self.effective
            if (e.section == "connector" and e.key.startswith(_HEARTBEAT_KEYS))
            or (e.section == "target producer" and e.key == "bootstrap.servers")
        )


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One cluster: the probe, missing permissions, and limits in its roles."""

    probe: ClusterProbe
    missing: tuple[str, ...] = ()
    roles: frozenset[Role] = frozenset()

    @property
    def ok(self) -> bool:
        needed = any(one.is_required for _brokers, one in self.limits)
        return self.probe.reachable and not self.missing and not needed

    @property
    def limits(self) -> list[tuple[list[BrokerProbe], Capability]]:
        """Capabilities that some brokers lack, with these brokers; the worst first."""
        found: dict[Capability, list[BrokerProbe]] = {}
        for broker in self.probe.brokers:
            if broker.version:
                for one in missing_capabilities(broker.api_versions, self.roles):
                    found.setdefault(one, []).append(broker)
        return [(found[one], one) for one in CAPABILITIES if one in found]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of one check."""

    file: str
    flows: tuple[FlowReport, ...]
    notices: tuple[Notice, ...]
    spark: tuple[tuple[str, str], ...]
    clusters: tuple[ClusterReport, ...] = ()
    worker: tuple[EffectiveValue, ...] | None = None  # the values of a Connect worker's file
    mirror: tuple[EffectiveValue, ...] = ()  # the values of a mirror's file that no flow has
    spark_cluster: SparkClusterReport | None = None  # None: not tested, or on this machine

    @property
    def ok(self) -> bool:
        return (
            all(n.level is not NoticeLevel.ERROR for n in self.notices)
            and all(cluster.ok for cluster in self.clusters)
            and (self.spark_cluster is None or self.spark_cluster.ok)
        )

    def only_changed(self) -> CheckReport:
        """Leave out the values that are defaults, also where a line repeats the default."""
        return replace(
            self,
            flows=tuple(replace(one, effective=_changed(one.effective)) for one in self.flows),
            worker=None if self.worker is None else _changed(self.worker),
            mirror=_changed(self.mirror),
        )


def _changed(values: Iterable[EffectiveValue]) -> tuple[EffectiveValue, ...]:
    return tuple(one for one in values if one.is_configured and not one.is_default)


def plain_lines(report: CheckReport) -> Iterator[str]:
    """One line per value, for pipes and logs."""
    for title, values in _blocks(report):
        yield title
        yield from _plain_values(values)
    if report.spark:
        yield "spark"
        yield from (f"    {key} = {text}" for key, text in report.spark)
    for cluster in report.clusters:
        yield from _plain_cluster(cluster)
    if report.spark_cluster is not None:
        yield from _plain_spark(report.spark_cluster)
    for found in report.notices:
        yield f"{found.level.value}: {found}"
    yield _summary(report)


def _blocks(report: CheckReport) -> Iterator[tuple[str, tuple[EffectiveValue, ...]]]:
    """Yield heading and values: of the whole file, of each flow, or of a Connect worker."""
    if report.mirror:
        yield _WHOLE_FILE, report.mirror
    for flow in report.flows:
        yield f"flow {flow.title}", flow.shown
    if report.worker is not None:
        yield _WORKER, report.worker


def problem_lines(report: CheckReport) -> Iterator[str]:
    """Yield the clusters, all notices and the summary, without the values."""
    for cluster in report.clusters:
        yield from _plain_cluster(cluster)
    for found in report.notices:
        yield f"{found.level.value}: {found}"
    yield _summary(report)


def _plain_values(shown: Iterable[EffectiveValue]) -> Iterator[str]:
    for section, values in groupby(shown, key=lambda e: e.section):
        if section != FILE_SECTION:
            yield f"  {section}"
        for value in values:
            yield f"    {_plain_value(value)}"


def _plain_value(value: EffectiveValue) -> str:
    line = _key_and_text(value)
    return f"{line}   from {_origin_text(value)}" if value.is_set else line


def _key_and_text(value: EffectiveValue) -> str:
    return f"{value.key} = {value.text}" if value.is_set else f"{value.key} is not set"


def _origin_text(value: EffectiveValue) -> str:
    over = "".join(f", over {origin}" for origin in value.overrode)
    remark = f" (no effect: {value.no_effect_reason})" if value.no_effect_reason else ""
    remark = remark or (f" ({value.origin.reason})" if value.origin.reason else "")
    return f"{value.origin}{over}{remark}"


def _plain_cluster(cluster: ClusterReport) -> Iterator[str]:
    probe = cluster.probe
    yield f"cluster {probe.alias} ({probe.security})"
    if probe.error:
        yield f"    error: {probe.error}."
    for address in probe.silent_bootstrap:
        yield f"    warning: bootstrap address {address} does not answer."
    for broker in probe.brokers:
        state = f"Kafka {broker.version}" if broker.version else f"error: {broker.error}."
        yield f"    broker {broker.node_id} at {broker.address}: {state}"
    for brokers, one in cluster.limits:
        kind = "error" if one.is_required else f"limit as {one.role.value}"
        yield f"    {kind}: {_whose(cluster, brokers)}{one.consequence}."
    yield from (f"    missing permission: {sentence}" for sentence in cluster.missing)
    if cluster.ok:
        yield "    permissions: nothing is missing"


def _plain_spark(spark: SparkClusterReport) -> Iterator[str]:
    yield f"Spark cluster {spark.master}: {counted(spark.slots, 'concurrent task')}"
    for one in spark.executors:
        found = [f"Python {one.python}"] if one.python else []
        found += [f"sparkmirror {one.sparkmirror}"] if one.sparkmirror else []
        yield f"    executor on {one.host}: {', '.join(found) or 'cannot run tasks'}"
        yield from (
            f"        error: cannot connect to broker {address}: {error}."
            for address, error in one.unreachable
        )
    if spark.problem:
        yield f"    error: {spark.problem}"
    elif spark.ok:
        yield (
            "    executors: nothing is missing; they reach the control address and "
            f"{counted(spark.brokers, 'broker')}"
        )


def _whose(cluster: ClusterReport, brokers: list[BrokerProbe]) -> str:
    """Name the brokers unless they are all of the cluster."""
    if len(brokers) == len(cluster.probe.brokers):
        return ""
    return f"broker {', '.join(str(broker.node_id) for broker in brokers)}: "


def print_styled(report: CheckReport, console: Console) -> None:
    """Print for a terminal: defaults dim and without their origin, nothing shortened."""
    for title, values in _blocks(report):
        _print_block(title, values, console)
    if report.spark:
        console.print(Text("spark", style="bold"))
        for key, text in report.spark:
            print_wrapped(console, f"{key} = {text}", indent=4)
    for cluster in report.clusters:
        for line in _plain_cluster(cluster):
            print_wrapped(console, line, style="" if cluster.ok else "yellow")
    if report.spark_cluster is not None:
        print_spark(report.spark_cluster, console)
    for found in report.notices:
        print_wrapped(console, f"{found.level.value}: {found}", style=_STYLES[found.level])
    print_wrapped(console, _summary(report), style="green" if report.ok else "bold red")


def _print_block(title: str, values: Iterable[EffectiveValue], console: Console) -> None:
    console.print(Text(title, style="bold"))
    for section, some in groupby(values, key=lambda e: e.section):
        if section != FILE_SECTION:
            print_wrapped(console, section, indent=2)
        for value in some:
            _print_value(value, console)


def _print_value(value: EffectiveValue, console: Console) -> None:
    line = _key_and_text(value)
    if value.is_configured:
        print_wrapped(console, line, indent=4)
        print_wrapped(console, f"from {_origin_text(value)}", indent=8, style="cyan")
    else:
        print_wrapped(console, line, indent=4, style="dim")


def print_spark(spark: SparkClusterReport, console: Console) -> None:
    title = f"Spark cluster {spark.master}: {counted(spark.slots, 'concurrent task')}"
    rows = []
    for one in spark.executors:
        problems = [f"{address}: {error}" for address, error in one.unreachable]
        problems += [*one.import_errors, *filter(None, [one.control_error, one.failure])]
        cells = (one.host, one.python, one.executable, one.sparkmirror, "; ".join(problems) or "-")
        rows.append([Text(cell, style="" if one.ok else "yellow") for cell in cells])
    headings = ("executor on", "Python", "interpreter", "sparkmirror", "problems")
    console.print(FittedTable(headings, rows, Text(title, style="bold")))
    if spark.problem:
        print_wrapped(console, f"error: {spark.problem}", style="bold red")


def _summary(report: CheckReport) -> str:
    counts = {
        level: sum(1 for n in report.notices if n.level is level)
        for level in (NoticeLevel.ERROR, NoticeLevel.WARNING)
    }
    flows = sum(1 for flow in report.flows if flow.enabled)
    found = f"errors: {counts[NoticeLevel.ERROR]}, warnings: {counts[NoticeLevel.WARNING]}"
    with_problems = [cluster.probe.alias for cluster in report.clusters if not cluster.ok]
    problems = f"; problems on clusters {', '.join(with_problems)}" if with_problems else ""
    if report.spark_cluster is not None and not report.spark_cluster.ok:
        problems += "; problems on the Spark cluster"
    kind = f"enabled flows: {flows}" if report.worker is None else _WORKER
    return f"{report.file}: {kind}, {found}{problems}"


def as_json(report: CheckReport) -> str:
    """Format as JSON; secrets are hidden here too."""
    return json.dumps(
        {
            "file": report.file,
            "ok": report.ok,
            "flows": [
                {
                    "flow": str(flow.flow),
                    "enabled": flow.enabled,
                    "values": [_json_value(value) for value in flow.effective],
                }
                for flow in report.flows
            ],
            "mirror": {"values": [_json_value(value) for value in report.mirror]}
            if report.worker is None
            else None,
            "worker": (
                None
                if report.worker is None
                else {"values": [_json_value(value) for value in report.worker]}
            ),
            "spark": dict(report.spark),
            "notices": [
                {"level": n.level.value, "key": n.key, "where": n.where, "message": n.message}
                for n in report.notices
            ],
            "clusters": [_json_cluster(cluster) for cluster in report.clusters],
            "sparkCluster": (
                None if report.spark_cluster is None else _json_spark(report.spark_cluster)
            ),
        },
        indent=2,
        ensure_ascii=False,
    )


def _json_value(value: EffectiveValue) -> dict[str, object]:
    return {
        "section": value.section,
        "key": value.key,
        "value": str(value.text) if value.is_set else None,
        "from": _json_origin(value.origin),
        "over": [_json_origin(origin) for origin in value.overrode],
        "noEffect": value.no_effect_reason,
    }


def _json_origin(origin: Origin) -> dict[str, object] | None:
    if origin.profile:
        return {"profile": origin.profile, "reason": origin.reason}
    return {"line": origin.line, "key": origin.key} if origin.line else None


def _json_cluster(cluster: ClusterReport) -> dict[str, object]:
    probe = cluster.probe
    return {
        "alias": probe.alias,
        "ok": cluster.ok,
        "security": probe.security,
        "error": probe.error,
        "silentBootstrap": list(probe.silent_bootstrap),
        "brokers": [
            {"id": b.node_id, "address": b.address, "version": b.version, "error": b.error}
            for b in probe.brokers
        ],
        "limits": [
            {
                "api": one.api_key,
                "version": one.version,
                "role": one.role.value,
                "needed": one.is_required,
                "brokers": [broker.node_id for broker in brokers],
                "message": one.consequence,
            }
            for brokers, one in cluster.limits
        ],
        "missingPermissions": list(cluster.missing),
    }


def _json_spark(spark: SparkClusterReport) -> dict[str, object]:
    return {
        "master": spark.master,
        "ok": spark.ok,
        "slots": spark.slots,
        "problem": spark.problem,
        "executors": [_json_executor(one) for one in spark.executors],
    }


def _json_executor(one: ExecutorReport) -> dict[str, object]:
    return {
        "host": one.host,
        "directory": one.directory,
        "ok": one.ok,
        "python": one.python,
        "executable": one.executable,
        "sparkmirror": one.sparkmirror,
        "importErrors": list(one.import_errors),
        "unreachable": [{"address": a, "error": error} for a, error in one.unreachable],
        "controlError": one.control_error,
        "failure": one.failure,
    }
