# SPDX-License-Identifier: Apache-2.0
"""Admin calls and topic plans against a real broker, with confluent-kafka as the witness."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.config.settings import ReplicationFactor
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError, UnreachableError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.broker_session import Send
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import ConfigEntry, ConfigSource, NewTopic
from sparkmirror.model import TopicPartition
from sparkmirror.topology.apply_topics import apply_topic_plan, rejected_config_messages
from sparkmirror.topology.internal_topics import (
    EnsureOutcome,
    InternalTopic,
    Side,
    ensure_internal_topics,
)
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.topology.topics import (
    TopicRules,
    plan_topics,
    topics_to_create,
)
from sparkmirror.wire.settings import ConnectionSettings
from support.clusters.topic_histories import create_with_admin
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually


@pytest.fixture(scope="module")
def cluster(target_cluster: LocalCluster) -> LocalCluster:
    """The shared target."""
    return target_cluster


@pytest.fixture
def own_admin(tmp_path: Path, kafka_version: str) -> Iterator[ClusterAdmin]:
    """Connected to a broker with its own setting, which a test may fill with topics."""
    config = {"log.retention.bytes": "123456789"}
    with LocalCluster("own", tmp_path, version=kafka_version, config=config) as cluster:
        connection = ConnectionSettings("own", (cluster.bootstrap_servers,), "control-plane-test")
        with ClusterAdmin(connection) as opened:
            yield opened


@pytest.fixture
def witness(cluster: LocalCluster) -> AdminClient:
    """Another implementation's view of the broker."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def witnessed_configs(witness: AdminClient, topic: str) -> dict[str, str]:
    """The configs that were set on a topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (future,) = witness.describe_configs([resource]).values()
    dynamic_topic_config = 1
    return {
        name: entry.value
        for name, entry in future.result().items()
        if entry.source == dynamic_topic_config
    }


def test_a_plan_makes_the_target_follow_the_source(
    admin: ClusterAdmin, witness: AdminClient
) -> None:
    """Topics are created with configs, grown with their source, and a refused config left out."""
    orders, odd = unique_name("orders"), unique_name("odd")
    create_with_admin(
        admin,
        NewTopic(orders, 2, 1, {"cleanup.policy": "compact", "retention.ms": "1234567"}),
        NewTopic(odd, 1, 1, {"segment.ms": "7654321"}),
    )
    rules = TopicRules(
        replicates=lambda name: name in (orders, odd),
        remote_name="a.{}".format,
        copies_config=lambda name: name != "min.insync.replicas",  # Kafka 4 sets it by itself
    )

    def refresh(extra: dict[str, str]) -> list[str]:
        known = admin.topics().found
        missing = topics_to_create(known, known, rules)
        configs = dict(admin.topic_configs(missing).found)
        if odd in configs:  # as if the source knew a config that the target does not
            configs[odd] += tuple(
                ConfigEntry(name, value, ConfigSource.DYNAMIC_TOPIC)
                for name, value in extra.items()
            )
        plan = plan_topics(known, known, configs, rules, 1)
        outcomes = apply_topic_plan(plan.actions, admin)
        assert [outcome.error for outcome in outcomes] == [None] * len(plan.actions)
        return rejected_config_messages(outcomes)

    wrong = {"compression.type": "smoke"}
    unknown = {"no.such.config": "1"}  # as of a newer source: no complaint
    (complaint,) = refresh({**wrong, **unknown, "max.message.bytes": "2000"})
    assert "compression.type=smoke" in complaint
    admin.await_topics([f"a.{orders}", f"a.{odd}"], PATIENCE_SECONDS)
    assert witnessed_configs(witness, f"a.{orders}") == {
        "cleanup.policy": "compact",
        "retention.ms": "1234567",
    }
    assert witnessed_configs(witness, f"a.{odd}") == {
        "segment.ms": "7654321",
        "max.message.bytes": "2000",
    }

    assert admin.create_partitions({orders: 5}) == {orders: None}
    eventually(
        lambda: admin.topics([orders]).found[orders].partitions == 5,
        PATIENCE_SECONDS,
        "growth is visible",
    )
    assert refresh({}) == []
    eventually(
        lambda: len(witness.list_topics(f"a.{orders}").topics[f"a.{orders}"].partitions) == 5,
        PATIENCE_SECONDS,
        "the remote topic has grown",
    )


def config_sources(admin: ClusterAdmin) -> dict[str, ConfigSource]:
    """Where the configs of a new topic come from, one of which was set on it."""
    topic = unique_name("sources")
    create_with_admin(admin, NewTopic(topic, 1, 1, {"retention.ms": "1000"}))

    def told() -> dict[str, ConfigSource]:
        return {one.name: one.source for one in admin.topic_configs([topic]).found[topic]}

    return eventually(told, PATIENCE_SECONDS, "configs are told", not_yet=(KeyError,))


def test_config_sources_are_distinguished(admin: ClusterAdmin) -> None:
    """What is copied to the target depends on where a value was set."""
    sources = config_sources(admin)
    assert sources["retention.ms"] is ConfigSource.DYNAMIC_TOPIC
    assert sources["segment.ms"] is ConfigSource.DEFAULT_CONFIG


@pytest.mark.thorough
def test_a_value_from_the_brokers_own_file_is_distinguished(own_admin: ClusterAdmin) -> None:
    """It is neither the topic's nor Kafka's default."""
    sources = config_sources(own_admin)
    assert sources["retention.ms"] is ConfigSource.DYNAMIC_TOPIC
    assert sources["retention.bytes"] is ConfigSource.STATIC_BROKER


def test_answers_about_good_topics_survive_bad_ones(admin: ClusterAdmin) -> None:
    """A topic that does not exist is reported next to the ones that do."""
    topic, missing = unique_name("good"), unique_name("missing")
    create_with_admin(admin, NewTopic(topic, 2, 1))
    described = admin.topics([topic, missing])
    assert described.found[topic].partitions == 2
    assert described.found[topic].topic_id is not None
    assert described.failed[missing].code == 3
    configs = admin.topic_configs([topic, missing])
    assert (set(configs.found), set(configs.failed)) == ({topic}, {missing})
    ends = admin.end_offsets([TopicPartition(topic, 1), TopicPartition(missing, 0)])
    assert ends.found == {TopicPartition(topic, 1): 0}
    assert f"topic '{missing}'" in str(ends.failed[TopicPartition(missing, 0)])


def test_each_refused_creation_explains_why(admin: ClusterAdmin) -> None:
    """One request, four results, each with its own code and sentence."""
    good, many, bad = unique_name("good"), unique_name("many"), unique_name("bad")
    results = admin.create_topics(
        [
            NewTopic(good, 1, 1),
            NewTopic(many, 1, 3),
            NewTopic(bad, 1, 1, {"retention.ms": "soon"}),
            NewTopic("not a name", 1, 1),
        ]
    )
    codes = {name: error.code if error else 0 for name, error in results.items()}
    assert codes == {good: 0, many: 38, bad: 40, "not a name": 17}
    assert "Cluster 'b' refused creating a topic" in str(results[bad])
    assert "retention.ms" in str(results[bad])


def test_an_unreachable_cluster_is_named_with_its_address() -> None:
    """Nobody listens there: the error says where we looked, and nothing is waited for."""
    connection = ConnectionSettings(
        "nowhere", ("127.0.0.1:1",), "test", connect_timeout_seconds=100 * PATIENCE_SECONDS
    )
    with pytest.raises(UnreachableError, match=r"'nowhere' cannot be reached at 127\.0\.0\.1:1 "):
        ClusterAdmin(connection).cluster()


@pytest.mark.thorough
def test_an_advertised_address_that_cannot_be_reached_is_named_as_such(
    tmp_path: Path, kafka_version: str
) -> None:
    """The bootstrap address answers, so the fault lies with advertised.listeners."""
    config = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}
    with LocalCluster("adv", tmp_path, version=kafka_version, config=config) as cluster:
        connection = ConnectionSettings(
            "adv", (cluster.bootstrap_servers,), "test", connect_timeout_seconds=1.0
        )
        expected = r"brokers advertise \(127\.0\.0\.1:1; .* advertised\.listeners"
        with pytest.raises(UnreachableError, match=expected), ClusterAdmin(connection) as admin:
            admin.cluster()


@pytest.fixture
def guarded(tmp_path: Path, kafka_version: str) -> Iterator[tuple[ConnectionSettings, AdminClient]]:
    """A cluster with an authorizer that allows what no rule forbids."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with LocalCluster("guarded", tmp_path, version=kafka_version, config=config) as cluster:
        address = cluster.bootstrap_servers
        yield (
            ConnectionSettings("guarded", (address,), "control-plane-test"),
            AdminClient({"bootstrap.servers": address}),
        )


