# SPDX-License-Identifier: Apache-2.0
"""MirrorClient on a real broker, beside Java's RemoteClusterUtils and MM2's console formatters."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

import sparkmirror.client
from sparkmirror.client import MirrorClient, OffsetAndMetadata, TopicPartition
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError, UnknownVersionError, UnreachableError
from sparkmirror.formats.mm2_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.model import Flow
from support.clients.acls import AUTHORIZER
from support.clients.java_mirror_client import formatted, names_in, offsets_in, run_java_queries
from support.clients.librdkafka import (
    Record,
    admin,
    create_topics,
    produce,
    topics,
)
from support.mirrors.mirror_file import mirror_file
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

UNKNOWN_TOPIC, NOT_AUTHORIZED = 3, 29
A, B, C = unique_name("A"), unique_name("B"), unique_name("C")
NAMES = (
    "heartbeats",
    f"{A}.heartbeats",
    f"{B}.{A}.heartbeats",
    f"{B}.{C}.heartbeats",
    f"{A}.orders",
    f"{B}.{A}.orders",
    unique_name("payments"),
)
CHECKPOINTS = f"{A}.checkpoints.internal"
ORDERS, PAYMENTS = TopicPartition(f"{A}.orders", 0), TopicPartition(f"{A}.payments", 3)
WRITTEN = (
    Checkpoint("orders-app", ORDERS, 10, 5),
    Checkpoint("orders-app", PAYMENTS, 20, 21, "a note"),
    Checkpoint("orders-app-2", ORDERS, 1, 1),
    Checkpoint("billing", ORDERS, 7, 7),
    Checkpoint("orders-app", ORDERS, 1 << 40, 1 << 41, "ünïcode"),
)
FOUND = {
    "orders-app": {
        ORDERS: OffsetAndMetadata(1 << 41, "ünïcode"),
        PAYMENTS: OffsetAndMetadata(21, "a note"),
    },
    "orders-app-2": {ORDERS: OffsetAndMetadata(1)},
    "billing": {ORDERS: OffsetAndMetadata(7)},
}


def furnish(cluster: LocalCluster) -> None:
    """Make a cluster look as if A were mirrored to it, and B with what B has of A."""
    missing = {*NAMES, CHECKPOINTS} - topics(cluster).keys()  # heartbeats may be there
    create_topics(cluster, dict.fromkeys(sorted(missing), 1), {"cleanup.policy": "compact"})
    write(cluster, CHECKPOINTS, [Record(one.key(), one.value()) for one in WRITTEN])


@pytest.fixture(scope="module")
def cluster(target_cluster: LocalCluster) -> LocalCluster:
    """The shared target, furnished."""
    furnish(target_cluster)
    return target_cluster


@pytest.fixture(scope="module")
def own_cluster(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[LocalCluster]:
    """A broker with nothing else on it, furnished, that can forbid things."""
    directory = tmp_path_factory.mktemp("mirror-client")
    with LocalCluster("here", directory, version=kafka_version, config=AUTHORIZER) as running:
        furnish(running)
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[MirrorClient]:
    """A client for that broker."""
    with MirrorClient(properties(cluster)) as opened:
        yield opened


def properties(cluster: LocalCluster) -> dict[str, object]:
    """What a program must give."""
    return {"bootstrap.servers": cluster.bootstrap_servers}


def write(cluster: LocalCluster, topic: str, records: Sequence[Record]) -> None:
    """Write records in this order."""
    produce(cluster, topic, ((0, record) for record in records))


def written(cluster: LocalCluster, *records: Record) -> str:
    """The alias of a remote cluster whose checkpoints topic here holds these records."""
    alias = unique_name("remote")
    create_topics(cluster, {f"{alias}.checkpoints.internal": 1})
    write(cluster, f"{alias}.checkpoints.internal", records)
    return alias


def checkpoint(group: str, offset: int) -> Record:
    """A checkpoint of one partition."""
    one = Checkpoint(group, ORDERS, offset, offset)
    return Record(one.key(), one.value())


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        (re.compile(".*"), FOUND.keys()),
        (re.compile("orders-.*"), {"orders-app", "orders-app-2"}),
        (re.compile("orders"), set()),
        ("billing", {"billing"}),
        ("nobody", set()),
    ],
)
def test_the_last_checkpoints_of_groups_are_found(
    client: MirrorClient, wanted: str | re.Pattern[str], groups: set[str]
) -> None:
    """By pattern over whole names or by one name; an unknown group gives an empty answer."""
    found = client.remote_consumer_offsets(wanted, A, PATIENCE_SECONDS)
    assert found == {group: FOUND[group] for group in groups}


def test_a_deleted_checkpoint_is_gone(cluster: LocalCluster, client: MirrorClient) -> None:
    """A record without a value deletes what its key names."""
    first, other = checkpoint("g", 5), checkpoint("h", 6)
    alias = written(cluster, first, other, Record(first.key, None))
    assert client.remote_consumer_offsets(re.compile(".*"), alias, PATIENCE_SECONDS) == {
        "h": {ORDERS: OffsetAndMetadata(6)}
    }


def test_malformed_checkpoints_are_passed_over_with_one_warning(
    cluster: LocalCluster, client: MirrorClient, caplog: pytest.LogCaptureFixture
) -> None:
    """What is behind them is read; the warning says how many, where and what is wrong."""
    good = checkpoint("g", 5)
    alias = written(cluster, Record(b"?", b"?"), Record(good.key, b"\x00\x00\x01"), good)
    with caplog.at_level(logging.WARNING, "sparkmirror"):
        found = client.remote_consumer_offsets("g", alias, PATIENCE_SECONDS)
    assert found == {"g": {ORDERS: OffsetAndMetadata(5)}}
    (record,) = caplog.records
    assert "Skipped 2 records in topic" in record.message
    assert "the first one at offset 0: The key of a checkpoint ends" in record.message


def test_a_checkpoint_of_a_newer_version_is_an_error(
    cluster: LocalCluster, client: MirrorClient
) -> None:
    """It may say something that the answer would lack."""
    good = checkpoint("g", 5)
    newer = Record(good.key, b"\x00\x07" + (good.value or b"")[2:])
    with pytest.raises(UnknownVersionError, match="version 7"):
        client.remote_consumer_offsets("g", written(cluster, good, newer), PATIENCE_SECONDS)


def test_an_empty_topic_has_no_groups(cluster: LocalCluster, client: MirrorClient) -> None:
    """Nothing is waited for."""
    alias = written(cluster)
    assert client.remote_consumer_offsets(re.compile(".*"), alias, 0) == {}


def test_an_answer_that_takes_too_long_is_an_error(client: MirrorClient) -> None:
    """Part of the groups would look like all of them."""
    with pytest.raises(UnreachableError, match=f"'{CHECKPOINTS}' within 0 s"):
        client.remote_consumer_offsets(re.compile(".*"), A, 0)


def test_a_missing_topic_is_an_error_that_names_the_cluster(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """No checkpoints have been written for that cluster; an empty answer would hide it."""
    file = mirror_file(tmp_path, {"here": cluster, "nowhere": cluster})
    with (
        MirrorClient.from_file(file, "here") as client,
        pytest.raises(BrokerError, match=r"Cluster 'here' .*'nowhere.checkpoints.internal'") as it,
    ):
        client.remote_consumer_offsets("g", "nowhere", PATIENCE_SECONDS)
    assert (it.value.code, it.value.cluster) == (UNKNOWN_TOPIC, "here")


def forbid_reading(cluster: LocalCluster, topic: str) -> None:
    """Everything but READ stays allowed."""
    client = admin(cluster)  # futures of a client that is gone never end
    for operation, permission in (
        (AclOperation.ALL, AclPermissionType.ALLOW),
        (AclOperation.READ, AclPermissionType.DENY),
    ):
        rule = AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            operation,
            permission,
        )
        for future in client.create_acls([rule]).values():
            future.result(PATIENCE_SECONDS)


@pytest.mark.thorough
def test_a_topic_that_may_not_be_read_is_an_error_that_names_the_cluster(
    own_cluster: LocalCluster,
) -> None:
    """Kafka's answer comes through, with the topic and the advice."""
    alias = written(own_cluster, checkpoint("g", 5))
    forbid_reading(own_cluster, f"{alias}.checkpoints.internal")

    def refusal() -> BrokerError | None:
        try:
            client.remote_consumer_offsets("g", alias, PATIENCE_SECONDS)
        except BrokerError as error:
            return error
        return None

    with MirrorClient(properties(own_cluster)) as client:
        error = eventually(refusal, PATIENCE_SECONDS, "the rule holds")
    assert error is not None
    assert (error.code, error.cluster) == (NOT_AUTHORIZED, own_cluster.bootstrap_servers)
    assert "lacks a permission" in str(error)


