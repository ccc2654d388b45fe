# SPDX-License-Identifier: Apache-2.0
"""Java programs with the JMX exporter, with rules of the shape that Strimzi uses for MM2.

`captured_names` reduces a scrape to what dashboards depend on: names, types, labels, and one
example of each label's value, quotes included.
"""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sparkmirror.devcluster.jvm import QUICK_START
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.data.maven_jar import maven_jar
from support.waiting import PATIENCE_SECONDS

AGENT = ("io.prometheus.jmx", "jmx_prometheus_javaagent", "1.0.1")
AGENT_DIGEST = "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1"
_GAUGES = (
    ".+-avg|.+-bytes|.+-count|.+-ratio|.+-age|.+-flight|.+-threads|.+-connectors|.+-tasks|.+-ago"
)
_TASK_GAUGES = (
    ".+-count|.+-ms|.+-ratio|.+-avg|.+-failures|.+-requests|.+-timestamp|.+-logged|.+-errors"
    "|.+-retries|.+-skipped"
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule of the exporter; the first one that matches an attribute counts."""

    pattern: str
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    type: str = "GAUGE"
    value: int | None = None


def _split(pattern: str, gauges: str, name: str, labels: dict[str, str]) -> list[_Rule]:
    """Counters end with -total, everything else is a gauge."""
    return [
        _Rule(f"{pattern}<>(.+-total)", name, labels, "COUNTER"),
        _Rule(f"{pattern}<>({gauges})", name, labels),
    ]


_CLIENT = {"clientId": "$3"}
_TASK = {"connector": "$2", "task": "$3"}
_PAIR = {"source": "$1", "target": "$2"}
RULES = (
    *_split(
        "kafka.(.+)<type=(.+)-metrics, client-id=(.+), topic=(.+), partition=(.+)>",
        "compression-rate|.+-avg|.+-replica|.+-lag|.+-lead",
        "kafka_$2_$6",
        {**_CLIENT, "topic": "$4", "partition": "$5"},
    ),
    *_split(
        "kafka.(.+)<type=(.+)-metrics, client-id=(.+), topic=(.+)>",
        "compression-rate|.+-avg",
        "kafka_$2_$5",
        {**_CLIENT, "topic": "$4"},
    ),
    *_split(
        "kafka.(.+)<type=(.+)-metrics, client-id=(.+), node-id=(.+)>",
        ".+-avg",
        "kafka_$2_$5",
        {**_CLIENT, "nodeId": "$4"},
    ),
    *_split("kafka.(.+)<type=(.+)-metrics, client-id=(.*)>", _GAUGES, "kafka_$2_$4", _CLIENT),
    _Rule(
        "kafka.connect<type=connector-task-metrics, connector=(.+), task=(.+)><>status: ([a-z-]+)",
        "kafka_connect_connector_status",
        {"connector": "$1", "task": "$2", "status": "$3"},
        value=1,
    ),
    *_split(
        "kafka.connect<type=(.+)-metrics, connector=(.+), task=(.+)>",
        _TASK_GAUGES,
        "kafka_connect_$1_$4",
        _TASK,
    ),
    _Rule(
        "kafka.connect<type=connect-worker-metrics, connector=(.+)><>([a-z-]+)",
        "kafka_connect_worker_$2",
        {"connector": "$1"},
    ),
    *(
        _Rule(f"kafka.connect<type=connect-{type_}-metrics><>([a-z-]+{end})", name, {}, kind)
        for type_, name in (
            ("worker", "kafka_connect_worker_$1"),
            ("worker-rebalance", "kafka_connect_worker_rebalance_$1"),
        )
        for end, kind in (("-total", "COUNTER"), ("", "GAUGE"))
    ),
    _Rule(
        "kafka.connect.mirror<type=MirrorSourceConnector, source=(.+), target=(.+), topic=(.+), "
        "partition=(.+)><>([a-z-_]+)",
        "kafka_connect_mirror_mirrorsourceconnector_$5",
        {**_PAIR, "topic": "$3", "partition": "$4"},
    ),
    _Rule(
        "kafka.connect.mirror<type=MirrorCheckpointConnector, source=(.+), target=(.+), "
        "group=(.+), topic=(.+), partition=(.+)><>([a-z-_]+)",
        "kafka_connect_mirror_mirrorcheckpointconnector_$6",
        {**_PAIR, "group": "$3", "topic": "$4", "partition": "$5"},
    ),
)


def rules_text() -> str:
    """The exporter's file."""
    lines = ["lowercaseOutputName: true", "lowercaseOutputLabelNames: true", "rules:"]
    for one in RULES:
        lines += [f"- pattern: '{one.pattern}'", f"  name: {one.name}", f"  type: {one.type}"]
        lines += [] if one.value is None else [f"  value: {one.value}"]
        lines += ["  labels:", *(f'    {name}: "{value}"' for name, value in one.labels.items())]
        if not one.labels:
            lines.pop()
    return "\n".join([*lines, ""])


class JmxExporter:
    """The agent of one JVM: options for its start, and scrapes."""

    def __init__(self, scratch: Path) -> None:
        jar = maven_jar(*AGENT, sha256=AGENT_DIGEST)
        rules = scratch / "jmx-exporter.yml"
        rules.write_text(rules_text(), encoding="utf-8")
        self._port = ReservedPort()
        self._port.reserve()
        self._port.prepare_bind()
        self.options = (*QUICK_START, f"-javaagent:{jar}={HOST}:{self._port.number}:{rules}")

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port.number}"

    def scrape(self) -> str:
        url = f"http://{self.address}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            text: str = answer.read().decode()
        return text

    def close(self) -> None:
        self._port.release()


PREFIXES = ("kafka_", "jvm_")
_MAX_EXAMPLES = 6


def captured_names(scrape: str) -> dict[str, Any]:
    """Name of each sample -> its type, and its labels with examples of their values."""
    found: dict[str, Any] = {}
    scrape = re.sub(rf"{HOST}:\d+", f"{HOST}:8083", scrape)  # the port is any free one
    for family in text_string_to_metric_families(scrape):
        for one in family.samples:
            if not one.name.startswith(PREFIXES):
                continue
            entry = found.setdefault(one.name, {"type": family.type, "labels": {}})
            for name, value in one.labels.items():
                values = entry["labels"].setdefault(name, [])
                if value not in values and len(values) < _MAX_EXAMPLES:
                    values.append(value)
    return dict(sorted(found.items()))
