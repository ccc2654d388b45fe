# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana dashboards in deploy/grafana from the panels below.

A panel whose queries return nothing says "no data" on red: missing data must not look healthy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "deploy" / "grafana"
ALL_FLOWS, ONE_FLOW = FOLDER / "sparkmirror-flows.json", FOLDER / "sparkmirror-flow.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24
_HEIGHT = 8
_GREEN, _YELLOW, _RED = "green", "yellow", "red"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: queries by legend."""

    title: str
    description: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    steps: tuple[tuple[float, str], ...] = ()  # thresholds: from a value on, a colour
    base: str = _GREEN
    stacked: bool = False
    columns: dict[str, str] = field(default_factory=dict)  # of a table: names of query values


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of panels."""

    title: str
    panels: tuple[Panel, ...]


def _flow(metric: str, *more: str) -> str:
    selector = ", ".join(('job=~"$job"', 'flow=~"$flow"', *more))
    return f"{metric}{{{selector}}}"


def _rate(metric: str, *more: str) -> str:
    return f"rate({_flow(metric, *more)}[$__rate_interval])"


def _percentile(quantile: float, metric: str, by: str = "flow") -> str:
    buckets = f"rate({_flow(f'{metric}_bucket')}[$__rate_interval])"
    return f"histogram_quantile({quantile}, sum by ({by}, le) ({buckets}))"


def _top(metric: str) -> dict[str, str]:
    """Return the query of the 10 partitions with the highest values."""
    return {"{{topic}}-{{partition}}": f"topk(10, max by (topic, partition) ({_flow(metric)}))"}


# Metrics with Java's names do not name the flow.
_INFO = _flow("sparkmirror_flow_info")


def _top_of_java(metric: str) -> dict[str, str]:
    """Return the query of the 10 partitions with the highest values of one of MM2's metrics."""
    name = f"kafka_connect_mirror_mirrorsourceconnector_{metric}"
    of_flow = f'{name}{{job=~"$job"}} and on (instance, source, target) {_INFO}'
    return {"{{topic}}-{{partition}}": f"topk(10, max by (topic, partition) ({of_flow}))"}