def test_a_file_and_an_alias_make_a_client(cluster: LocalCluster, tmp_path: Path) -> None:
    """The separator of the file changes what counts as a remote topic."""
    separator = "replication.policy.separator = _-_"
    file = mirror_file(tmp_path, {"here": cluster, A: cluster}, separator)
    with MirrorClient.from_file(file, "here") as client:
        assert client.heartbeat_topics() == {"heartbeats"}
        assert client.upstream_clusters() == set()
    with MirrorClient.from_file(mirror_file(tmp_path, {"here": cluster}), "here") as client:
        assert client.remote_topics(B) == {NAMES[2], NAMES[3], NAMES[5]}
        assert {NAMES[1], NAMES[4]} <= client.remote_topics()
        assert not {NAMES[6], "heartbeats", CHECKPOINTS} & client.remote_topics()
        assert set(NAMES[:4]) <= client.heartbeat_topics()
        assert {A, B, C} <= client.upstream_clusters()
        assert [client.replication_hops(alias) for alias in (A, B, C)] == [1, 1, 2]


@pytest.mark.thorough
def test_java_gives_the_same_answers(own_cluster: LocalCluster, tmp_path: Path) -> None:
    """RemoteClusterUtils of Kafka's jars, asked about the same cluster."""
    heartbeats, checkpoints, upstream, *hops, all_groups, some, one, none = run_java_queries(
        own_cluster,
        tmp_path,
        "heartbeats",
        "checkpoints",
        "upstream",
        *(f"hops {alias}" for alias in (A, B, C, "D")),
        f"groups {A} .*",
        f"groups {A} orders-.*",
        f"group {A} billing",
        f"group {A} nobody",
    )
    ours = sparkmirror.client
    given = properties(own_cluster)
    assert ours.heartbeat_topics(given) == names_in(heartbeats) == set(NAMES[:4])
    assert ours.checkpoint_topics(given) == names_in(checkpoints)
    assert CHECKPOINTS in names_in(checkpoints)
    assert ours.upstream_clusters(given) == names_in(upstream) == {A, B, C}
    counted = [ours.replication_hops(given, alias) for alias in (A, B, C, "D")]
    assert counted == [int(count) for [[count]] in hops] == [1, 1, 2, -1]
    for answer, wanted in (
        (all_groups, re.compile(".*")),
        (some, re.compile("orders-.*")),
        (one, "billing"),
        (none, "nobody"),
    ):
        assert ours.translate_offsets(given, A, wanted, PATIENCE_SECONDS) == offsets_in(answer)
    assert offsets_in(all_groups) == FOUND


