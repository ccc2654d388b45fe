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
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from confluent_kafka import Message

from sparkmirror.local.cluster import LocalCluster
from sparkmirror.local.jars import DEFAULT_KAFKA
from support.java_connect import ConnectTopics, JavaConnect, heartbeat_config
from support.waiting import eventually
from support.witness import Cluster, messages, topic_partitions

GOLDEN = Path(__file__).parent.parent / "tests" / "contract" / "golden" / "connect.json"
HOW = (
    "tools/capture_connect.py: a distributed worker of Java's Kafka Connect (one broker, loopback, "
    "exactly-once source support on) ran MirrorHeartbeatConnectors; its topics were read with "
    "librdkafka. 'steps' has the worker's own answers when its topics had so many records."
)
TOPICS = ConnectTopics("connect")
# Java's server takes no backslash and no slash in an address, escaped or not.
ODD = 'odd - "name" ü \N{GRINNING FACE}'
SETTLED_LOOKS = 10  # a tenth of a second apart, with nothing new in the topics
PATIENCE_SECONDS = 60.0


def read(cluster: Cluster, topic: str) -> list[Message]:
    """Everything that a topic holds."""
    places = [(topic, index) for index in range(topic_partitions(cluster, topic))]
    return [one for chunk in messages(cluster, places) for one in chunk]


def positions(cluster: Cluster) -> dict[str, list[int]]:
    """How many records each partition of the two topics has."""
    found = {}
    for kind, topic in (("config", TOPICS.configs), ("status", TOPICS.statuses)):
        counts = [0] * topic_partitions(cluster, topic)
        for message in read(cluster, topic):
            counts[message.partition()] += 1
        found[kind] = counts
    return found


def settled(cluster: Cluster) -> dict[str, list[int]]:
    """The same, once nothing is added any more."""
    looks: list[dict[str, list[int]]] = []

    def is_quiet() -> bool:
        looks.append(positions(cluster))
        last = looks[-SETTLED_LOOKS:]
        return len(last) == SETTLED_LOOKS and all(one == last[0] for one in last)

    eventually(is_quiet, PATIENCE_SECONDS, "the worker writes nothing more")
    return looks[-1]


def entry(kind: str, message: Message) -> dict[str, Any]:
    """A record as the golden file lists it: as text, which UTF-8 makes the same bytes again."""
    value = message.value()
    return {
        "kind": kind,
        "partition": message.partition(),
        "offset": message.offset(),
        "time": message.timestamp()[1],
        "key": message.key().decode(),
        "value": None if value is None else value.decode(),
    }


def lives(java: JavaConnect, cluster: Cluster) -> list[tuple[str, Callable[[], None]]]:
    """What is done, step by step."""
    beat, odd = "/connectors/beat", f"/connectors/{quote(ODD, safe='')}"
    config = heartbeat_config(cluster)

    def then(method: str, path: str, body: object, *states: str) -> Callable[[], None]:
        def step() -> None:
            java.do(method, path, body)
            if states:
                java.await_states("beat", *states)

        return step

    def created() -> None:
        java.create("beat", config)
        java.await_states("beat", "RUNNING", "RUNNING")

    def created_paused() -> None:
        java.create(ODD, config | {"note": '\\ "ü" / \N{GRINNING FACE} \x1f\t\x7f'}, "PAUSED")
        java.await_states(ODD, "PAUSED")  # it has no tasks before it has run

    def odd_resumed() -> None:
        java.do("PUT", f"{odd}/resume")
        java.await_states(ODD, "RUNNING", "RUNNING")

    def created_broken() -> None:
        java.create("broken", config | {"target.cluster.bootstrap.servers": "127.0.0.1:no"})
        java.await_states("broken", "FAILED")

    changed = config | {"name": "beat", "emit.heartbeats.interval.seconds": "2"}
    return [
        ("created", created),
        ("created paused", created_paused),
        ("created broken", created_broken),
        ("broken one deleted", then("DELETE", "/connectors/broken", None)),
        ("odd one resumed", odd_resumed),
        ("paused", then("PUT", f"{beat}/pause", None, "PAUSED", "PAUSED")),
        ("resumed", then("PUT", f"{beat}/resume", None, "RUNNING", "RUNNING")),
        ("changed", then("PUT", f"{beat}/config", changed, "RUNNING", "RUNNING")),
        ("restarted", then("POST", f"{beat}/restart?includeTasks=true", None)),
        ("failed ones restarted", then("POST", f"{beat}/restart?onlyFailed=true", None)),
        ("stopped", then("PUT", f"{beat}/stop", None, "STOPPED")),
        ("resumed again", then("PUT", f"{beat}/resume", None, "RUNNING", "RUNNING")),
        (
            "level set",
            then("PUT", "/admin/loggers/org.apache.kafka.x?scope=cluster", {"level": "ERROR"}),
        ),
        ("topics reset", then("PUT", f"{odd}/topics/reset", None)),
        ("deleted", then("DELETE", beat, None)),
        ("all deleted", then("DELETE", odd, None)),
    ]


def told(java: JavaConnect) -> dict[str, Any]:
    """What the worker says of its connectors."""
    found: dict[str, Any] = java.get("/connectors?expand=info&expand=status")
    for name, answer in found.items():
        path = f"/connectors/{quote(name, safe='')}"
        answer["tasks"] = java.get(f"{path}/tasks")
        answer["topics"] = java.get(f"{path}/topics")[name]["topics"]
    return found


def capture(scratch: Path) -> dict[str, Any]:
    """Let Java write, and read it."""
    with (
        LocalCluster("connect", scratch / "connect") as cluster,
        JavaConnect(cluster, scratch, TOPICS, exactly_once_source_support="enabled") as java,
    ):
        steps = []
        for name, step in lives(java, cluster):
            step()
            steps.append({"step": name, "records": settled(cluster), "told": told(java)})
        java.stop()
        records = [
            entry(kind, message)
            for kind, topic in (("config", TOPICS.configs), ("status", TOPICS.statuses))
            for message in read(cluster, topic)
        ]
    return {"steps": steps, "records": records}


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as scratch:
        found = capture(Path(scratch))
    text = {"kafka": DEFAULT_KAFKA, "how": HOW, **found}
    GOLDEN.write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(found['records'])} records in {GOLDEN.name}")


if __name__ == "__main__":
    main()
