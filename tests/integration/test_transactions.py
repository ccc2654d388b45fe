# SPDX-License-Identifier: Apache-2.0
"""Raw record batches inside transactions of ours, on a real broker, and who may write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import create_topics, read_topic
from support.clients.transactional_writer import TIMEOUT_MS, TransactionalWriter
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TRANSACTION_TIMEOUT = 50
FIRST_WITH_V2 = 4  # the major version whose clusters begin with transactions v2


@pytest.fixture
def cluster(target_cluster: LocalCluster) -> LocalCluster:
    """The broker that these tests talk to."""
    return target_cluster


@pytest.fixture
def ids(connection: ConnectionSettings) -> Iterator[TransactionalIds]:
    """The driver's side."""
    with TransactionalIds(connection) as opened:
        yield opened


def writer(
    cluster: LocalCluster, ids: TransactionalIds, transactional_id: str, topic: str
) -> TransactionalWriter:
    """A new holder of the id; whoever held it before is fenced."""
    fenced = ids.fence([transactional_id], transaction_timeout_ms=TIMEOUT_MS)
    return TransactionalWriter(
        cluster.bootstrap_servers, transactional_id, fenced[transactional_id], {topic}
    )


def values(cluster: LocalCluster, topic: str) -> dict[int, list[str]]:
    """What a read_committed consumer sees, by partition."""
    return {
        index: [str(record.value, "ascii") for record in records if record.value is not None]
        for index, records in read_topic(cluster, topic).items()
    }


def test_only_committed_transactions_are_seen(
    cluster: LocalCluster, ids: TransactionalIds, kafka_version: str
) -> None:
    """Commit, abort, commit: all partitions of a transaction together, sequences right."""
    topic = unique_name("committed")
    create_topics(cluster, {topic: 2})
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with writer(cluster, ids, unique_name("writer"), topic) as task:
        task.add(first, second)
        assert task.write(first, "a", "b") == 0
        assert task.write(first, "c") == 0
        assert task.write(second, "d") == 0
        task.end(commit=True)
        task.add(first)
        assert task.write(first, "never") == 0
        task.end(commit=False)
        for value in ("e", "f"):
            task.add(first)
            assert task.write(first, value) == 0
            task.end(commit=True)
        assert not task.lost
        has_v2 = int(kafka_version.partition(".")[0]) >= FIRST_WITH_V2
        assert task.ends == [(True, has_v2), (False, True), (True, has_v2), (True, has_v2)]
    eventually(
        lambda: values(cluster, topic) == {0: ["a", "b", "c", "e", "f"], 1: ["d"]},
        PATIENCE_SECONDS,
        "what was committed is there",
    )


def test_a_fenced_writer_adds_nothing(cluster: LocalCluster, ids: TransactionalIds) -> None:
    """Its open transaction is aborted, and neither its records nor its commit are taken."""
    topic, name = unique_name("fenced"), unique_name("writer")
    create_topics(cluster, {topic: 1})
    tp = TopicPartition(topic, 0)
    with writer(cluster, ids, name, topic) as zombie:
        zombie.add(tp)
        assert zombie.write(tp, "lost with its transaction") == 0
        with writer(cluster, ids, name, topic) as successor:
            assert zombie.write(tp, "late") in error_codes.FENCED
            zombie.end(commit=True)
            assert zombie.lost in error_codes.FENCED
            assert zombie.ends == []
            successor.add(tp)
            assert successor.write(tp, "mine") == 0
            successor.end(commit=True)
            assert not successor.lost
    eventually(
        lambda: values(cluster, topic) == {0: ["mine"]}, PATIENCE_SECONDS, "one record is there"
    )


def test_lost_answers_are_requested_again(cluster: LocalCluster, ids: TransactionalIds) -> None:
    """The coordinator recognises what it has done: nothing is added, committed or aborted twice."""
    topic = unique_name("answers")
    create_topics(cluster, {topic: 1})
    tp = TopicPartition(topic, 0)
    with writer(cluster, ids, unique_name("writer"), topic) as task:
        for commit, value in ((True, "a"), (False, "never"), (True, "b")):
            task.transactions.add_partitions([tp])
            task.lose_connections()
            task.add(tp)
            assert task.write(tp, value) == 0
            (task.transactions.commit if commit else task.transactions.abort)()
            task.lose_connections()
            task.await_end()
        assert [committed for committed, _ in task.ends] == [True, False, True]
        assert not task.lost
    eventually(lambda: values(cluster, topic) == {0: ["a", "b"]}, PATIENCE_SECONDS, "it is there")


def test_a_partition_that_is_not_there_does_not_stop_the_others(
    cluster: LocalCluster, ids: TransactionalIds
) -> None:
    """It is named, the rest is committed; a transaction of nothing else just ends."""
    topic = unique_name("partly")
    create_topics(cluster, {topic: 1})
    good, bad = TopicPartition(topic, 0), TopicPartition(topic, 7)
    with writer(cluster, ids, unique_name("writer"), topic) as task:
        task.add(bad)
        assert task.refused == {bad: UNKNOWN_TOPIC_OR_PARTITION}
        task.end(commit=True)
        task.refused.clear()
        task.add(good, bad)
        assert task.refused == {bad: UNKNOWN_TOPIC_OR_PARTITION}
        assert task.write(good, "here") == 0
        task.end(commit=True)
        assert (task.lost, len(task.ends)) == (0, 2)
    eventually(lambda: values(cluster, topic) == {0: ["here"]}, PATIENCE_SECONDS, "it is there")


def test_the_ids_of_earlier_runs_are_found(ids: TransactionalIds) -> None:
    """All numbers behind the prefix, and nobody else's ids."""
    prefix = unique_name("flow") + "-"
    ours = {f"{prefix}{number}" for number in (0, 1, 12)}
    others = {f"{prefix}copy", f"{prefix}1-0", unique_name("other")}
    fenced = ids.fence(ours | others, transaction_timeout_ms=TIMEOUT_MS)
    assert fenced.keys() == ours | others
    assert set(ids.list_ids(prefix)) == ours


def test_a_timeout_that_the_target_refuses_is_reported(ids: TransactionalIds) -> None:
    """The sentence names the key."""
    with pytest.raises(BrokerError, match=r"transaction\.max\.timeout\.ms") as error:
        ids.fence([unique_name("writer")], transaction_timeout_ms=2**31 - 1)
    assert error.value.code == INVALID_TRANSACTION_TIMEOUT


@pytest.mark.thorough
def test_a_transaction_survives_its_coordinator(tmp_path: Path, kafka_version: str) -> None:
    """The broker is restarted with the transaction open; the commit gets through afterwards."""
    topic = unique_name("restarted")
    tp = TopicPartition(topic, 0)
    with LocalCluster("one", tmp_path / "one", version=kafka_version) as cluster:
        create_topics(cluster, {topic: 1})
        connection = ConnectionSettings("b", (cluster.bootstrap_servers,), "test")
        with (
            TransactionalIds(connection) as ids,
            writer(cluster, ids, unique_name("writer"), topic) as task,
        ):
            task.add(tp)
            assert task.write(tp, "before") == 0
            cluster.brokers[0].kill()
            task.transactions.commit()
            task.await_trouble()
            cluster.brokers[0].start()
            task.await_end()
            assert [committed for committed, _ in task.ends] == [True]
            task.add(tp)
            assert task.write(tp, "after") == 0
            task.end(commit=True)
        eventually(
            lambda: values(cluster, topic) == {0: ["before", "after"]},
            PATIENCE_SECONDS,
            "both transactions are there",
        )
