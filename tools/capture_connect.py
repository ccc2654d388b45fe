# SPDX-License-Identifier: Apache-2.0
"""Captures what a worker of Java's Connect writes, byte for byte, into tests/contract/golden/.

    PYTHONPATH=tests .venv/bin/python tools/capture_connect.py

Starts a one-broker cluster and a distributed worker on the loopback interface, leads connectors
through their lives over its REST API, and reads its topics with librdkafka. After every step the
worker's own answers are kept, so that nothing of ours is asked what Java's bytes mean.
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
    """Let Java write, and read it."""
    with (
        LocalCluster("connect", scratch / "connect") as cluster,
        JavaConnect(cluster, scratch, TOPICS, exactly_once_source_support="enabled") as java,
    ):
        steps = run_lifecycles(java, cluster, TOPICS)
        java.stop()
        return {"steps": steps, "records": topic_records(cluster, TOPICS)}


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as scratch:
        found = capture(Path(scratch))
    text = {"kafka": DEFAULT_KAFKA, "how": HOW, **found}
    GOLDEN.write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(found['records'])} records in {GOLDEN.name}")


if __name__ == "__main__":
    main()
