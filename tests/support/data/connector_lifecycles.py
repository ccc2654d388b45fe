# SPDX-License-Identifier: Apache-2.0
"""Life cycles of connectors over REST, and the records that a worker writes for them.

Java's records are in a golden file; ours are compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import quote

from confluent_kafka import Message

from support.clients.connect_rest import ConnectRestClient
from support.clients.librdkafka import Cluster, messages, topic_partitions
from support.mirrors.java_connect import ConnectTopics, heartbeat_config
from support.waiting import PATIENCE_SECONDS, eventually

# Java's server takes no backslash and no slash in an address, escaped or not.
ODD = 'odd - "name" ü \N{GRINNING FACE}'
SETTLED_LOOKS = 10  # a tenth of a second apart, with nothing new in the topics


def read(cluster: Cluster, topic: str) -> list[Message]:
    """Everything that a topic holds."""
    places = [(topic, index) for index in range(topic_partitions(cluster, topic))]
    return [one for chunk in messages(cluster, places) for one in chunk]


def positions(cluster: Cluster, topics: ConnectTopics) -> dict[str, list[int]]:
    """How many records each partition of the two topics has."""
    found = {}
    for kind, topic in (("config", topics.configs), ("status", topics.statuses)):
        counts = [0] * topic_partitions(cluster, topic)
        for message in read(cluster, topic):
            counts[message.partition()] += 1
        found[kind] = counts
    return found


def stable_positions(cluster: Cluster, topics: ConnectTopics) -> dict[str, list[int]]:
    """The same, once nothing is added any more."""
    looks: list[dict[str, list[int]]] = []

    def is_quiet() -> bool:
        looks.append(positions(cluster, topics))
        last = looks[-SETTLED_LOOKS:]
        return len(last) == SETTLED_LOOKS and all(one == last[0] for one in last)

    eventually(is_quiet, PATIENCE_SECONDS, "the worker writes nothing more")
    return looks[-1]


def golden_entry(kind: str, message: Message) -> dict[str, Any]:
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


def lifecycle_steps(
    worker: ConnectRestClient, cluster: Cluster
) -> list[tuple[str, Callable[[], None]]]:
    beat, odd = "/connectors/beat", f"/connectors/{quote(ODD, safe='')}"
    config = heartbeat_config(cluster)

    def then(method: str, path: str, body: object, *states: str) -> Callable[[], None]:
        def step() -> None:
            worker.request_ok(method, path, body)
            if states:
                worker.await_states("beat", *states)

        return step

    def created() -> None:
        worker.create("beat", config)
        worker.await_states("beat", "RUNNING", "RUNNING")

    def created_paused() -> None:
        worker.create(ODD, config | {"note": '\\ "ü" / \N{GRINNING FACE} \x1f\t\x7f'}, "PAUSED")
        worker.await_states(ODD, "PAUSED")  # it has no tasks before it has run

    def odd_resumed() -> None:
        worker.request_ok("PUT", f"{odd}/resume")
        worker.await_states(ODD, "RUNNING", "RUNNING")

    def created_broken() -> None:
        worker.create("broken", config | {"target.cluster.bootstrap.servers": "127.0.0.1:no"})
        worker.await_states("broken", "FAILED")

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


def connector_statuses(worker: ConnectRestClient) -> dict[str, Any]:
    found: dict[str, Any] = worker.get("/connectors?expand=info&expand=status")
    for name, answer in found.items():
        path = f"/connectors/{quote(name, safe='')}"
        answer["tasks"] = worker.get(f"{path}/tasks")
        answer["topics"] = worker.get(f"{path}/topics")[name]["topics"]
    return found


def run_lifecycles(
    worker: ConnectRestClient, cluster: Cluster, topics: ConnectTopics, but: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Run all steps, `but` for some.

    Returns the number of records after each step, and the responses of the worker.
    """
    steps = []
    for name, step in lifecycle_steps(worker, cluster):
        if name not in but:
            step()
            steps.append(
                {
                    "step": name,
                    "records": stable_positions(cluster, topics),
                    "told": connector_statuses(worker),
                }
            )
    return steps


def topic_records(cluster: Cluster, topics: ConnectTopics) -> list[dict[str, Any]]:
    """All records of the config and the status topic."""
    return [
        golden_entry(kind, message)
        for kind, topic in (("config", topics.configs), ("status", topics.statuses))
        for message in read(cluster, topic)
    ]
