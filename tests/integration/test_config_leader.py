# SPDX-License-Identifier: Apache-2.0
"""One leader writes to Connect's config topic, whoever else still believes to be one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from _pytest.outcomes import Failed
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import (
    BrokerError,
    LeadershipLostError,
    OpenTransactionError,
    UnreachableError,
)
from sparkmirror.formats.connect_config_records import SessionKey, TargetState
from sparkmirror.kafka.broker_session import Send
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.fenced_producer import FencedProducer
from sparkmirror.kafka.topic_log import build_record_batch
from sparkmirror.kafka.topic_tail import TopicTail
from sparkmirror.model import TopicPartition
from sparkmirror.state.connect_configs import ConfigLog
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import (
    admin,
    create_topics,
    delete_topic,
    read_topic,
    topics,
)
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

COMPACT = {"cleanup.policy": "compact"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1_700_000_000_000)
HOUR = 3600.0


class CountingClient(ClusterClient):
    """Counts what it asks, and how often it waits for an answer."""

    requests = 0
    exchanges = 0

    def _run(self, sends: Sequence[Send], timeout_seconds: float | None = None) -> list[object]:
        self.requests += len(sends)
        self.exchanges += 1
        return super()._run(sends, timeout_seconds)

    def counted(self, act: Callable[[], object]) -> tuple[int, int]:
        """Requests and exchanges that something takes."""
        before = self.requests, self.exchanges
        act()
        return self.requests - before[0], self.exchanges - before[1]


@pytest.fixture
def client(target_cluster: LocalCluster) -> Iterator[CountingClient]:
    """One that all logs of a test share."""
    servers = (target_cluster.bootstrap_servers,)
    opened = CountingClient(ConnectionSettings("target", servers, "config-leader-test"))
    yield opened
    opened.close()


@pytest.fixture
def topic(target_cluster: LocalCluster, unique_topic: Callable[..., str]) -> str:
    """A config topic."""
    name = unique_topic("configs")
    create_topics(target_cluster, {name: 1}, COMPACT)
    return name


@pytest.fixture
def leader_id() -> str:
    """A transactional id as leaders of one Connect group share it."""
    return f"connect-cluster-{unique_name('group')}"


def keys(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    """What the topic holds, in order."""
    return [record.key for record in read_topic(cluster, topic)[0]]


def test_an_earlier_leader_writes_nothing(
    client: ClusterClient, target_cluster: LocalCluster, topic: str, leader_id: str
) -> None:
    """Nor does it when it tries again; what it has read stays, and it may lead again."""
    one, other = ConfigLog(client, topic), ConfigLog(client, topic)
    one.become_leader(leader_id, KEY)
    one.put_connector("a", {"name": "a"})
    other.become_leader(leader_id, KEY)
    for _ in range(2):
        with pytest.raises(LeadershipLostError, match=leader_id):
            one.put_connector("b", {"name": "b"})
        with pytest.raises(LeadershipLostError):
            one.put_tasks("a", [{"task": "0"}])
    other.put_connector("c", {"name": "c"})
    one.refresh()
    assert one.state == other.state
    assert one.state.connectors == ["a", "c"]
    one.become_leader(leader_id, KEY)
    one.put_tasks("a", [{"task": "0"}])
    with pytest.raises(LeadershipLostError):
        other.remove_connector("a")
    other.resign()
    other.put_target_state("a", TargetState.PAUSED)
    assert keys(target_cluster, topic) == [
        b"session-key",
        b"connector-a",
        b"session-key",
        b"connector-c",
        b"session-key",
        b"task-a-0",
        b"commit-a",
        b"target-state-a",
    ]


def test_a_leader_continues_in_a_recreated_topic(
    client: ClusterClient, target_cluster: LocalCluster, topic: str, leader_id: str
) -> None:
    """The brokers know nothing of its record batches there, and still nobody else may write."""
    log, late = ConfigLog(client, topic), ConfigLog(client, topic)
    late.become_leader(leader_id, KEY)
    log.become_leader(leader_id, KEY)
    log.put_connector("a", {"name": "a"})
    delete_topic(target_cluster, topic)
    eventually(lambda: topic not in topics(target_cluster), PATIENCE_SECONDS, "it is gone")
    create_topics(target_cluster, {topic: 1}, COMPACT)
    log.put_connector("b", {"name": "b"})
    with pytest.raises(LeadershipLostError):
        late.put_connector("c", {"name": "c"})
    assert (log.state.connectors, keys(target_cluster, topic)) == (["b"], [b"connector-b"])


def test_a_lost_answer_writes_nothing_twice(
    client: ClusterClient, target_cluster: LocalCluster, topic: str, leader_id: str
) -> None:
    """Neither when the same is sent again, nor when the next one comes after a failure."""
    tail = TopicTail(client, topic, lambda: None)
    producer = FencedProducer(client, leader_id)
    producer.acquire()

    def append(batch: bytes) -> int:
        (offset,) = tail.append({0: batch}).values()
        return offset

    def append_twice(batch: bytes) -> int:
        assert append(batch) == append(batch)
        return append(batch)

    def fail_after(batch: bytes) -> int:
        append(batch)
        raise UnreachableError("gone", cluster="target")

    def fail_before(_batch: bytes) -> int:
        raise UnreachableError("gone", cluster="target")

    assert producer.write(append_twice, 0, [(b"1", b"")]) == 0
    for broken, key in ((fail_after, b"2"), (fail_before, b"never")):
        with pytest.raises(UnreachableError):
            producer.write(broken, 0, [(key, b"")])
    assert producer.write(append, 0, [(b"3", b""), (b"4", b"")]) == 2
    assert producer.write(append, 0, [(b"5", b"")]) == 4
    assert keys(target_cluster, topic) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_suspended_leader_checks_its_leadership(
    client: ClusterClient, target_cluster: LocalCluster, topic: str, leader_id: str
) -> None:
    """Brokers forget; the coordinator knows who took the id last, though it wrote nothing yet."""
    now = time.time()
    sleeper = FencedProducer(client, leader_id, lambda: now)
    sleeper.acquire()
    tail = TopicTail(client, topic, lambda: None)

    def append(batch: bytes) -> int:
        (offset,) = tail.append({0: batch}).values()
        return offset

    sleeper.write(append, 0, [(b"1", b"")])
    now += 2 * HOUR
    sleeper.write(append, 0, [(b"2", b"")])
    FencedProducer(client, leader_id).acquire()
    now += 2 * HOUR
    with pytest.raises(LeadershipLostError):
        sleeper.write(append, 0, [(b"3", b"")])
    assert keys(target_cluster, topic) == [b"1", b"2"]


def test_an_open_transaction_of_a_dead_leader(
    client: ClusterClient, target_cluster: LocalCluster, topic: str, leader_id: str
) -> None:
    """A follower reads what is decided, is told whose fault the rest is; a new leader ends it."""
    follower = ConfigLog(client, topic)
    follower.put_connector("a", {"name": "a"})
    settings = {"bootstrap.servers": target_cluster.bootstrap_servers, "log_level": 3}
    slow = {"transaction.timeout.ms": round(3000 * PATIENCE_SECONDS)}  # longer than any test
    dead = Producer(settings | slow | {"transactional.id": leader_id})
    dead.init_transactions(PATIENCE_SECONDS)
    dead.begin_transaction()
    dead.produce(topic, key=b"connector-undecided", value=b"{}", partition=0)
    assert dead.flush(PATIENCE_SECONDS) == 0
    follower.refresh()  # which does not wait for the end of the transaction
    assert follower.state.connectors == ["a"]
    tail = TopicTail(client, topic, lambda: None)
    (offset,) = tail.append(
        {0: build_record_batch([(b"connector-b", b'{"properties":{"name":"b"}}')])}
    ).values()
    with pytest.raises(OpenTransactionError, match=f"{leader_id}.*at offset 1,"):
        list(tail.read_new({TopicPartition(topic, 0): offset + 1}, 0.5))
    leader = ConfigLog(client, topic)
    leader.become_leader(leader_id, KEY)
    follower.refresh()
    assert follower.state == leader.state
    assert leader.state.connectors == ["a", "b"]


def test_nothing_of_what_is_too_large_is_written(
    client: ClusterClient, target_cluster: LocalCluster, topic: str
) -> None:
    """Java's producer refuses a record of more than a megabyte; brokers would hang up on some."""
    log = ConfigLog(client, topic)
    for size in (1_048_576, 10_000_000):
        with pytest.raises(BrokerError, match=r"connector-a.*make it smaller") as refused:
            log.put_connector("a", {"name": "a", "b": "x" * size}, TargetState.PAUSED)
        assert refused.value.code == 10
    with pytest.raises(BrokerError, match="task-a-1"):
        log.put_tasks("a", [{"t": "0"}, {"t": "x" * 1_048_576}])
    assert keys(target_cluster, topic) == []
    log.put_connector("a", {"name": "a", "b": "x" * 1_048_000}, TargetState.PAUSED)
    assert keys(target_cluster, topic) == [b"target-state-a", b"connector-a"]


