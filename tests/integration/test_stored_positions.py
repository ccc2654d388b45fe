# SPDX-License-Identifier: Apache-2.0
"""Stored positions on a real broker: every codec, compaction, transactions, deletions."""

import time

import pytest
from confluent_kafka import Producer

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.state.position_records import PositionRecord, position_record
from sparkmirror.wire.settings import ConnectionSettings
from support.clusters.topic_histories import create_with_admin, speed_up_log_cleaner
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

CONNECTOR = "MirrorSourceConnector"


@pytest.fixture(scope="module")
def cluster(target_cluster: LocalCluster) -> LocalCluster:
    """A broker whose cleaner does not wait."""
    speed_up_log_cleaner(target_cluster)
    return target_cluster


def produce(
    cluster: LocalCluster, topic: str, records: list[PositionRecord], **config: str
) -> None:
    """Writes records with the witness."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers}
        | {key.replace("_", "."): value for key, value in config.items()}
    )
    for record in records:
        producer.produce(topic, key=record.key, value=record.value, partition=record.partition)
    assert producer.flush(PATIENCE_SECONDS) == 0


def positions(count: int, offset: int) -> dict[TopicPartition, StoredPosition]:
    """A position for each of some partitions of a topic."""
    return {
        TopicPartition("orders", number): StoredPosition(offset + number, 10 * offset)
        for number in range(count)
    }


def records_of(
    stored: dict[TopicPartition, StoredPosition], partitions: int
) -> list[PositionRecord]:
    """Positions as a task writes them."""
    return [position_record(CONNECTOR, "a", tp, at, partitions) for tp, at in stored.items()]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_positions_come_back_from_every_compression(
    admin: ClusterAdmin,
    cluster: LocalCluster,
    connection: ConnectionSettings,
    codec: str,
) -> None:
    """A broker may recompress the offsets topic as its configuration says."""
    topic = unique_name(f"offsets-{codec}")
    create_with_admin(admin, NewTopic(topic, 3, 1, {"cleanup.policy": "compact"}))
    stored = positions(20, 100)
    produce(cluster, topic, records_of(stored, 3), compression_type=codec, linger_ms="50")
    store = OffsetStore(connection, topic, connector=CONNECTOR, source_alias="a")
    assert store.read().positions == stored


def test_positions_survive_compaction_and_deletion(
    admin: ClusterAdmin,
    cluster: LocalCluster,
    connection: ConnectionSettings,
) -> None:
    """After the cleaner has made holes the newest positions are read, deleted ones are not."""
    topic = unique_name("offsets")
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    create_with_admin(admin, NewTopic(topic, 2, 1, configs))
    for offset in (100, 200, 300):
        produce(cluster, topic, records_of(positions(40, offset), 2))
        time.sleep(0.15)  # a segment is closed by the first record after segment.ms
    stored = positions(40, 300)
    deleted = TopicPartition("orders", 7)
    del stored[deleted]
    produce(cluster, topic, [position_record(CONNECTOR, "a", deleted, None, 2)])

    def kept() -> int:
        with TopicLog(connection, topic) as log:
            return len(list(log.read_to_end()))

    eventually(lambda: kept() < 100, PATIENCE_SECONDS, "the cleaner has removed old positions")
    store = OffsetStore(connection, topic, connector=CONNECTOR, source_alias="a")
    assert store.read().positions == stored


def test_a_log_ends_at_its_position_behind_transaction_markers(
    admin: ClusterAdmin,
    cluster: LocalCluster,
    connection: ConnectionSettings,
) -> None:
    """Committed records are read, aborted ones are not, and the markers do not hold us up."""
    topic = unique_name("transactions")
    create_with_admin(admin, NewTopic(topic, 1, 1))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for value, finish in (
        (b"kept", producer.commit_transaction),
        (b"dropped", producer.abort_transaction),
        (b"kept too", producer.commit_transaction),
        (b"dropped too", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value=value, partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        finish()
    with TopicLog(connection, topic) as log:
        assert [record.value for record in log.read_to_end()] == [b"kept", b"kept too"]
    with TopicLog(connection, topic, "read_uncommitted") as log:
        assert len(list(log.read_to_end())) == 4


def test_the_end_of_an_open_transaction_depends_on_the_isolation(
    admin: ClusterAdmin, cluster: LocalCluster
) -> None:
    """read_committed ends at the last stable offset."""
    topic = unique_name("open")
    create_with_admin(admin, NewTopic(topic, 1, 1))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, value=b"x", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    tp = TopicPartition(topic, 0)
    assert admin.end_offsets([tp], "read_uncommitted").found == {tp: 1}
    assert admin.end_offsets([tp], "read_committed").found == {tp: 0}
    assert admin.earliest_offsets([tp]).found == {tp: 0}
    producer.abort_transaction()


def test_a_log_with_headers_and_empty_parts_is_read_whole(
    admin: ClusterAdmin,
    cluster: LocalCluster,
    connection: ConnectionSettings,
) -> None:
    """Null and empty keys and values are distinguished; headers are stepped over."""
    topic = unique_name("shapes")
    create_with_admin(admin, NewTopic(topic, 1, 1))
    shapes = [(None, b"v"), (b"", b""), (b"k", None), (b"k" * 300, b"v" * 70_000)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50})
    for key, value in shapes:
        headers = [("h", b"1"), ("other", None)]
        producer.produce(topic, key=key, value=value, headers=headers, timestamp=1_700_000_000_123)
    assert producer.flush(PATIENCE_SECONDS) == 0
    with TopicLog(connection, topic) as log:
        read = list(log.read_to_end())
    assert [(record.key, record.value) for record in read] == shapes
    assert [record.offset for record in read] == [0, 1, 2, 3]
    assert {record.timestamp_ms for record in read} == {1_700_000_000_123}


def test_a_missing_log_is_named(connection: ConnectionSettings) -> None:
    """The sentence says which topic on which cluster does not exist."""
    topic = unique_name("missing")
    with (
        pytest.raises(BrokerError, match=f"'b' refused .*'{topic}'.* no such topic"),
        TopicLog(connection, topic),
    ):
        pass
