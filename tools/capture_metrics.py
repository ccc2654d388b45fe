# SPDX-License-Identifier: Apache-2.0
"""Captures the metrics of Java's MirrorMaker 2 under Strimzi's names, into tests/contract/golden/.

    PYTHONPATH=tests .venv/bin/python tools/capture_metrics.py

Starts two one-broker clusters and a Connect worker of Java with the JMX exporter on the loopback
interface, runs a flow's three connectors under Strimzi's names, and scrapes the exporter.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from support.mirrors.java_metrics import SOURCE, TARGET, java_flow, make_traffic
from support.mirrors.jmx_exporter import AGENT, captured_names

GOLDEN = Path(__file__).parent.parent / "tests" / "contract" / "golden" / "metrics.json"
HOW = (
    "tools/capture_metrics.py: a Connect worker of Java with the JMX exporter, and rules of the "
    "shape that Strimzi uses for MirrorMaker 2, ran the three connectors of one flow under "
    "Strimzi's names. 'metrics' has the type of each sample, and examples of each label's values; "
    "quotes are those of Kafka's JMX names."
)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        clusters = {alias: LocalCluster(alias, scratch / alias) for alias in (SOURCE, TARGET)}
        start_all(list(clusters.values()))
        try:
            make_traffic(clusters[SOURCE])
            with java_flow(clusters, scratch) as exporter:
                found = captured_names(exporter.scrape())
        finally:
            for one in clusters.values():
                one.stop()
    head = {"kafka": DEFAULT_KAFKA, "exporter": ":".join(AGENT), "how": HOW}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
    text = ["{", *lines, ' "metrics": {', ",\n".join(rows), " }", "}", ""]
    GOLDEN.write_text("\n".join(text), encoding="utf-8")
    print(f"{len(found)} metrics in {GOLDEN.name}")


if __name__ == "__main__":
    main()
