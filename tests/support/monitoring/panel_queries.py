# SPDX-License-Identifier: Apache-2.0
"""The queries of our dashboards with their variables substituted, and of one of Strimzi's shape."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).parents[3] / "deploy"
JOB = "sparkmirror"
# What Strimzi's operator adds to the pods of a mirror, and its scrape configuration to the series.
STRIMZI_LABELS = {
    "strimzi_io_kind": "KafkaMirrorMaker2",
    "strimzi_io_cluster": "mirror",
    "namespace": "kafka",
    "kubernetes_pod_name": "mirror-0",
}
_MIRROR = 'strimzi_io_kind=~"KafkaMirrorMaker2",strimzi_io_cluster="mirror"'
_SOURCE = "kafka_connect_mirror_mirrorsourceconnector"
_CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector"
_CONSUMER = f'{_MIRROR},clientid=~".*replication-consumer\\""'
_CONNECTOR = r'connector=~"\".*SourceConnector\""'
_COMMIT = f'kafka_connect_connector_task_offset_commit_avg_time_ms{{{_CONNECTOR},task=~"[0-9]+"}}'


def _of_partitions(metric: str) -> str:
    return f"sum({_SOURCE}_{metric}{{{_MIRROR}}}) by (partition, topic)"


def _by_pod(metric: str, window: str = "") -> str:
    inner = f"{metric}{{{_MIRROR}}}"
    return f"sum({f'rate({inner}[{window}])' if window else inner}) by (kubernetes_pod_name)"


STRIMZI_PANELS = {
    "namespaces": 'kafka_connect_worker_connector_count{strimzi_io_kind="KafkaMirrorMaker2"}',
    "connectors": f"sum(kafka_connect_worker_connector_count{{{_MIRROR}}})",
    "tasks": f"sum(kafka_connect_worker_task_count{{{_MIRROR}}})",
    "record rate": f"sum({_SOURCE}_record_rate{{{_MIRROR}}})",
    "byte rate": f"sum({_SOURCE}_byte_rate{{{_MIRROR}}})",
    **{
        f"{metric}{end}": _of_partitions(f"{metric}{end}")
        for metric in ("record_age_ms", "replication_latency_ms")
        for end in ("", "_avg", "_min", "_max")
    },
    "consumer lag": (
        f"sum(kafka_consumer_fetch_manager_records_lag{{{_CONSUMER}}}) by (topic, partition)"
    ),
    "highest lags": (
        f"topk(20, sum(kafka_consumer_fetch_manager_records_lag{{{_CONSUMER}}}) "
        "by (partition, topic))"
    ),
    "incoming bytes": _by_pod("kafka_consumer_incoming_byte_total", "10s"),
    "outgoing bytes": _by_pod("kafka_producer_outgoing_byte_total", "10s"),
    "group offset sync latency": (
        "sum by (source, target, topic, partition, group) "
        f"({_CHECKPOINT}_checkpoint_latency_ms{{{_MIRROR}}})"
    ),
    "producer's buffer": (
        r'sum(kafka_producer_buffer_available_bytes{clientid=~"\".*SourceConnector-[0-9]+\""})'
    ),
    "offset commit time": f"sum({_COMMIT})/count({_COMMIT})",
    "outstanding messages": (
        f"sum(kafka_connect_source_task_source_record_active_count{{{_CONNECTOR}}})"
    ),
    "assigned connectors": _by_pod("kafka_connect_coordinator_assigned_connectors"),
    "assigned tasks": _by_pod("kafka_connect_coordinator_assigned_tasks"),
    "rebalancing": f"sum(kafka_connect_worker_rebalance_rebalancing{{{_MIRROR}}})",
    "JVM memory": _by_pod("jvm_memory_used_bytes"),
    "time in garbage collection": _by_pod("jvm_gc_collection_seconds_sum", "10s"),
    "JVM threads": _by_pod("jvm_threads_current"),
}
_PLAIN_CONSUMER = '{%s, client_id=~".*replication-consumer"}'
_PLAIN_TASK = '{%s, connector=~".*SourceConnector", task=~"[0-9]+"}'
# Other families, by file in deploy/prometheus/relabel; their jobs have the file's name.
RELABELLED = {
    "mirror-source-connector": (
        "kafka_connect_mirror_source_connector_replication_latency_ms_max{%s}",
        "kafka_connect_mirror_source_connector_record_count{%s}",
        "kafka_connect_mirror_checkpoint_connector_checkpoint_latency_ms{%s}",
    ),
    "strimzi-metrics-reporter": (
        "kafka_connect_mirror_mirrorsourceconnector_record_rate{%s}",
        f"kafka_consumer_consumer_fetch_manager_metrics_records_lag{_PLAIN_CONSUMER}",
        "rate(kafka_consumer_consumer_metrics_incoming_byte{%s}[10s])",
        "rate(kafka_producer_producer_metrics_outgoing_byte{%s}[10s])",
        "kafka_producer_producer_metrics_buffer_available_bytes{%s}",
        "kafka_connect_connect_worker_metrics_connector_count{%s}",
        "kafka_connect_connect_worker_metrics_task_count{%s}",
        "kafka_connect_connect_coordinator_metrics_assigned_connectors{%s}",
        "kafka_connect_connect_worker_rebalance_metrics_rebalancing{%s}",
        f"kafka_connect_connector_task_metrics_offset_commit_avg_time_ms{_PLAIN_TASK}",
        "kafka_connect_source_task_metrics_source_record_active_count{%s}",
    ),
}


def relabelled_queries(family: str) -> list[str]:
    """The queries of another family, of its own job."""
    return [one.replace("%s", f'job="{family}"') for one in RELABELLED[family]]


def dashboard_queries(flow: str) -> dict[str, str]:
    """Title of dashboard and panel -> query, as Grafana sends it."""
    found = {}
    for file in sorted((DEPLOY / "grafana").glob("*.json")):
        dashboard: dict[str, Any] = json.loads(file.read_text("utf-8"))
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                query = target["expr"].replace("$__rate_interval", "10s")
                query = query.replace("$job", JOB).replace("$flow", flow)
                assert "$" not in query.replace("$1", ""), query
                found[f"{file.stem}: {panel['title']}: {target['refId']}"] = query
    return found


def rule_queries() -> list[str]:
    """The expressions of the recording rules, and what alerts compare."""
    text = (DEPLOY / "prometheus" / "rules" / "recording.yml").read_text("utf-8")
    return re.findall(r"expr: (.+)", text)


def faster_rules(directory: Path, factor: int) -> list[Path]:
    """Copies of the shipped rules whose durations and ages are shorter by a factor."""

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{int(found[2]) * 60 // factor}s{found[3]}"

    written = []
    for file in sorted((DEPLOY / "prometheus" / "rules").glob("*.yml")):
        text = file.read_text("utf-8")
        text = re.sub(r"(\[|for: |offset )(\d+)m(\]?)", shorter, text)
        text = re.sub(
            r"(age_seconds\) > )(\d+)", lambda one: f"{one[1]}{int(one[2]) / factor:g}", text
        )
        copy = directory / file.name
        copy.write_text(text, encoding="utf-8")
        written.append(copy)
    return written
