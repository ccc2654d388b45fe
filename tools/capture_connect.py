# SPDX-License-Identifier: Apache-2.0
"""Captures the bytes that a Java Connect worker writes, into tests/contract/golden/.

    PYTHONPATH=tests .venv/bin/python tools/capture_connect.py

Starts a one-broker cluster and a distributed worker on the loopback interface, runs connectors
through their life cycles over REST, and reads its topics with librdkafka. The worker's own
responses are stored after every step, so the expected values do not depend on our code.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from support.data.connector_lifecycles import run_lifecycles, topic_records
from support.mirrors.java_connect import ConnectTopics, JavaConnect

GOLDEN = Path(__file__).parent.parent / "tests" / "contract" / "golden" / "connect.json"
HOW = (
    "tools/capture_connect.py: a distributed worker of Java's Kafka Connect (one broker, loopback, "
    "exactly-once source support on) ran MirrorHeartbeatConnectors; its topics were read with "
    "librdkafka. 'steps' has the worker's own answers when its topics had so many records."
)
TOPICS = ConnectTopics("connect")


def capture(scratch: Path) -> dict[str, Any]:
    with (
        LocalCluster("connect", scratch / "connect") as cluster,
        JavaConnect(cluster, scratch, TOPICS, exactly_once_source_support="enabled") as java,
    ):
        steps = run_lifecycles(java, cluster, TOPICS)
        java.stop()
        return {"steps": steps, "records": topic_records(cluster, TOPICS)}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        found = capture(Path(scratch))
    text = {"kafka": DEFAULT_KAFKA, "how": HOW, **found}
    GOLDEN.write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(found['records'])} records in {GOLDEN.name}")


if __name__ == "__main__":
    main()
