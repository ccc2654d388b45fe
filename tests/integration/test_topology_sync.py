# SPDX-License-Identifier: Apache-2.0
"""Configs kept in line, topics that grow under load and topics that are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from sparkmirror.connectors.config_sync import ConfigSync
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.model import Flow
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.topics import TopicRules
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import (
    compare_topics,
    create_topics,
    delete_topic,
    grow_topic,
    numbered,
    produce,
    read_topic,
    topics,
)
from support.clusters.topic_histories import alter_configs, set_configs
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

EXCLUDED = {"min.insync.replicas", "max.compaction.lag.ms"}  # the first as by default
RULES = TopicRules(
    replicates=lambda _: True,
    remote_name="a.{}".format,
    copies_config=lambda name: name not in EXCLUDED,
)


class CountingAdmin(ClusterAdmin):
    """A real admin client that remembers what it altered, and waits until it shows."""

    def __init__(self, connection: ConnectionSettings, cluster: LocalCluster) -> None:
        super().__init__(connection)
        self._cluster = cluster
        self.altered: list[dict[str, dict[str, str | None]]] = []

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """As it is, and remembered."""
        self.altered.append({topic: dict(configs) for topic, configs in changes.items()})
        outcome = super().alter_configs(changes, validate_only=validate_only)
        for topic, error in outcome.items():
            if error is None and not validate_only:
                await_shown(self._cluster, topic, changes[topic])
        return outcome


def await_shown(cluster: LocalCluster, topic: str, configs: Mapping[str, str | None]) -> None:
    """Wait until the broker shows what its controller has taken."""
    eventually(
        lambda: (
            configs.items() <= {**dict.fromkeys(configs), **set_configs(cluster, topic)}.items()
        ),
        PATIENCE_SECONDS,
        f"{topic} has {dict(configs)}",
    )


def change(cluster: LocalCluster, topic: str, configs: Mapping[str, str | None]) -> None:
    """Set configs of a topic that nobody else changes."""
    alter_configs(cluster, ResourceType.TOPIC, topic, configs)
    await_shown(cluster, topic, configs)


Admins = tuple[ClusterAdmin, CountingAdmin]


@pytest.fixture
def admins(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Admins]:
    """Clients of both sides."""
    with ExitStack() as stack:
        here, there = (
            ConnectionSettings(name, (cluster.bootstrap_servers,), "config-sync-test")
            for name, cluster in (("a", source_cluster), ("b", target_cluster))
        )
        source = stack.enter_context(ClusterAdmin(here))
        yield source, stack.enter_context(CountingAdmin(there, target_cluster))


def test_only_differences_are_sent(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    admins: Admins,
    unique_topic: Callable[..., str],
) -> None:
    """A change is sent once, a drift is sent back, and a quiet round sends nothing."""
    names = [unique_topic(f"t{n}") for n in range(3)]
    remotes = {name: f"a.{name}" for name in names}
    create_topics(source_cluster, dict.fromkeys(names, 1), {"retention.ms": "100000"})
    create_topics(target_cluster, dict.fromkeys(remotes.values(), 1), {"retention.ms": "100000"})
    source, target = admins
    sync = ConfigSync(Flow("a", "b"), RULES, FlowStatus("a->b"))

    def sent() -> list[dict[str, dict[str, str | None]]]:
        target.altered.clear()
        sync.sync(remotes, source, target)
        return target.altered

    assert sent() == []
    change(source_cluster, names[1], {"retention.ms": "200000"})
    change(target_cluster, remotes[names[2]], {"segment.ms": "70000"})
    assert sent() == [
        {remotes[names[1]]: {"retention.ms": "200000"}, remotes[names[2]]: {"segment.ms": None}}
    ]
    assert sent() == []
    assert set_configs(target_cluster, remotes[names[1]])["retention.ms"] == "200000"
    assert "segment.ms" not in set_configs(target_cluster, remotes[names[2]])


def test_rejected_changes_are_reported_once_and_the_others_applied(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    admins: Admins,
    unique_topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The remote topic has an excluded config of its own that another one does not go with."""
    name = unique_topic("refused")
    remote = f"a.{name}"
    here = {"retention.ms": "100000", "min.compaction.lag.ms": "5000"}
    create_topics(source_cluster, {name: 1}, here)
    create_topics(target_cluster, {remote: 1}, {"max.compaction.lag.ms": "1000"})
    source, target = admins
    status = FlowStatus("a->b")
    sync = ConfigSync(Flow("a", "b"), RULES, status)

    def tell() -> list[str]:
        caplog.clear()
        sync.sync({name: remote}, source, target)
        return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    [sentence] = tell()
    assert f"rejects min.compaction.lag.ms=5000 on '{remote}'" in sentence
    assert set_configs(target_cluster, remote)["retention.ms"] == "100000"
    assert "min.compaction.lag.ms" in status.snapshot().problems[0]
    target.altered.clear()
    assert tell() == []
    assert target.altered == []
    assert status.snapshot().problems
    change(source_cluster, name, {"min.compaction.lag.ms": "500"})
    assert tell() == []
    assert set_configs(target_cluster, remote)["min.compaction.lag.ms"] == "500"
    assert status.snapshot().problems == ()
    assert status.snapshot().topology_changes == {"altered": 2, "config refused": 1}


