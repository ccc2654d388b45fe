# SPDX-License-Identifier: Apache-2.0
"""Thousands of topics: a quiet refresh is short and asks little, a change arrives soon."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.config_sync import ConfigSync
from sparkmirror.connectors.source_topics import topic_rules
from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.broker_session import Send
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.topics import mirrored_topics, plan_topics
from support.clusters.topic_histories import alter_configs, set_configs
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

TOPICS = 5_000
ROUND_SECONDS = 10.0
ARRIVAL_SECONDS = 10.0
SETTLING_ROUNDS = 3  # the first ones decode everything, and the brokers warm up
MOST_REQUESTS = 30
FLOW = Flow("a", "b")
NAMES = [f"crowd-{n:05}" for n in range(TOPICS)]

pytestmark = pytest.mark.thorough


class CountingClient(ClusterClient):
    """A real client that counts its requests."""

    requests = 0

    def _run(self, sends: Sequence[Send], timeout_seconds: float | None = None) -> list[Any]:
        CountingClient.requests += len(sends)
        return super()._run(sends, timeout_seconds)


@pytest.fixture(scope="module")
def crowd(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[tuple[Path, dict[str, LocalCluster]]]:
    """Two clusters with all topics on both, and the file of a flow between them."""
    directory = tmp_path_factory.mktemp("crowd")
    clusters = {
        name: LocalCluster(name, directory / name, version=kafka_version, heap="1g")
        for name in (FLOW.source, FLOW.target)
    }
    try:
        start_all(clusters.values())
        file = mirror_file(
            directory, clusters, f"{FLOW}.enabled = true", f"{FLOW}.topics = crowd-.*"
        )
        settings = MirrorConfig.load(file).flow_settings(FLOW)
        for connection, prefix in ((settings.source_admin, ""), (settings.target_admin, "a.")):
            with ClusterAdmin(connection) as admin:
                wanted = [prefix + name for name in NAMES]
                made = admin.create_topics([NewTopic(name, 1, 1) for name in wanted])
                assert set(made.values()) == {None}
                admin.await_topics(wanted, PATIENCE_SECONDS)
        yield file, clusters
    finally:
        for cluster in clusters.values():
            cluster.stop()


def test_a_refresh_with_nothing_changed_is_short(
    crowd: tuple[Path, dict[str, LocalCluster]],
) -> None:
    """Topics and configs of both sides, as the running flow looks at them."""
    settings = MirrorConfig.load(crowd[0]).flow_settings(FLOW)
    rules = topic_rules(load_policy(settings.policy, FLOW), FLOW)
    clients = [CountingClient(one) for one in (settings.source_admin, settings.target_admin)]
    with (
        ClusterAdmin(settings.source_admin, clients[0]) as source,
        ClusterAdmin(settings.target_admin, clients[1]) as target,
    ):
        sync = ConfigSync(FLOW, rules, FlowStatus(str(FLOW)))
        for number in range(2 * SETTLING_ROUNDS):
            CountingClient.requests = 0
            began, worked = time.monotonic(), time.process_time()
            found, there = source.topics().found, target.topics().found
            assert plan_topics(found, there, {}, rules, 1).actions == ()
            remotes = {name: rules.remote_name(name) for name in mirrored_topics(found, rules)}
            assert len(remotes) == TOPICS
            sync.sync(remotes, source, target)
            took, cpu = time.monotonic() - began, time.process_time() - worked
            print(f"{took:.2f} s, CPU {cpu:.2f} s, {CountingClient.requests} requests")
            if number >= SETTLING_ROUNDS:
                assert took < ROUND_SECONDS
                assert CountingClient.requests <= MOST_REQUESTS


def test_a_changed_config_arrives_soon(crowd: tuple[Path, dict[str, LocalCluster]]) -> None:
    """Wherever in the order of names the topic stands."""
    file, clusters = crowd
    with MirrorProcess(file) as mirror:
        mirror.await_log(f"{FLOW}: RUNNING", PATIENCE_SECONDS)
        for number, name in enumerate((NAMES[0], NAMES[-1], NAMES[TOPICS // 2], NAMES[1234])):
            value = str(200_000_000 + number)
            alter_configs(clusters["a"], ResourceType.TOPIC, name, {"retention.ms": value})
            began = time.monotonic()
            eventually(
                lambda name=name, value=value: (
                    set_configs(clusters["b"], f"a.{name}").get("retention.ms") == value
                ),
                PATIENCE_SECONDS if not number else ARRIVAL_SECONDS,  # the first round reads it all
                f"{name} has its new config",
            )
            print(f"{name}: {time.monotonic() - began:.1f} s")