_COMMIT_TIME = (
    'label_replace(kafka_connect_connector_task_offset_commit_avg_time_ms{job=~"$job"}, '
    '"connector", "$1", "connector", "\\"?([^\\"]*)\\"?") '
    f"and on (instance, connector) {_INFO}"
)
_HEARTBEAT = f'sparkmirror_heartbeat_age_seconds{{job=~"$job"}} and on (source, target) {_INFO}'
_RUNNING = _flow("sparkmirror_flow_state", 'state=~"RUNNING|DONE"')
_ERRORS = _rate("sparkmirror_request_errors_total")
_INCIDENTS = f"increase({_flow('sparkmirror_flow_incidents_total')}[$__rate_interval])"
_POSITIONS = _flow("sparkmirror_group_positions")
_STATUS = Row(
    "Status",
    (
        Panel(
            "Flows not running",
            "Flows that no process runs now: stopped, paused, retrying or failed.",
            {"": f"sum(1 - max by (flow) ({_RUNNING}))"},
            kind="stat", width=4, steps=((1, _RED),),
        ),
        Panel(
            "Records behind",
            "Records still to be copied. NaN: the lag is unknown.",
            {"": f"sum(max by (flow) ({_flow('sparkmirror_lag_records')}))"},
            kind="stat", width=4,
        ),
        Panel(
            "Longest lag",
            "For how long the oldest uncopied record has been in its source.",
            {"": f"max({_flow('sparkmirror_lag_seconds')})"},
            unit="s", kind="stat", width=4, steps=((60, _YELLOW), (600, _RED)),
        ),
        Panel(
            "Quarantined partitions",
            "Partitions that wait for manual action; `sparkmirror status` names them.",
            {"": f"sum(max by (flow) ({_flow('sparkmirror_quarantined_partitions')}))"},
            kind="stat", width=4, steps=((1, _RED),),
        ),
        Panel(
            "Ledger entries, 24 h",
            "Where source and target differ since yesterday; see `sparkmirror ledger`.",
            {"": f"sum(increase({_flow('sparkmirror_ledger_entries_total')}[1d]))"},
            kind="stat", width=4, steps=((1, _YELLOW),),
        ),
        Panel(
            "Workers",
            "Processes that Prometheus reaches.",
            {"": 'sum(up{job=~"$job"})'},
            kind="stat", width=4, base=_RED, steps=((1, _GREEN),),
        ),
        Panel(
            "Flows",
            "One row per flow.",
            {
                "state": f"max by (flow, state) ({_flow('sparkmirror_flow_state')}) == 1",
                "lag": f"max by (flow) ({_flow('sparkmirror_lag_records')})",
                "seconds": f"max by (flow) ({_flow('sparkmirror_lag_seconds')})",
                "rate": f"sum by (flow) ({_rate('sparkmirror_records_total')})",
                "quarantined": f"max by (flow) ({_flow('sparkmirror_quarantined_partitions')})",
            },
            kind="table", width=24,
            columns={
                "lag": "records behind", "seconds": "seconds behind", "rate": "records/s",
                "quarantined": "quarantined",
            },
        ),
    ),
)  # fmt: skip
_THROUGHPUT = Row(
    "Throughput and lag",
    (
        Panel("Records copied", "Acknowledged by the target.",
              {"{{flow}}": f"sum by (flow) ({_rate('sparkmirror_records_total')})"}, unit="rps"),
        Panel("Bytes copied", "Record batches as they are on the target.",
              {"{{flow}}": f"sum by (flow) ({_rate('sparkmirror_bytes_total')})"}, unit="Bps"),
        Panel("Lag in records", "Also while a flow is paused, stopped or failed.",
              {"{{flow}}": f"max by (flow) ({_flow('sparkmirror_lag_records')})"}),
        Panel("Lag in time", "For how long the oldest uncopied record has been in the source.",
              {"{{flow}}": f"max by (flow) ({_flow('sparkmirror_lag_seconds')})"}, unit="s"),
        Panel("Lag in bytes", "Records behind times the average size of the copied ones.",
              {"{{flow}}": f"max by (flow) ({_flow('sparkmirror_lag_bytes')})"}, unit="bytes"),
        Panel("Partitions with unknown lag", "Their end or position cannot be read.",
              {"{{flow}}": f"max by (flow) ({_flow('sparkmirror_lag_unknown_partitions')})"}),
    ),
)  # fmt: skip
_LATENCY = Row(
    "Latency",
    (
        Panel("Copy latency, p99", "From the fetch to the target's acknowledgement.",
              {"{{flow}}": _percentile(0.99, "sparkmirror_copy_latency_seconds")}, unit="s",
              width=12),
        Panel("Replication latency, p99",
              "From a record's timestamp to the target's acknowledgement: in a backlog also the "
              "time before it was fetched.",
              {"{{flow}}": _percentile(0.99, "sparkmirror_replication_latency_seconds")}, unit="s",
              width=12),
    ),
)  # fmt: skip
_TROUBLE = Row(
    "Incidents and errors",
    (
        Panel("Incidents", "By kind; see docs/incidents.md.",
              {"{{flow}} {{kind}}": f"sum by (flow, kind) ({_INCIDENTS})"}, stacked=True),
        Panel("Request errors", "Of fetch and produce requests, per partition and attempt.",
              {"{{cluster}} {{error}}": f"sum by (cluster, error) ({_ERRORS})"}),
        Panel("Comparisons", "Partitions whose ends are compared, and those not taken over yet.",
              {"{{flow}} comparing": f"sum by (flow) ({_flow('sparkmirror_comparing_partitions')})",
               "{{flow}} waiting": f"sum by (flow) ({_flow('sparkmirror_take_over_partitions')})"}),
    ),
)  # fmt: skip
_GROUPS = Row(
    "Consumer groups and heartbeats",
    (
        Panel("Group positions", "Committed offsets by state; see docs/failover.md.",
              {"{{flow}} {{state}}": f"max by (flow, state) ({_POSITIONS})"},
              stacked=True),
        Panel("Age of checkpoints", "Since the last successful round.",
              {"{{flow}}": f"min by (flow) ({_flow('sparkmirror_checkpoint_age_seconds')})"},
              unit="s"),
        Panel("Age of heartbeats", "Since the last one was written.",
              {"{{source}}->{{target}}":
               f"min by (source, target) ({_HEARTBEAT})"},
              unit="s"),
    ),
)  # fmt: skip
_SPARK = Row(
    "Workers and Spark",
    (
        Panel("Task slots", "Those of the executors, and those that flows may use.",
              {"slots": 'sum(sparkmirror_slots{job=~"$job"})',
               "{{flow}}": f"sum by (flow) ({_flow('sparkmirror_flow_slots')})"}),
        Panel("Executors", "Of all workers.",
              {"{{instance}}": 'sum by (instance) (sparkmirror_executors{job=~"$job"})'}),
        Panel("Connectors and tasks", "By worker.",
              {"{{instance}} connectors":
               'sum by (instance) (kafka_connect_worker_connector_count{job=~"$job"})',
               "{{instance}} tasks":
               'sum by (instance) (kafka_connect_worker_task_count{job=~"$job"})'}),
        Panel("JVM memory", "Of Spark's driver.",
              {"{{instance}} {{area}}":
               'sum by (instance, area) (jvm_memory_used_bytes{job=~"$job"})'}, unit="bytes"),
        Panel("Time in garbage collection", "Of Spark's driver.",
              {"{{instance}}":
               'sum by (instance) (rate(jvm_gc_collection_seconds_sum{job=~"$job"}'
               "[$__rate_interval]))"}, unit="percentunit"),
        Panel("Configuration", "1 if the current file is in use, 0 if it was rejected.",
              {"{{instance}}":
               'min by (instance) (sparkmirror_config_last_reload_successful{job=~"$job"})'}),
    ),
)  # fmt: skip

