# SPDX-License-Identifier: Apache-2.0
"""Records the responses of a Java Connect worker, for tests/unit/rest_client/recorded.json.

    PYTHONPATH=tests .venv/bin/python tools/record_rest.py

Starts a one-broker cluster and a distributed worker with a running, a failed and a paused
connector, and records every response unchanged, in the order of the requests. Long lists (keys,
loggers) are shortened. Addresses are written as HOST:PORT.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from support.clients.librdkafka import Cluster
from support.mirrors.java_connect import ConnectTopics, JavaConnect, heartbeat_config
from support.waiting import eventually

RECORDED = Path(__file__).parent.parent / "tests" / "unit" / "rest_client" / "recorded.json"
HOW = "tools/record_rest.py: answers of a distributed worker of Java's Kafka Connect."
CLASS = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
KEYS = ("name", "connector.class", "tasks.max", "transforms")
LOGGERS = 3
PATIENCE_SECONDS = 60.0


def questions(config: dict[str, str]) -> Iterator[tuple[str, str, object]]:
    """Yield the requests; `beat` runs, `broken` has failed and `resting` is paused."""
    yield "GET", "/", None
    yield "GET", "/connectors", None
    yield "GET", "/connectors?expand=status&expand=info", None
    for name in ("beat", "broken", "resting", "nobody"):
        for part in ("", "/config", "/status", "/offsets", "/topics"):
            yield "GET", f"/connectors/{name}{part}", None
    yield "GET", "/connector-plugins", None
    yield "GET", f"/connector-plugins/{CLASS}/config", None
    yield "GET", "/connector-plugins/Nothing/config", None
    good, bad = config | {"name": "new"}, config | {"name": "new", "tasks.max": "none"}
    yield "PUT", f"/connector-plugins/{CLASS}/config/validate", good
    yield "PUT", f"/connector-plugins/{CLASS}/config/validate", bad
    yield "GET", "/admin/loggers", None
    yield "GET", "/admin/loggers/root", None
    yield "GET", "/admin/loggers/nobody", None
    for action in ("pause", "resume", "stop"):
        yield "PUT", f"/connectors/resting/{action}", None
        yield "PUT", f"/connectors/nobody/{action}", None
    for name in ("beat", "nobody"):
        yield "POST", f"/connectors/{name}/restart?includeTasks=false&onlyFailed=false", None
        yield "POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true", None
    yield "PUT", "/connectors/new/config", bad
    yield "PUT", "/connectors/new/config", good
    yield "PUT", "/connectors/new/config", good | {"tasks.max": "2"}
    yield "POST", "/connectors", {"name": "late", "config": config, "initial_state": "STOPPED"}
    yield "POST", "/connectors", {"name": "late", "config": config, "initial_state": "STOPPED"}
    yield "DELETE", "/connectors/new", None
    yield "DELETE", "/connectors/nobody", None
    yield "GET", "/nowhere", None


def brief(path: str, answer: Any) -> Any:
    """Shorten long lists of keys or loggers."""
    if path.endswith("/config/validate"):
        kept = [
            one
            for one in answer["configs"]
            if one["value"]["name"] in KEYS or one["value"]["errors"]
        ]
        return {**answer, "configs": kept}
    if path == f"/connector-plugins/{CLASS}/config":
        return [one for one in answer if one["name"] in KEYS]
    if path == "/admin/loggers":
        return {name: answer[name] for name in [*sorted(answer)[:LOGGERS], "root"]}
    return answer


def record(java: JavaConnect, cluster: Cluster) -> list[dict[str, Any]]:
    """Return every request with its response."""
    config = heartbeat_config(cluster)
    java.create("beat", config)
    java.create("broken", config | {"target.cluster.bootstrap.servers": "127.0.0.1:no"})
    java.create("resting", config, "PAUSED")
    java.await_states("beat", "RUNNING", "RUNNING")
    java.await_states("broken", "FAILED")
    java.await_states("resting", "PAUSED")
    eventually(
        lambda: java.get("/connectors/beat/topics")["beat"]["topics"],
        PATIENCE_SECONDS,
        "the first heartbeat is written",
    )
    found = []
    for method, path, body in questions(config):
        status, answer = java.request(method, path, body)
        kept = brief(path, answer)
        found.append({"method": method, "path": path, "status": status, "answer": kept})
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        with (
            LocalCluster("recorded", scratch / "kafka") as cluster,
            JavaConnect(cluster, scratch, ConnectTopics("recorded")) as java,
        ):
            answers = record(java, cluster)
    text = json.dumps({"kafka": DEFAULT_KAFKA, "how": HOW, "answers": answers}, indent=1)
    RECORDED.write_text(re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text) + "\n", encoding="utf-8")
    print(f"{len(answers)} answers in {RECORDED}")


if __name__ == "__main__":
    main()
