# SPDX-License-Identifier: Apache-2.0
"""Consumer groups of real brokers, with confluent-kafka as the member and the witness."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kafka.protocol.consumer import JoinGroupRequest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import CommittedOffset, GroupListing, NewTopic, PartialResults
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.kafka.request import Request
from sparkmirror.model import TopicPartition
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import create_topics
from support.clusters.client_quotas import set_quota
from support.clusters.topic_histories import create_with_admin
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

BULK_SECONDS = 5.0
UNKNOWN_MEMBER_ID = 25
GROUP_AUTHORIZATION_FAILED = 30
SESSION_MS = 300_000  # it is never ended by being slow


@pytest.fixture(scope="module")
def cluster(target_cluster: LocalCluster) -> LocalCluster:
    """The shared target; no test may need all groups of it to be its own."""
    return target_cluster


@pytest.fixture
def own_cluster(tmp_path: Path, kafka_version: str) -> Iterator[LocalCluster]:
    """One broker that a test may fill and slow down."""
    with LocalCluster("b", tmp_path, version=kafka_version) as running:
        yield running


@pytest.fixture
def groups(connection: ConnectionSettings) -> Iterator[GroupAdmin]:
    """What is under test, connected to that broker."""
    with GroupAdmin(connection) as opened:
        yield opened


@pytest.fixture
def topic(admin: ClusterAdmin) -> str:
    """A new topic with three partitions."""
    name = unique_name("topic")
    create_with_admin(admin, NewTopic(name, 3, 1))
    return name


def consumer(cluster: LocalCluster, group: str, protocol: str = "classic") -> Consumer:
    """A consumer that commits only when told to."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )


def join(member: Consumer, topic: str) -> None:
    """Wait until the member has partitions of the topic."""
    member.subscribe([topic])

    def assigned() -> bool:
        member.poll(0.1)
        return bool(member.assignment())

    eventually(assigned, PATIENCE_SECONDS, "the member has partitions")


def witnessed(cluster: LocalCluster, group: str, topic: str) -> dict[int, tuple[int, str]]:
    """What another implementation reads as committed in three partitions."""
    asked = [confluent_kafka.TopicPartition(topic, number) for number in range(3)]
    with closing(consumer(cluster, group)) as reader:
        answers = reader.committed(asked, timeout=PATIENCE_SECONDS)
    return {one.partition: (one.offset, one.metadata or "") for one in answers if one.offset >= 0}


def test_state_and_type_tell_whether_a_group_is_in_use(
    cluster: LocalCluster, groups: GroupAdmin, topic: str, protocol: str
) -> None:
    """Active while a member lives, empty after it has left, for both protocols."""
    group, absent = unique_name("seen"), unique_name("absent")
    with closing(consumer(cluster, group, protocol)) as member:
        join(member, topic)
        eventually(
            lambda: groups.groups()[group] == GroupListing(group, "Stable", protocol, "consumer"),
            PATIENCE_SECONDS,
            "the group is stable",
        )
        assert groups.groups()[group].is_active
    expected = GroupListing(group, "Empty", protocol, "consumer")
    eventually(lambda: groups.groups()[group] == expected, PATIENCE_SECONDS, "the group is empty")
    answer = groups.listings([group, absent])
    assert (answer.found, answer.failed) == ({group: expected}, {})
    assert not answer.found[group].is_active


def test_a_group_in_use_keeps_its_offsets(
    cluster: LocalCluster, groups: GroupAdmin, topic: str, protocol: str
) -> None:
    """The broker refuses offsets from outside until the last member has gone."""
    group = unique_name("used")
    first = TopicPartition(topic, 0)
    with closing(consumer(cluster, group, protocol)) as member:
        join(member, topic)
        member.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 5)], asynchronous=False)
        before = groups.committed_offsets([group]).found[group]
        assert {tp: one.offset for tp, one in before.items()} == {first: 5}
        unknown = TopicPartition(unique_name("unknown"), 0)
        refused = groups.commit_offsets(
            {group: {unknown: CommittedOffset(1), first: CommittedOffset(99)}}
        )[group]
        assert refused is not None
        assert (refused.code, refused.topic) == (UNKNOWN_MEMBER_ID, None)
        assert f"refused committing offsets of group '{group}'" in str(refused)
        assert "live members" in str(refused)
        assert groups.committed_offsets([group]).found[group] == before
    eventually(
        lambda: not groups.listings([group]).found[group].is_active, PATIENCE_SECONDS, "it has left"
    )
    assert groups.commit_offsets({group: {first: CommittedOffset(99)}}) == {group: None}
    assert groups.committed_offsets([group]).found[group] == {first: CommittedOffset(99)}


