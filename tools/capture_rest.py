# SPDX-License-Identifier: Apache-2.0
"""Captures the HTTP responses of a Java Connect worker into tests/contract/golden/rest.json.

    PYTHONPATH=tests .venv/bin/python tools/capture_rest.py

The requests are in tests/support/data/rest_script.py; the tests send them to our worker.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from support.data.rest_script import run_script
from support.mirrors.java_connect import ConnectTopics, JavaConnect

GOLDEN = Path(__file__).parent.parent / "tests" / "contract" / "golden" / "rest.json"
HOW = (
    "tools/capture_rest.py: a distributed worker of Java's Kafka Connect (one broker, loopback) "
    "was sent tests/support/data/rest_script.py; documentation of keys is left out."
)


def without_documentation(value: object) -> object:
    """Remove Kafka's documentation texts."""
    if isinstance(value, dict):
        return {
            key: without_documentation(one) for key, one in value.items() if key != "documentation"
        }
    return [without_documentation(one) for one in value] if isinstance(value, list) else value


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with (
            LocalCluster("connect", scratch / "connect") as cluster,
            JavaConnect(cluster, scratch, ConnectTopics("rest")) as java,
        ):
            answers = {}
            servers, wait = cluster.bootstrap_servers, java.await_states
            for step, heard in run_script(java.worker_id, servers, wait, lambda: time.sleep(2)):
                answers[step.name] = {
                    "status": heard.status,
                    "headers": heard.headers,
                    "body": without_documentation(heard.body),
                }
    text = {"kafka": DEFAULT_KAFKA, "how": HOW, "answers": answers}
    GOLDEN.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(answers)} answers in {GOLDEN.name}")


if __name__ == "__main__":
    main()
