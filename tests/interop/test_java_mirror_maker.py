# SPDX-License-Identifier: Apache-2.0
"""The same file under Java MirrorMaker 2 and under sparkmirror: same topics, same positions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from support.clients.librdkafka import (
    Cluster,
    admin,
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    topics,
)
from support.measurements import measured
from support.mirrors.java_mirror_maker import JavaMirror
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

START_SECONDS = 90.0
SETTLED_SECONDS = 5.0
SOURCE_TOPICS = {"orders": 3, "orders.v1": 1, "other": 1}
LINES = (
    "primary->backup.enabled = true",
    "primary->backup.topics = orders.*",
    # Java finds `heartbeats`, which is made while it starts, only when it looks again.
    "refresh.topics.interval.seconds = 2",
    "replication.factor = 1",
    "offset-syncs.topic.replication.factor = 1",
    "checkpoints.topic.replication.factor = 1",
    "heartbeats.topic.replication.factor = 1",
    "offset.storage.replication.factor = 1",
    "status.storage.replication.factor = 1",
    "config.storage.replication.factor = 1",
)
Pair = dict[str, LocalCluster]
# The one topic that Java does not have.
OWN_TOPICS = {("backup", "mm2-offset-map.primary.internal", 1, "compact")}
TopicList = dict[str, tuple[int, str]]  # name -> partitions, cleanup policy


@pytest.fixture(scope="module")
def pairs(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[dict[str, Pair]]:
    """A pair of fresh clusters for each of the two programs."""
    directory = tmp_path_factory.mktemp("interop")
    found = {
        who: {
            alias: LocalCluster(alias, directory / who / alias, version=kafka_version)
            for alias in ("primary", "backup")
        }
        for who in ("java", "ours")
    }
    everyone = [cluster for pair in found.values() for cluster in pair.values()]
    start_all(everyone)
    for pair in found.values():
        create_topics(pair["primary"], SOURCE_TOPICS)
        produce(pair["primary"], "orders", numbered(300, 3))
    yield found
    for cluster in everyone:
        cluster.stop()


def topic_list(cluster: Cluster) -> TopicList:
    """Names, partitions and cleanup policies; Kafka's own internal topics left out."""
    names = {name: count for name, count in topics(cluster).items() if not name.startswith("__")}
    client = admin(cluster)
    answers = client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    policies = {
        resource.name: future.result(PATIENCE_SECONDS)["cleanup.policy"].value
        for resource, future in answers.items()
    }
    return {name: (count, policies[name]) for name, count in sorted(names.items())}


def both_lists(pair: Pair) -> set[tuple[str, str, int, str]]:
    """Cluster, name, partitions and cleanup policy of every topic on both clusters."""
    return {
        (alias, name, *rest)
        for alias, cluster in pair.items()
        for name, rest in topic_list(cluster).items()
    }


def test_the_topic_lists_are_those_of_java(pairs: dict[str, Pair], tmp_path: Path) -> None:
    """Names, partitions and cleanup policies on both clusters; the offset map is ours alone."""
    began = time.monotonic()
    with ExitStack() as stack:
        for who, start in (("java", JavaMirror), ("ours", MirrorProcess)):
            (tmp_path / who).mkdir()
            stack.enter_context(start(mirror_file(tmp_path / who, pairs[who], *LINES)))
        for pair in pairs.values():
            await_copy(pair["primary"], "orders", pair["backup"], "primary.orders", START_SECONDS)

        def lists_equal() -> bool:
            assert both_lists(pairs["ours"]) ^ both_lists(pairs["java"]) == OWN_TOPICS
            return True

        eventually(lists_equal, START_SECONDS, "both leave the same topics")
        time.sleep(SETTLED_SECONDS)  # whatever either of them still makes
        assert lists_equal()
    measured(f"topic lists equal after {time.monotonic() - began:.1f} s")


def test_each_continues_where_the_other_stopped(pairs: dict[str, Pair], tmp_path: Path) -> None:
    """Java, sparkmirror, Java, sparkmirror: every record is copied once, in order."""
    pair = pairs["java"]
    source, target = pair["primary"], pair["backup"]
    create_topics(source, {"orders-relay": 2})
    file = mirror_file(tmp_path, pair, *LINES)
    for leg, is_java in enumerate((True, False, True, False)):
        produce(source, "orders-relay", numbered(400, 2, first=400 * leg))
        if is_java:
            with JavaMirror(file) as java:
                await_copy(source, "orders-relay", target, "primary.orders-relay", START_SECONDS)
                java.stop()
        else:
            with MirrorProcess(file, "--once") as mirror:
                assert mirror.wait(START_SECONDS) == 0
        copied = sum(end_offsets(target, "primary.orders-relay").values())
        assert copied == 400 * (leg + 1)
    assert compare_topics(source, "orders-relay", target, "primary.orders-relay") == 1600