def test_what_is_committed_is_read_back(
    cluster: LocalCluster, groups: GroupAdmin, topic: str
) -> None:
    """For groups that did not exist; by us with all details, and by another implementation.

    confluent-kafka ends metadata with a zero byte, and reads past any that has none.
    """
    plain, noted, absent = unique_name("plain"), unique_name("noted"), unique_name("absent")
    offsets = {
        plain: {TopicPartition(topic, 0): CommittedOffset(0)},
        noted: {
            TopicPartition(topic, 0): CommittedOffset(7, "seven\0"),
            TopicPartition(topic, 2): CommittedOffset(9, "", 4),
        },
    }
    assert groups.commit_offsets(offsets) == {plain: None, noted: None}
    answer = groups.committed_offsets([plain, absent, noted, plain])
    assert (answer.found, answer.failed) == (offsets | {absent: {}}, {})
    assert witnessed(cluster, plain, topic) == {0: (0, "")}
    assert witnessed(cluster, noted, topic) == {0: (7, "seven"), 2: (9, "")}
    assert groups.groups()[noted] == GroupListing(noted, "Empty", "classic", "")
    assert groups.commit_offsets({absent: {}}) == {absent: None}
    assert absent not in groups.groups()


def test_an_offset_that_was_reset_counts_as_never_committed(groups: GroupAdmin, topic: str) -> None:
    """Clients may commit -1, which the broker keeps as it is."""
    group = unique_name("reset")
    kept, reset = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert groups.commit_offsets(
        {group: {kept: CommittedOffset(3), reset: CommittedOffset(-1)}}
    ) == {group: None}
    assert groups.committed_offsets([group]).found[group] == {kept: CommittedOffset(3)}


def test_a_topic_that_does_not_exist_is_named(groups: GroupAdmin, topic: str) -> None:
    """The group's other topics, and the other groups, take theirs."""
    group, other = unique_name("half"), unique_name("whole")
    good, bad = TopicPartition(topic, 0), TopicPartition(unique_name("missing"), 0)
    results = groups.commit_offsets(
        {
            group: {bad: CommittedOffset(1), good: CommittedOffset(2)},
            other: {good: CommittedOffset(3)},
        }
    )
    refused = results[group]
    assert refused is not None
    assert (refused.code, refused.topic) == (3, bad.topic)
    assert group in str(refused)
    assert results[other] is None
    assert groups.committed_offsets([group, other]).found == {
        group: {good: CommittedOffset(2)},
        other: {good: CommittedOffset(3)},
    }


def test_other_kinds_of_groups_are_left_out(
    cluster: LocalCluster,
    connection: ConnectionSettings,
    groups: GroupAdmin,
    topic: str,
    kafka_version: str,
) -> None:
    """Workers of Connect are a group too, and share groups have no offsets to translate."""
    ours, workers, share = unique_name("ours"), unique_name("workers"), unique_name("share")
    assert groups.commit_offsets({ours: {TopicPartition(topic, 0): CommittedOffset(1)}}) == {
        ours: None
    }
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="any", metadata=b"")]
    with closing(ClusterClient(connection)) as client:
        message = JoinGroupRequest(
            group_id=workers,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id="",
            protocol_type="connect",
            protocols=protocols,
        )
        joined = client.send(Request(message, 0, 3), 1)  # later versions need two requests
    assert joined.error_code == 0
    expected = {workers: ("classic", "connect")}
    if not kafka_version.startswith("3."):
        sharer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": share})
        with closing(sharer):
            sharer.subscribe([topic])
            eventually(
                lambda: not sharer.poll(0.1) and share in groups.listings([share]).found,
                PATIENCE_SECONDS,
                "the share group exists",
            )
            found = groups.listings([share]).found[share]
            assert (found.type, found.protocol_type) == ("share", "share")
            assert share not in groups.groups()
    seen = groups.listings([workers]).found
    assert {one.id: (one.type, one.protocol_type) for one in seen.values()} == expected
    assert {ours, workers} & set(groups.groups()) == {ours}


