# SPDX-License-Identifier: Apache-2.0
"""Captures the group protocol of Java Connect workers, byte for byte.

    PYTHONPATH=tests .venv/bin/python tools/capture_group.py

Starts a one-broker cluster and two distributed workers on the loopback interface. DescribeGroups
returns the metadata and assignment of every member; the workers' REST responses tell which worker
runs what. Connectors are stopped and have no tasks, because our group protocol has none.
"""

from __future__ import annotations

import json
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from kafka.protocol.admin import DescribeGroupsRequest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.request import Request
from sparkmirror.wire.settings import ConnectionSettings
from support.mirrors.java_connect import ConnectTopics, JavaConnect, heartbeat_config
from support.waiting import eventually

GOLDEN = Path(__file__).parent.parent / "tests" / "contract" / "golden" / "connect_group.json"
HOW = (
    "tools/capture_group.py: two distributed workers of Java's Kafka Connect (one broker, "
    "loopback) shared MirrorHeartbeatConnectors that were stopped and so had no tasks; members are "
    "as DescribeGroups shows them, metadata and assignment in hex. 'told' is who had what by the "
    "workers' own statuses; between the steps only the group was looked at."
)
NAMES = ("beat-0", "beat-ü", "beat-2")
PATIENCE_SECONDS = 90.0


def members(client: ClusterClient, group: str) -> dict[str, Any] | None:
    """Return the protocol and members of the group, if it is stable."""
    found = client.send(Request(DescribeGroupsRequest(groups=[group]), 0, 5)).groups[0]
    if (found.error_code, found.group_state) != (0, "Stable"):
        return None
    return {
        "protocol": found.protocol_data,
        "members": [
            {
                "id": member.member_id,
                "metadata": bytes(member.member_metadata).hex(),
                "assignment": bytes(member.member_assignment).hex(),
            }
            for member in found.members
        ],
    }


class Watch:
    """Polls the group continuously: a generation that revokes work is short."""

    def __init__(self, connection: ConnectionSettings, group: str) -> None:
        self._connection = connection
        self._group = group
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _look(self) -> None:
        with closing(ClusterClient(self._connection)) as client:
            while not self._ending.is_set():
                found = members(client, self._group)
                if found is not None and found not in self.seen:
                    self.seen.append(found)


def told(java: JavaConnect) -> dict[str, list[str]]:
    """Return the connectors of each worker."""
    found: dict[str, list[str]] = {}
    for name, answer in java.get("/connectors?expand=status").items():
        found.setdefault(answer["status"]["connector"]["worker_id"], []).append(name)
    return {worker: sorted(names) for worker, names in found.items()}


def settled(java: JavaConnect, workers: int) -> dict[str, list[str]]:
    """Wait until this many workers share the connectors; return them."""

    def all_there() -> dict[str, list[str]] | None:
        for name in NAMES:
            java.await_states(name, "STOPPED")
        found = told(java)
        return found if len(found) == workers else None

    shared = eventually(all_there, PATIENCE_SECONDS, f"{workers} workers share the work")
    return shared or {}


def capture(cluster: LocalCluster, scratch: Path) -> list[dict[str, Any]]:
    topics = ConnectTopics("group")
    connection = ConnectionSettings("connect", (cluster.bootstrap_servers,), "capture")
    folders = [scratch / f"worker-{number}" for number in range(2)]
    for folder in folders:
        folder.mkdir()
    steps = []

    def step(name: str, work: dict[str, list[str]]) -> None:
        found = eventually(
            lambda: members(client, topics.group), PATIENCE_SECONDS, "the group rests"
        )
        steps.append({"step": name, **(found or {}), "told": work})

    with (
        closing(ClusterClient(connection)) as client,
        JavaConnect(cluster, folders[0], topics) as first,
        Watch(connection, topics.group) as watch,
    ):
        step("alone, no connectors", {})
        for name in NAMES:
            first.create(name, heartbeat_config(cluster), "STOPPED")
        step("alone", settled(first, 1))
        with JavaConnect(cluster, folders[1], topics):
            step("two workers", settled(first, 2))
            first.request_ok("DELETE", f"/connectors/{NAMES[0]}")
            eventually(
                lambda: NAMES[0] not in first.get("/connectors"), PATIENCE_SECONDS, "it is gone"
            )
            step("one connector deleted", {})
    known = [(one["protocol"], one["members"]) for one in steps]
    between = [one for one in watch.seen if (one["protocol"], one["members"]) not in known]
    return steps + [
        {"step": f"between steps, {number}", **one, "told": {}}
        for number, one in enumerate(between)
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with LocalCluster("connect", folder / "connect") as cluster:
            steps = capture(cluster, folder)
    text = {"kafka": DEFAULT_KAFKA, "how": HOW, "steps": steps}
    GOLDEN.write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(steps)} steps in {GOLDEN.name}")


if __name__ == "__main__":
    main()