def forbid(witness: AdminClient, operation: AclOperation, kind: ResourceType, name: str) -> None:
    """A rule against us; the operations that it does not name stay allowed."""
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", what, permission)
        for what, permission in (
            (AclOperation.ALL, AclPermissionType.ALLOW),
            (operation, AclPermissionType.DENY),
        )
    ]
    for future in witness.create_acls(rules).values():
        future.result()


@pytest.mark.thorough
def test_a_refused_permission_concerns_its_own_topic_only(
    guarded: tuple[ConnectionSettings, AdminClient],
) -> None:
    """Whatever is forbidden on one topic is reported, and the other topics are mirrored."""
    connection, witness = guarded
    rules = TopicRules(
        replicates=lambda name: name in ("open", "closed", "secret"), remote_name="a.{}".format
    )
    with ClusterAdmin(connection) as admin:
        create_with_admin(
            admin, *(NewTopic(name, 1, 1) for name in ("open", "closed", "secret", "heartbeats"))
        )
        forbid(witness, AclOperation.CREATE, ResourceType.BROKER, "kafka-cluster")
        forbid(witness, AclOperation.CREATE, ResourceType.TOPIC, "a.closed")
        forbid(witness, AclOperation.CREATE, ResourceType.TOPIC, "heartbeats")
        forbid(witness, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "secret")
        eventually(
            lambda: "secret" in admin.topic_configs(["secret"]).failed,
            PATIENCE_SECONDS,
            "rules hold",
        )
        known = admin.topics().found
        configs = admin.topic_configs(["open", "closed", "secret"])
        assert configs.failed["secret"].code == 29
        assert "lacks a permission" in str(configs.failed["secret"])
        plan = plan_topics(known, known, configs.found, rules, 1)
        assert [(one.kind, one.remote) for one in plan.notices] == [("configs unknown", "a.secret")]
        outcomes = {o.action.remote: o.error for o in apply_topic_plan(plan.actions, admin)}
        assert outcomes.pop("a.open") is None
        refused = outcomes.pop("a.closed")
        assert isinstance(refused, BrokerError)
        assert (refused.code, refused.topic, refused.retriable) == (29, "a.closed", False)
        heartbeats = InternalTopic(Side.TARGET, "heartbeats", 1, ReplicationFactor("factor", 1, 1))
        (ensured,) = ensure_internal_topics([heartbeats], admin, ReplicationFactorChooser())
        assert ensured.state is EnsureOutcome.EXISTED


@pytest.mark.thorough
def test_two_thousand_topics_take_few_requests(
    own_admin: ClusterAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discovery is one request, however many topics there are; configs are requested in bulk."""
    names = [unique_name(f"many-{number}") for number in range(2000)]
    create_with_admin(own_admin, *(NewTopic(name, 1, 1) for name in names))
    asked: list[object] = []
    original = ClusterClient._run

    def counting(self: ClusterClient, sends: Sequence[Send], *rest: Any) -> list[Any]:
        asked.extend(sends)
        return original(self, sends, *rest)

    monkeypatch.setattr(ClusterClient, "_run", counting)
    described = own_admin.topics()
    assert set(names) <= set(described.found)
    assert len(asked) == 1
    asked.clear()
    assert set(own_admin.topic_configs(names).found) == set(names)
    assert len(asked) == 8