def test_older_brokers_are_queried_one_group_at_a_time(
    connection: ConnectionSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client held to the versions of Kafka 2.5 reads and commits all the same."""
    negotiated_version, known = BrokerConnection.negotiated_version, BROKER_API_VERSIONS[2, 5]

    def limited(self: BrokerConnection, api_key: int, newest: int, oldest: int = 0) -> int:
        newest = min(newest, known.get(api_key, (0, -1))[1])
        return negotiated_version(self, api_key, newest, oldest)

    monkeypatch.setattr(BrokerConnection, "negotiated_version", limited)
    names = [unique_name("older") for _ in range(12)]
    offsets = {
        name: {TopicPartition(topic, 1): CommittedOffset(number, "note")}
        for number, name in enumerate(names)
    }
    with GroupAdmin(connection) as groups:
        assert groups.commit_offsets(offsets) == dict.fromkeys(names)
        assert groups.committed_offsets(names).found == offsets
        assert groups.groups()[names[0]] == GroupListing(names[0], "", "classic", "")


@pytest.mark.thorough
def test_two_thousand_groups_take_seconds(own_cluster: LocalCluster) -> None:
    """Created, read and listed in bulk, and all of it true."""
    connection = ConnectionSettings("b", (own_cluster.bootstrap_servers,), "group-test")
    with ClusterAdmin(connection) as admin, GroupAdmin(connection) as groups:
        use_two_thousand(admin, groups)


def use_two_thousand(admin: ClusterAdmin, groups: GroupAdmin) -> None:
    """Measure them."""
    wide = unique_name("wide")
    create_with_admin(admin, NewTopic(wide, 10, 1))
    offsets = {
        unique_name(f"bulk-{number}"): {
            TopicPartition(wide, partition): CommittedOffset(number * 10 + partition)
            for partition in range(10)
        }
        for number in range(2000)
    }
    started = time.monotonic()
    assert set(groups.commit_offsets(offsets).values()) == {None}
    committing = time.monotonic() - started
    started = time.monotonic()
    answer = groups.committed_offsets(list(offsets))
    reading = time.monotonic() - started
    started = time.monotonic()
    listed = groups.groups()
    listing = time.monotonic() - started
    print(
        f"2,000 groups of 10 partitions: committed in {committing:.2f} s, read in {reading:.2f} s, "
        f"listed in {listing:.2f} s"
    )
    assert (answer.found, answer.failed) == (offsets, {})
    assert set(offsets) <= set(listed)
    assert max(committing, reading, listing) < BULK_SECONDS


@pytest.mark.thorough
def test_a_quota_slows_but_does_not_break(
    own_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A throttled connection waits as long as the broker asks, and loses nothing."""
    topic = unique_name("topic")
    create_topics(own_cluster, {topic: 1})
    offsets = {
        unique_name("slow"): {TopicPartition(topic, 0): CommittedOffset(number)}
        for number in range(12)
    }
    unused = unique_name("client")  # what a client did before counts
    connection = ConnectionSettings("b", (own_cluster.bootstrap_servers,), unused)
    caplog.set_level(logging.INFO, "sparkmirror.kafka.broker_session")
    set_quota(own_cluster.bootstrap_servers, "request_percentage", 0.5)
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        with GroupAdmin(connection) as groups:
            while "throttles this client" not in caplog.text:
                assert time.monotonic() < deadline, "the quota does not bite"
                assert groups.commit_offsets(offsets) == dict.fromkeys(offsets)
    finally:
        set_quota(own_cluster.bootstrap_servers, "request_percentage", None)
    with GroupAdmin(connection) as groups:
        assert groups.committed_offsets(list(offsets)).found == offsets


@pytest.mark.thorough
def test_a_forbidden_group_does_not_hide_the_others(tmp_path: Path, kafka_version: str) -> None:
    """Also the first use of a new cluster, whose offsets topic is created meanwhile."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with LocalCluster("guarded", tmp_path, version=kafka_version, config=config) as cluster:
        connection = ConnectionSettings("guarded", (cluster.bootstrap_servers,), "group-test")
        with ClusterAdmin(connection) as admin, GroupAdmin(connection) as groups:
            create_with_admin(admin, NewTopic("t", 1, 1))
            offsets = {
                name: {TopicPartition("t", 0): CommittedOffset(1)} for name in ("open", "closed")
            }
            assert groups.commit_offsets(offsets) == {"open": None, "closed": None}
            rule = AclBinding(
                ResourceType.GROUP,
                "closed",
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                AclOperation.ALL,
                AclPermissionType.DENY,
            )
            witness = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            for future in witness.create_acls([rule]).values():
                future.result()
            eventually(
                lambda: "closed" in groups.committed_offsets(["closed"]).failed,
                PATIENCE_SECONDS,
                "the rule holds",
            )
            answer = groups.committed_offsets(["open", "closed"])
            assert answer.found == {"open": offsets["open"]}
            assert answer.failed["closed"].code == GROUP_AUTHORIZATION_FAILED
            assert "lacks a permission" in str(answer.failed["closed"])
            results = groups.commit_offsets(offsets)
            assert results["open"] is None
            refused = results["closed"]
            assert refused is not None
            assert (refused.code, refused.retriable) == (GROUP_AUTHORIZATION_FAILED, False)


@pytest.mark.thorough
def test_groups_outlive_their_coordinator(tmp_path: Path, kafka_version: str) -> None:
    """A broker dies: its groups are found where they have moved, in the same call."""
    with LocalCluster("trio", tmp_path, brokers=3, version=kafka_version) as cluster:
        connection = ConnectionSettings(
            "trio", tuple(cluster.bootstrap_servers.split(",")), "group-test"
        )
        with ClusterAdmin(connection) as admin, GroupAdmin(connection) as groups:
            create_with_admin(admin, NewTopic("t", 1, 3))
            offsets = {
                f"group-{number}": {TopicPartition("t", 0): CommittedOffset(number)}
                for number in range(150)
            }
            assert groups.commit_offsets(offsets) == dict.fromkeys(offsets)
            assert set(groups.groups()) == set(offsets)
            cluster.brokers[0].kill()
            # A new coordinator answers before it has all that the old one had acknowledged.
            eventually(
                lambda: groups.committed_offsets(list(offsets)) == PartialResults(offsets, {}),
                PATIENCE_SECONDS,
                "every group stands where it stood",
            )
            assert groups.commit_offsets(offsets) == dict.fromkeys(offsets)
            assert set(groups.groups()) == set(offsets)
        cluster.kill()  # quicker than an orderly end, and the data is not wanted