_DEPTH = (
    Row(
        "Status",
        (
            Panel("State", "The state that has the value 1.",
                  {"{{state}}": f"max by (state) ({_flow('sparkmirror_flow_state')}) == 1"},
                  kind="stat", width=4),
            Panel("Records behind", "NaN: unknown.",
                  {"": f"max({_flow('sparkmirror_lag_records')})"}, kind="stat", width=4),
            Panel("Time behind", "Of the oldest uncopied record.",
                  {"": f"max({_flow('sparkmirror_lag_seconds')})"}, unit="s", kind="stat", width=4),
            Panel("Partitions", "Mirrored, and quarantined.",
                  {"mirrored": f"max({_flow('sparkmirror_partitions')})",
                   "quarantined": f"max({_flow('sparkmirror_quarantined_partitions')})",
                   "summed": f"max({_flow('sparkmirror_partitions_summed')})"},
                  kind="stat", width=6),
            Panel("Epoch and splits", "An epoch is one Spark job; a split is one of its tasks.",
                  {"epoch": f"max({_flow('sparkmirror_epoch')})",
                   "splits": f"max({_flow('sparkmirror_splits')})",
                   "without a task": f"max({_flow('sparkmirror_waiting_splits')})"},
                  kind="stat", width=6),
        ),
    ),
    Row(
        "Throughput",
        (
            Panel("Bytes on the wire", "Whole requests and responses, before TLS.",
                  {"{{cluster}} {{direction}}":
                   f"sum by (cluster, direction) ({_rate('sparkmirror_wire_bytes_total')})"},
                  unit="Bps"),
            Panel("Record batches", "Sent as they were fetched, rewritten, or merged.",
                  {"{{treatment}}": f"sum by (treatment) ({_rate('sparkmirror_batches_total')})"},
                  stacked=True),
            Panel("Records", "Copied; and of aborted transactions, which are not copied.",
                  {"copied": f"sum({_rate('sparkmirror_records_total')})",
                   "skipped": f"sum({_rate('sparkmirror_skipped_records_total')})"}, unit="rps"),
            Panel("Busiest partitions", "Bytes per second.",
                  {"{{topic}}-{{partition}}":
                   f"topk(10, {_rate('sparkmirror_partition_bytes_total')})"}, unit="Bps"),
            Panel("Record data in memory", "Fetched and not acknowledged.",
                  {"held": f"sum({_flow('sparkmirror_held_bytes')})"}, unit="bytes"),
            Panel("Records in flight", "Fetched and not acknowledged.",
                  {"records": f"sum({_flow('sparkmirror_unacked_records')})"}),
        ),
    ),
    Row(
        "Lag by partition",
        (
            Panel("Records", "The 10 partitions that are furthest behind.",
                  _top("sparkmirror_partition_lag_records")),
            Panel("Bytes", "The 10 partitions that are furthest behind.",
                  _top("sparkmirror_partition_lag_bytes"),
                  unit="bytes"),
            Panel("Time", "The 10 partitions that are furthest behind.",
                  _top("sparkmirror_partition_lag_seconds"),
                  unit="s"),
        ),
    ),
    Row(
        "Latency",
        (
            Panel("Copy latency", "From the fetch to the target's acknowledgement.",
                  {"p50": _percentile(0.5, "sparkmirror_copy_latency_seconds"),
                   "p99": _percentile(0.99, "sparkmirror_copy_latency_seconds")}, unit="s"),
            Panel("Replication latency", "From a record's timestamp to the acknowledgement.",
                  {"p50": _percentile(0.5, "sparkmirror_replication_latency_seconds"),
                   "p99": _percentile(0.99, "sparkmirror_replication_latency_seconds")}, unit="s"),
            Panel("Time to store positions", "Average of the epoch, by task.",
                  {"task {{task}}": f"max by (task) ({_COMMIT_TIME})"}, unit="ms"),
            Panel("Replication latency by partition", "Average of MM2's window, the 10 highest.",
                  _top_of_java("replication_latency_ms_avg"), unit="ms", width=12),
            Panel("Age of records when fetched", "Average of MM2's window, the 10 highest.",
                  _top_of_java("record_age_ms_avg"), unit="ms", width=12),
        ),
    ),
    _TROUBLE,
    _GROUPS,
)  # fmt: skip


