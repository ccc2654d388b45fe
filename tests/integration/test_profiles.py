# SPDX-License-Identifier: Apache-2.0
"""Profiles against a broker that refuses what the services refuse.

One broker with the policies, the request limit and the rights of a managed service. With the
profile nothing is refused; without it the same flow runs into the refusals, so that these tests can
fail. None of this was tried on the real services.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sparkmirror.config.keys.service_profiles import PROFILES
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.source_topics import topic_rules
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.topology.apply_topics import TopicOutcome, apply_topic_plan
from sparkmirror.topology.internal_topics import Side, ensure_internal_topics, internal_topics
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.topology.topics import TopicPlan, plan_topics
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import (
    Record,
    create_topics,
    end_offsets,
    numbered,
    produce,
    read_topic,
    topics,
)
from support.clusters.restricted_cluster import (
    NO_CREATION,
    forbid_creation_and_acls,
    restricted_cluster,
)
from support.mirrors.copy_tasks import FakeControlChannel, TaskFlow
from support.mirrors.faulty_mirror import set_config
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

IDLE_SECONDS = 1.0
# What all four let a topic be created with; a service's own list is longer.
ALLOWED = "cleanup.policy,retention.ms"
LARGE = ("max.message.bytes", str(8 << 20))
WIDE_BATCHES = {"batch_size": 4 << 20, "linger_ms": 300, "message_max_bytes": 4 << 20}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[LocalCluster]:
    """The broker that refuses."""
    directory = tmp_path_factory.mktemp("service")
    cluster = restricted_cluster("service", directory, kafka_version, configs=ALLOWED, extra={})
    with cluster:
        forbid_creation_and_acls(cluster)
        yield cluster


def large_batches(source: LocalCluster, topic: str) -> list[bytes]:
    """Records of which some 3 MB travel together in a batch, half of them lz4: their values."""
    found = []
    for codec in ("none", "lz4"):
        records = [(0, Record(None, bytes([65 + n % 26]) * 9_000)) for n in range(400)]
        produce(source, topic, records, compression_type=codec, **WIDE_BATCHES)
        found += [record.value or b"" for _, record in records]
    return found


@pytest.mark.thorough
def test_a_flow_into_a_service_meets_no_refusal_with_its_profile_and_many_without(
    source_cluster: LocalCluster, service: LocalCluster, tmp_path: Path
) -> None:
    """Configs, factors, large batches, codecs; a record that can never fit is a dead letter."""
    topic = unique_name("profile-orders")
    configs = {LARGE[0]: LARGE[1], "retention.ms": "3600000", "segment.bytes": str(64 << 20)}
    create_topics(source_cluster, {topic: 1}, configs)
    values = large_batches(source_cluster, topic)
    oversize = Record(b"oversize", b"x" * 2_000_000)
    produce(source_cluster, topic, [(0, oversize)], **WIDE_BATCHES)
    after = numbered(10)
    produce(source_cluster, topic, after)

    alias, plain = unique_name("hubs"), unique_name("plain")
    clusters = {alias: source_cluster, plain: source_cluster, "service": service}
    flows = [
        line
        for name in (alias, plain)
        for line in (f"{name}->service.enabled=true", f"{name}->service.topics={topic}")
    ]
    file = mirror_file(
        tmp_path, clusters, *flows, "emit.heartbeats.enabled=false",
        f"{alias}->service.profile=event-hubs",
    )  # fmt: skip
    with MirrorProcess(file) as mirror:
        remote = f"{alias}.{topic}"
        expected = [*values, *(record.value for _, record in after)]
        eventually(
            lambda: topics(service).get(remote) and end_offsets(service, remote)[0],
            PATIENCE_SECONDS,
            f"{remote} has records",
        )
        eventually(
            lambda: end_offsets(service, remote)[0] >= len(expected),
            PATIENCE_SECONDS,
            "all are there",
        )
        mirror.await_log(f"{plain}->service: The target rejects the topic config", PATIENCE_SECONDS)
        mirror.await_log("closed the connection", PATIENCE_SECONDS)
        refusals = [
            line
            for line in mirror.log.splitlines()
            if f"{alias}->service" in line and ("refuses" in line or "closed" in line)
        ]
        assert refusals == []
        mirror.terminate()
    assert [record.value for record in read_topic(service, remote)[0]] == expected
    letters = read_topic(service, f"mm2-dead-letters.{alias}.internal")[0]
    assert [letter.key for letter in letters] == [b"oversize"]
    assert end_offsets(service, f"{plain}.{topic}").get(0, 0) < len(values)


def settings_for(
    source: LocalCluster, service: LocalCluster, *lines: str, alias: str
) -> FlowSettings:
    """What a file says about the flow into the service."""
    text = "\n".join(
        (
            f"clusters={alias}, service",
            f"{alias}.bootstrap.servers={source.bootstrap_servers}",
            f"service.bootstrap.servers={service.bootstrap_servers}",
            f"{alias}->service.enabled=true",
            *(f"{alias}->service.{line}" for line in lines),
        )
    )
    return MirrorConfig.parse(text).flow_settings(Flow(alias, "service"))


def planned(settings: FlowSettings, topic: str) -> TopicPlan:
    """What the source connector would do about one topic that is missing on the target."""
    policy = load_policy(settings.policy, settings.flow)
    creates = settings.source.topic_creation_enabled
    rules = replace(
        topic_rules(policy, settings.flow, creates=creates), replicates=lambda name: name == topic
    )
    with ClusterAdmin(settings.source_admin) as source:
        found = source.topics([topic]).found
        configs = source.topic_configs([topic]).found
    factor = settings.source.replication_factor.value or 2
    return plan_topics(found, {}, configs, rules, factor)


def applied(settings: FlowSettings, plan: TopicPlan) -> list[TopicOutcome]:
    """How the target takes it."""
    with ClusterAdmin(settings.target_admin) as target:
        return apply_topic_plan(plan.actions, target)


@pytest.fixture(scope="module")
def peculiar_topic(source_cluster: LocalCluster) -> str:
    """A source topic with configs that no service takes."""
    topic = unique_name("peculiar")
    configs = {
        "cleanup.policy": "compact",
        "index.interval.bytes": "8192",
        "flush.messages": "1000",
    }
    create_topics(source_cluster, {topic: 2}, configs)
    return topic


@pytest.mark.parametrize("profile", PROFILES)
def test_topics_are_created_as_the_service_wants_them(
    profile: str, source_cluster: LocalCluster, service: LocalCluster, peculiar_topic: str
) -> None:
    """Remote and internal ones, with the configs and the factor that it takes."""
    settings = settings_for(
        source_cluster, service, f"profile={profile}", alias=unique_name("managed")
    )
    (outcome,) = applied(settings, planned(settings, peculiar_topic))
    assert (outcome.error, outcome.rejected) == (None, ())
    names = load_policy(settings.policy, settings.flow).replication
    wanted = [t for t in internal_topics(settings, names) if t.side is Side.TARGET]
    with ClusterAdmin(settings.target_admin) as target:
        ensured = ensure_internal_topics(wanted, target, ReplicationFactorChooser())
    assert [one.error for one in ensured if one.error is not None] == []


def test_without_a_profile_the_service_refuses_configs(
    source_cluster: LocalCluster, service: LocalCluster, peculiar_topic: str
) -> None:
    """So that the tests above mean something."""
    settings = settings_for(source_cluster, service, alias=unique_name("unmanaged"))
    plan = planned(settings, peculiar_topic)
    single = [replace(action, replication_factor=1) for action in plan.actions]
    (outcome,) = applied(settings, TopicPlan(tuple(single)))
    refused = {one.name for one in outcome.rejected}
    assert refused == {"index.interval.bytes", "flush.messages"}
    assert ["The service does not" in one.reason for one in outcome.rejected] == [True, True]


def test_a_creation_without_the_right_explains_what_to_create(
    source_cluster: LocalCluster, service: LocalCluster, peculiar_topic: str
) -> None:
    """The sentence has the shape; with topic.creation.enabled=false nothing is tried at all."""
    alias = unique_name(NO_CREATION)
    settings = settings_for(source_cluster, service, "profile=event-hubs", alias=alias)
    (outcome,) = applied(settings, planned(settings, peculiar_topic))
    shape = "with 2 partitions, replication factor 1, cleanup.policy=compact"
    assert f"Create it manually {shape}, or grant CREATE" in str(outcome.error)
    resigned = settings_for(
        source_cluster, service, "profile=event-hubs", "topic.creation.enabled=false", alias=alias
    )
    plan = planned(resigned, peculiar_topic)
    assert plan.actions == ()
    assert [str(notice).endswith(f"Create it {shape}.") for notice in plan.notices] == [True]
    names = load_policy(resigned.policy, resigned.flow).replication
    storage = [t for t in internal_topics(resigned, names) if t.storage_key]
    with ClusterAdmin(resigned.target_admin) as target:
        ensured = ensure_internal_topics(storage, target, ReplicationFactorChooser(), creates=False)
    told = [str(one.error) for one in ensured]
    assert f"Topic 'mm2-offsets.{alias}.internal' does not exist on cluster 'service'" in told[0]
    assert told[0].endswith("with 25 partitions, replication factor 1, cleanup.policy=compact.")


class ManagedFlow(TaskFlow):
    """A copy task that writes as a profile says."""

    def __init__(self, source: LocalCluster, service: LocalCluster, *lines: str) -> None:
        self.settings = settings_for(source, service, *lines, alias="a")
        super().__init__(source, service)
        create_topics(service, {f"{self.offsets}-dead-letters": 1, f"{self.offsets}-ledger": 1})

    @property
    def changes(self) -> Mapping[str, object]:
        """What differs from the settings of other tests."""
        return {
            "produce": self.settings.produce,
            "producer": replace(self.settings.producer, client_id="take-over"),
        }


@pytest.mark.parametrize("is_old", [False, True], ids=["kafka", "resembling-kafka"])
def test_no_request_is_larger_than_the_service_takes(
    source_cluster: LocalCluster,
    service: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_old: bool,
) -> None:
    """Batches of 3 MB are cut, codecs undone, a record of 2 MB becomes a dead letter.

    A service that only resembles Kafka speaks old versions of the protocol, and is read to compare
    all the same.
    """
    if is_old:
        speak_old_versions(monkeypatch)
    flow = ManagedFlow(source_cluster, service, "profile=event-hubs")
    set_config(source_cluster, flow.topic, *LARGE)
    values = large_batches(source_cluster, flow.topic)
    produce(source_cluster, flow.topic, [(0, Record(b"large", b"x" * 2_000_000))], **WIDE_BATCHES)
    produce(source_cluster, flow.topic, [(0, Record(None, b"last"))])
    driver = FakeControlChannel()
    flow.copy(flow.split(end_offsets(source_cluster, flow.topic)), driver)
    assert [r.value for r in read_topic(service, flow.remote)[0]] == [*values, b"last"]
    letters = read_topic(service, f"{flow.offsets}-dead-letters")[0]
    assert [letter.key for letter in letters] == [b"large"]
    assert troubles(driver) == {""}
    kinds = {one.kind for report in driver.reports for one in report.incidents}
    assert IncidentKind.NO_READ not in kinds


@pytest.mark.thorough
def test_without_the_profile_the_service_closes_the_connection(
    source_cluster: LocalCluster, service: LocalCluster
) -> None:
    """Nothing of a batch of 3 MB arrives, and the task says why."""
    flow = ManagedFlow(source_cluster, service)
    set_config(source_cluster, flow.topic, *LARGE)
    large_batches(source_cluster, flow.topic)
    with flow.task() as driver:
        eventually(
            lambda: any("CONNECTION_LOST" in trouble for trouble in troubles(driver)),
            PATIENCE_SECONDS,
            "the task complains",
        )
    assert flow.copied() == 0


def test_our_own_records_are_cut_as_well(service: LocalCluster) -> None:
    """What the driver writes to an internal topic goes in requests that the service takes."""
    topic = unique_name("own-records")
    create_topics(service, {topic: 2})
    connection = ConnectionSettings(
        "service", (service.bootstrap_servers,), "own", max_request_bytes=100_000
    )
    records = {index: [(b"%d" % n, b"v" * 10_000) for n in range(150)] for index in (0, 1)}
    with TopicLog(connection, topic) as log:
        log.append(records)
    found = read_topic(service, topic)
    assert {index: [(r.key, r.value) for r in found[index]] for index in records} == records


@pytest.mark.thorough
def test_idle_connections_are_closed_before_the_network_drops_them(
    source_cluster: LocalCluster, service: LocalCluster
) -> None:
    """A task's to the target and the control plane's; both come back when they are needed."""
    milliseconds = round(IDLE_SECONDS * 1000)
    flow = ManagedFlow(
        source_cluster,
        service,
        f"producer.override.connections.max.idle.ms={milliseconds}",
        f"target.admin.connections.max.idle.ms={milliseconds}",
    )
    with ClusterAdmin(flow.settings.target_admin) as target, flow.task():
        for turn in range(2):
            target.cluster()
            produce(source_cluster, flow.topic, numbered(10, first=turn * 10))
            eventually(
                lambda turn=turn: flow.copied() == (turn + 1) * 10, PATIENCE_SECONDS, "copied"
            )
            eventually(lambda: not connected_to(service), PATIENCE_SECONDS, "nobody is connected")
            assert connected_to(source_cluster)


def troubles(driver: FakeControlChannel) -> set[str]:
    """All that a task has complained about."""
    reports = driver.reports
    return {r.error for r in reports} | {p.error for r in reports for p in r.partitions}


def connected_to(cluster: LocalCluster) -> list[int]:
    """The ports of our own process from which something of ours is connected to a cluster.

    The witnesses are librdkafka's and have left.
    """
    ports = {broker.port for broker in cluster.brokers}
    return [
        one.laddr.port
        for one in psutil.Process(os.getpid()).net_connections("tcp")
        if one.raddr and one.raddr.port in ports and one.status == psutil.CONN_ESTABLISHED
    ]


def speak_old_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our tasks hear of the service's broker what was reported of Event Hubs."""
    when_ready = BrokerConnection.when_ready

    def limited(
        self: BrokerConnection, send: Callable[[], None], failure: Callable[..., None]
    ) -> None:
        def with_limits() -> None:
            if self._settings.alias == "service":
                self.api_versions |= {0: (0, 7), 1: (4, 6), 3: (0, 5)}  # produce, fetch, metadata
                self.api_versions.pop(61, None)  # DescribeProducers
            send()

        when_ready(self, with_limits, failure)

    monkeypatch.setattr(BrokerConnection, "when_ready", limited)