def test_a_config_that_another_client_keeps_reverting_is_not_set_again(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    admins: Admins,
    unique_topic: Callable[..., str],
) -> None:
    """Two tools that want different things do not fight for ever; the status names the config."""
    name = unique_topic("fickle")
    remote = f"a.{name}"
    create_topics(source_cluster, {name: 1}, {"retention.ms": "100000"})
    create_topics(target_cluster, {remote: 1}, {"retention.ms": "300000"})
    source, target = admins
    status = FlowStatus("a->b")
    sync = ConfigSync(Flow("a", "b"), RULES, status)
    for _ in range(5):
        sync.sync({name: remote}, source, target)
        change(target_cluster, remote, {"retention.ms": "300000"})
    assert target.altered == [{remote: {"retention.ms": "100000"}}] * 3
    [trouble] = status.snapshot().problems
    assert "retention.ms are changed back" in trouble
    change(target_cluster, remote, {"retention.ms": "100000"})
    sync.sync({name: remote}, source, target)
    assert status.snapshot().problems == ()


@pytest.mark.thorough
@pytest.mark.parametrize("support", ["disabled", "enabled"])
def test_growth_and_deletion_under_load(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, support: str
) -> None:
    """Grown partitions arrive whole, also in a flow that begins at the end.

    A deleted topic is followed by its copy, and one made again is mirrored again.
    """
    alias, stem = unique_name("topology"), unique_name("topic")
    grown, doomed, wide = (f"{stem}-{what}" for what in ("grown", "doomed", "wide"))
    remote = "{}.{}".format
    create_topics(source_cluster, {grown: 1, doomed: 2, wide: 1})
    create_topics(target_cluster, {remote(alias, wide): 3})
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {stem}-.*",
        f"{alias}.consumer.auto.offset.reset = latest",
        "refresh.topics.interval.seconds = 1",
        "sync.topic.deletions.enabled = true",
        "sync.topic.deletions.grace.seconds = 5",
        "target.offset.flush.interval.ms = 500",
        f"target.exactly.once.source.support = {support}",
    )
    with MirrorProcess(file) as mirror:
        mirror.await_log(f"{alias}->target: RUNNING", PATIENCE_SECONDS)
        mirror.await_log(f"'{remote(alias, wide)}' has 3 partitions", PATIENCE_SECONDS)
        for topic in (grown, doomed):
            produce(source_cluster, topic, numbered(100))
            await_records(source_cluster, topic, target_cluster, remote(alias, topic))
        delete_topic(source_cluster, doomed)
        grow_topic(source_cluster, grown, 4)
        for first in range(100, 1000, 100):  # before and while it is noticed
            produce(source_cluster, grown, numbered(100, 4, first=first))
        await_records(source_cluster, grown, target_cluster, remote(alias, grown))
        assert compare_topics(source_cluster, grown, target_cluster, remote(alias, grown)) == 1000
        mirror.await_log(f"{doomed} was deleted on the source", PATIENCE_SECONDS)
        eventually(
            lambda: remote(alias, doomed) not in topics(target_cluster),
            PATIENCE_SECONDS,
            "it follows",
        )
        mirror.await_log(f"deleted {remote(alias, doomed)}, because", PATIENCE_SECONDS)
        create_topics(source_cluster, {doomed: 2})
        eventually(
            lambda: remote(alias, doomed) in topics(target_cluster),
            PATIENCE_SECONDS,
            "it is there again",
        )

        def arrives() -> int:
            produce(source_cluster, doomed, numbered(1))  # the flow begins at the end
            return count(target_cluster, remote(alias, doomed))

        eventually(arrives, PATIENCE_SECONDS, "the new topic is mirrored")


def count(cluster: LocalCluster, topic: str) -> int:
    """How many records a topic holds; markers of transactions are none."""
    return sum(len(records) for records in read_topic(cluster, topic).values())


def await_records(source: LocalCluster, topic: str, target: LocalCluster, remote: str) -> None:
    """Wait until a copy has as many records as its original."""
    expected = count(source, topic)
    eventually(
        lambda: count(target, remote) == expected, PATIENCE_SECONDS, f"{remote} has {expected}"
    )