def test_reading_on_takes_one_exchange(client: CountingClient, topic: str, leader_id: str) -> None:
    """A worker does it all the time; writing takes a look at the topic, the write, and reading."""
    log = ConfigLog(client, topic)
    log.become_leader(leader_id, KEY)
    log.refresh()
    assert client.counted(log.refresh) == (2, 1)
    assert client.counted(lambda: log.put_connector("a", {"name": "a"})) == (4, 3)


@pytest.mark.thorough
def test_without_the_right_to_fence_a_leader_writes_as_before(
    tmp_path: Path, kafka_version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so once, and whom to grant what."""
    with LocalCluster("guarded", tmp_path, version=kafka_version, config=AUTHORIZER) as cluster:
        create_topics(cluster, {"configs": 1}, COMPACT)
        rule = AclBinding(
            ResourceType.TRANSACTIONAL_ID,
            "connect-cluster-g",
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.WRITE,
            AclPermissionType.DENY,
        )
        witness = admin(cluster)
        for future in witness.create_acls([rule]).values():
            future.result()
        settings = ConnectionSettings("guarded", (cluster.bootstrap_servers,), "leader-test")
        with closing(ClusterClient(settings)) as client:

            def is_denied() -> bool:
                with pytest.raises(BrokerError):
                    FencedProducer(client, "connect-cluster-g").acquire()
                return True

            eventually(is_denied, PATIENCE_SECONDS, "the rule holds", not_yet=(Failed,))
            one, other = ConfigLog(client, "configs"), ConfigLog(client, "configs")
            one.become_leader("connect-cluster-g", KEY)
            one.become_leader("connect-cluster-g", KEY)
            other.become_leader("connect-cluster-h", KEY)
            one.put_connector("a", {"name": "a"})
    (warning,) = (r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert "Grant WRITE and DESCRIBE on the transactional id 'connect-cluster-g'" in warning
    assert "'configs'" in warning
    assert "'guarded'" in warning
