# SPDX-License-Identifier: Apache-2.0
"""Captures the bytes that Java MirrorMaker 2 writes, into tests/contract/golden/.

    PYTHONPATH=tests .venv/bin/python tools/capture_golden.py

Starts two one-broker clusters and Java MirrorMaker 2 on the loopback interface, mirrors a topic
with three consumer groups, and reads its topics with librdkafka. MM2's console formatters decode
binary records, so the expected values do not depend on our code.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from sparkmirror.kafka.descriptions import CommittedOffset
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.model import TopicPartition
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.java_mirror_client import formatted
from support.clients.librdkafka import (
    Cluster,
    create_topics,
    messages,
    numbered,
    produce,
    topic_partitions,
    topics,
)
from support.clusters.topic_histories import delete_before
from support.mirrors.java_mirror_maker import JavaMirror
from support.mirrors.mirror_file import mirror_file
from support.waiting import eventually

GOLDEN = Path(__file__).parent.parent / "tests" / "contract" / "golden" / "mm2.json"
HOW = (
    "tools/capture_golden.py: Java MirrorMaker 2 mirrored topic 'orders' from cluster 'primary' to "
    "cluster 'backup' (one broker each, loopback); its topics were read with librdkafka; "
    "'printed' is what MM2's console formatters said of the same records."
)
START_SECONDS = 90.0
TOPIC, PARTITIONS = "orders", 2
EXPIRED = 30  # so that offsets differ on the two sides
MOST_OF_A_KIND = 6
OFFSETS = "mm2-offsets.primary.internal"
GROUPS = {
    "readers": "",
    "noters": "a note, ünïcode \N{GRINNING FACE}",
    'odd / "group" \\ ü \N{GRINNING FACE} \x1f': "",
}
LINES = (
    "primary->backup.enabled = true",
    f"primary->backup.topics = {TOPIC}",
    "emit.checkpoints.interval.seconds = 1",
    "backup.offset.flush.interval.ms = 1000",
    "replication.factor = 1",
    *(
        f"{name}.replication.factor = 1"
        for name in (
            "offset-syncs.topic",
            "checkpoints.topic",
            "heartbeats.topic",
            "offset.storage",
            "status.storage",
            "config.storage",
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Binary:
    """A record type that a formatter of MM2 prints."""

    kind: str
    topic: str
    formatter: str
    on: str = "backup"


BINARIES = (
    Binary("offset sync", "mm2-offset-syncs.backup.internal", "OffsetSyncFormatter", "primary"),
    Binary("checkpoint", "primary.checkpoints.internal", "CheckpointFormatter"),
    Binary("heartbeat", "heartbeats", "HeartbeatFormatter"),
)


def commit_groups(cluster: Cluster) -> None:
    """Commit offsets for some groups, one of them with metadata."""
    places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    wanted = {
        group: {place: CommittedOffset(40 + place.partition, note) for place in places}
        for group, note in GROUPS.items()
    }
    connection = ConnectionSettings("primary", (cluster.bootstrap_servers,), "capture")
    with GroupAdmin(connection) as groups:
        eventually(
            lambda: not any(groups.commit_offsets(wanted).values()),
            START_SECONDS,
            "offsets are committed",
        )


def read(cluster: Cluster, topic: str) -> list[Message]:
    places = [(topic, index) for index in range(topic_partitions(cluster, topic))]
    return [one for chunk in messages(cluster, places) for one in chunk]


def entry(kind: str, message: Message, **more: str) -> dict[str, Any]:
    """Return a record as a golden file entry."""
    return {
        "kind": kind,
        "topic": message.topic(),
        "partition": message.partition(),
        **more,
        "key": message.key().hex(),
        "value": message.value().hex(),
    }


def stored_offsets(cluster: Cluster) -> list[dict[str, Any]]:
    """The newest value of every key of Connect's offsets topic."""
    newest = {one.key(): one for one in read(cluster, OFFSETS)}
    return [entry("stored offset", newest[key]) for key in sorted(newest)]


def has_stored_all(cluster: Cluster) -> bool:
    """Whether each connector has stored all its offsets."""
    if OFFSETS not in topics(cluster):
        return False
    keys = {one.key() for one in read(cluster, OFFSETS)}
    wanted = {"Source": PARTITIONS, "Checkpoint": PARTITIONS * len(GROUPS), "Heartbeat": 1}
    return all(
        sum(key.startswith(b'["Mirror%sConnector"' % name.encode()) for key in keys) >= count
        for name, count in wanted.items()
    )


def capture(scratch: Path) -> list[dict[str, Any]]:
    clusters = {alias: LocalCluster(alias, scratch / alias) for alias in ("primary", "backup")}
    start_all(clusters.values())
    try:
        source, target = clusters["primary"], clusters["backup"]
        create_topics(source, {TOPIC: PARTITIONS})
        produce(source, TOPIC, numbered(600, PARTITIONS))
        delete_before(source, TOPIC, PARTITIONS, EXPIRED)
        commit_groups(source)
        with JavaMirror(mirror_file(scratch, clusters, *LINES)) as java:
            eventually(lambda: has_stored_all(target), START_SECONDS, "all connectors stored")
            java.stop()
        found = []
        for one in BINARIES:
            records = read(clusters[one.on], one.topic)
            lines = formatted(clusters[one.on], scratch, one.topic, one.formatter, len(records))
            pairs = dict(zip(lines, records, strict=True))  # one of each that looks alike
            kept = list(pairs.items())[:MOST_OF_A_KIND]
            found += [entry(one.kind, record, printed=line) for line, record in kept]
        return found + stored_offsets(target)
    finally:
        for cluster in clusters.values():
            cluster.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        records = capture(Path(scratch))
    GOLDEN.parent.mkdir(exist_ok=True)
    text = {"kafka": DEFAULT_KAFKA, "how": HOW, "offsets partitions": 25, "records": records}
    GOLDEN.write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(records)} records in {GOLDEN.name}")


if __name__ == "__main__":
    main()