PLACE = TopicPartition("orders", 2)


@pytest.mark.parametrize(
    ("formatter", "record", "text"),
    [
        (
            "OffsetSyncFormatter",
            OffsetSync(PLACE, 3, 4),
            "OffsetSync{topicPartition=orders-2, upstreamOffset=3, downstreamOffset=4}",
        ),
        (
            "CheckpointFormatter",
            Checkpoint("g", PLACE, 4, 5, "note"),
            (
                "Checkpoint{consumerGroupId=g, topicPartition=orders-2, upstreamOffset=4, "
                "downstreamOffset=5, metadata=note}"
            ),
        ),
        (
            "HeartbeatFormatter",
            Heartbeat(Flow("a", "b"), 1_700_000_000_123),
            "Heartbeat{sourceClusterAlias=a, targetClusterAlias=b, timestamp=1700000000123}",
        ),
    ],
    ids=["offset sync", "checkpoint", "heartbeat"],
)
@pytest.mark.thorough
def test_mm2s_formatters_print_our_records(
    own_cluster: LocalCluster,
    tmp_path: Path,
    formatter: str,
    record: OffsetSync | Checkpoint | Heartbeat,
    text: str,
) -> None:
    """The console consumer shows what our formats wrote, field by field."""
    topic = unique_name("formatted")
    create_topics(own_cluster, {topic: 1})
    write(own_cluster, topic, [Record(record.key(), record.value())])
    assert formatted(own_cluster, tmp_path, topic, formatter, 1) == [text]
