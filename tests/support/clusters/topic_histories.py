# SPDX-License-Identifier: Apache-2.0
"""Source logs with a history: compacted, truncated by retention, with many transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import NewTopic
from support.clients.librdkafka import (
    Cluster,
    Record,
    admin,
    numbered,
    produce,
    send,
)
from support.clusters.log_segments import LoggedBatch, logged_batches
from support.waiting import PATIENCE_SECONDS, eventually

# The cleaner takes whatever is not in the active segment, and a segment lasts a moment.
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
_SHOWN_SECONDS = 30.0  # the controller answers before its brokers know
UNTIL_FLUSHED_MS = 60_000  # a linger that only flushing ends: no pause of ours cuts a batch short


def alter_configs(
    cluster: Cluster, kind: ResourceType, name: str, config: Mapping[str, str | None]
) -> None:
    """Set dynamic configs of a broker or topic; None removes one.

    Waits until those of a topic are visible.
    """
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for key, value in config.items()
    ]
    client = admin(cluster)
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_SECONDS)
    if kind is ResourceType.TOPIC:
        await_configs(cluster, name, config)


def await_configs(cluster: Cluster, topic: str, config: Mapping[str, str | None]) -> None:
    """Wait until a topic has these overrides, or a timeout."""
    until = time.monotonic() + _SHOWN_SECONDS
    while time.monotonic() < until:
        own = set_configs(cluster, topic)
        if all(own.get(key) == value for key, value in config.items()):
            return
        time.sleep(0.02)


def set_configs(cluster: Cluster, topic: str) -> dict[str, str]:
    """Return the config overrides of a topic."""
    client = admin(cluster)
    asked = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    [found] = [future.result(PATIENCE_SECONDS) for future in asked.values()]
    return {name: entry.value for name, entry in found.items() if not entry.is_default}


def speed_up_log_cleaner(cluster: Cluster) -> None:
    """Let the log cleaner run several times a second."""
    alter_configs(cluster, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"})


def delete_before(cluster: Cluster, topic: str, partitions: int, offset: int) -> None:
    """Move the log start of every partition, as retention does."""
    client = admin(cluster)
    wanted = [TopicPartition(topic, index, offset) for index in range(partitions)]
    for future in client.delete_records(wanted).values():
        assert future.result(PATIENCE_SECONDS).low_watermark == offset


def write_compacted(
    cluster: LocalCluster,
    topic: str,
    codecs: Sequence[str],
    *,
    tombstones: range,
    count: int = 300,
) -> None:
    """Write a partition per codec with holes, tombstones and an empty record batch.

    The first record batch loses all its records to later ones with the same keys. The broker keeps
    the empty batch for the sequence of its producer.
    """
    records = [
        record._replace(
            key=record.key if number % 3 == 0 or number < 40 else b"%d" % (number % 7),
            value=None if number in tombstones else record.value,
        )
        for number, (_, record) in enumerate(numbered(count))
    ]
    first = records[:40]
    again = [record._replace(value=b"again") for record in first]
    for index, codec in enumerate(codecs):
        for chunk in (first, records[40 : count // 2], records[count // 2 :], again):
            produce(
                cluster,
                topic,
                [(index, record) for record in chunk],
                compression_type=codec,
                linger_ms=UNTIL_FLUSHED_MS,
                enable_idempotence=chunk is first,
            )
    everywhere = range(len(codecs))
    # A much later record starts a new segment: the active one is never cleaned.
    produce(cluster, topic, [(index, Record(b"roll", b"roll")) for index in everywhere])
    left = len({record.key for record in records}) + 1
    for index in everywhere:
        await_batches(
            cluster,
            topic,
            index,
            lambda batches: sum(batch.count for batch in batches) == left,
            f"partition {index} of {topic} is cleaned",
        )


def await_batches(
    cluster: LocalCluster,
    topic: str,
    partition: int,
    check: Callable[[list[LoggedBatch]], bool],
    what: str,
) -> list[LoggedBatch]:
    """Wait until the record batches in a log are as they should be."""

    def look() -> list[LoggedBatch]:
        found = logged_batches(cluster, topic, partition)
        return found if check(found) else []

    return eventually(look, PATIENCE_SECONDS, what)


def transactional(cluster: Cluster, name: str, **config: object) -> Producer:
    """A producer ready to begin a transaction."""
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": name,
        "linger.ms": 5,
        "transaction.timeout.ms": 600_000,  # no coordinator ends it before the test does
    }
    producer = Producer(settings | {key.replace("_", "."): value for key, value in config.items()})
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def write_part(producer: Producer, topic: str, partition: int, first: int, count: int = 10) -> None:
    """Some records into the transaction that is open, written at once."""
    for _, record in numbered(count, first=first):
        send(producer, topic, partition, record)
    assert producer.flush(PATIENCE_SECONDS) == 0


def write_transactions(cluster: Cluster, topic: str) -> None:
    """Partition 0: committed ones; 1: every other one aborted; 2: two producers interleaved."""
    one = transactional(cluster, f"{topic}-one", compression_type="lz4")
    other = transactional(cluster, f"{topic}-other", compression_type="zstd")
    for turn in range(10):
        one.begin_transaction()
        write_part(one, topic, 0, 100 * turn)
        end_transaction(one, commits=True)
        one.begin_transaction()
        write_part(one, topic, 1, 100 * turn)
        end_transaction(one, commits=turn % 2 == 0)
    for turn, (first, first_commits, second, second_commits) in enumerate(
        [
            (one, True, other, False),
            (one, False, other, True),
            (other, False, one, False),
            (other, True, one, True),
        ]
    ):
        first.begin_transaction()
        second.begin_transaction()
        for step in range(0, 300, 100):
            write_part(first, topic, 2, 1000 * turn + step)
            write_part(second, topic, 2, 1000 * turn + step + 20)
            produce(
                cluster,
                topic,
                [(2, record) for _, record in numbered(5, first=1000 * turn + step + 40)],
            )
        end_transaction(first, commits=first_commits)
        write_part(second, topic, 2, 1000 * turn + 500)
        end_transaction(second, commits=second_commits)


def end_transaction(producer: Producer, *, commits: bool) -> None:
    """End a transaction; its markers may be written a moment later."""
    (producer.commit_transaction if commits else producer.abort_transaction)(PATIENCE_SECONDS)


def await_markers(cluster: Cluster, topic: str) -> None:
    """Wait until no transaction of a topic is open: the markers of the last ones are written."""
    client = admin(cluster)
    parts = client.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in parts}

    def ends(isolation: IsolationLevel) -> list[int]:
        answers = client.list_offsets(
            wanted, isolation_level=isolation, request_timeout=PATIENCE_SECONDS
        )
        return [one.result(PATIENCE_SECONDS).offset for one in answers.values()]

    eventually(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        PATIENCE_SECONDS,
        f"every transaction of {topic} has ended",
    )


# --- Topics that tests need, made through the admin that is under test.


def create_with_admin(admin: ClusterAdmin, *topics: NewTopic) -> None:
    """Create topics and wait until they are served."""
    assert set(admin.create_topics(topics).values()) == {None}
    admin.await_topics([topic.name for topic in topics], PATIENCE_SECONDS)