def _target(panel: Panel, number: int, legend: str, query: str) -> dict[str, Any]:
    is_table = panel.kind == "table"
    return {
        "datasource": _SOURCE,
        "expr": query,
        "legendFormat": "" if is_table else legend,
        "refId": legend if is_table else chr(ord("A") + number),
        "instant": is_table,
        "range": not is_table,
        "format": "table" if is_table else "time_series",
    }


def _thresholds(panel: Panel) -> dict[str, Any]:
    steps = [{"color": panel.base, "value": None}]
    steps += [{"color": colour, "value": value} for value, colour in panel.steps]
    return {"mode": "absolute", "steps": steps}


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    missing = {"match": "null+nan", "result": {"text": "no data", "color": _RED}}
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    found = {
        "id": number,
        "title": panel.title,
        "description": panel.description,
        "type": panel.kind,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT // 2 if panel.kind == "stat" else _HEIGHT, "w": panel.width,
                    "x": x, "y": y},
        "targets": [
            _target(panel, n, legend, query)
            for n, (legend, query) in enumerate(panel.queries.items())
        ],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "noValue": "no data",
                "thresholds": _thresholds(panel),
                "mappings": [{"type": "special", "options": missing}],
                "custom": custom,
            },
            "overrides": [],
        },
    }  # fmt: skip
    if panel.kind == "stat":
        found["options"] = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "background",
            "textMode": "auto",
        }
    if panel.kind == "table":
        names = {f"Value #{key}": title for key, title in panel.columns.items()}
        hidden = {"Time": True, "Value #state": True}
        found["transformations"] = [
            {"id": "joinByField", "options": {"byField": "flow", "mode": "outer"}},
            {"id": "organize", "options": {"renameByName": names, "excludeByName": hidden}},
        ]
    return found


def _variable(name: str, label: str, query: str, *, multi: bool) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": multi,
        "includeAll": multi,
        "allValue": ".*" if multi else None,
        "sort": 1,
    }


def dashboard(uid: str, title: str, rows: tuple[Row, ...], *, one_flow: bool) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        panels.append({"id": len(panels) + 1, "type": "row", "title": row.title, "panels": [],
                       "collapsed": False,
                       "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": y}})  # fmt: skip
        y += 1
        x = height = 0
        for one in row.panels:
            if x + one.width > _COLUMNS:
                x, y, height = 0, y + height, 0
            made = _panel(one, len(panels) + 1, x, y)
            panels.append(made)
            x, height = x + one.width, max(height, made["gridPos"]["h"])
        y += height
    flows = 'label_values(sparkmirror_flow_info{job=~"$job"}, flow)'
    return {
        "uid": uid,
        "title": title,
        "tags": ["sparkmirror", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource",
                 "query": "prometheus"},
                _variable("job", "Job", "label_values(sparkmirror_slots, job)", multi=True),
                _variable("flow", "Flow", flows, multi=not one_flow),
            ]
        },
        "panels": panels,
    }  # fmt: skip


def dashboards() -> dict[Path, str]:
    """Return the text of each file."""
    all_flows = (_STATUS, _THROUGHPUT, _LATENCY, _TROUBLE, _GROUPS, _SPARK)
    made = {
        ALL_FLOWS: dashboard(
            "sparkmirror-flows", "sparkmirror: all flows", all_flows, one_flow=False
        ),
        ONE_FLOW: dashboard("sparkmirror-flow", "sparkmirror: one flow", _DEPTH, one_flow=True),
    }
    return {file: json.dumps(one, indent=1) + "\n" for file, one in made.items()}


if __name__ == "__main__":
    for file, text in dashboards().items():
        file.write_text(text, encoding="utf-8")
        print(f"wrote deploy/grafana/{file.name}")
