# SPDX-License-Identifier: Apache-2.0
"""What docs/what-you-see.md says about twelve situations is what a running mirror shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from support.clients.librdkafka import Record, create_topics, delete_topic, numbered, produce, topics
from support.clusters.client_quotas import set_quota
from support.clusters.memory_disk import keep_in_memory
from support.mirrors.faulty_mirror import AUTHORIZER, forbid
from support.mirrors.shown_mirror import Shown, ShownMirror
from support.waiting import PATIENCE_SECONDS, eventually

COUNT = 500
FLOWS = {
    "A": "orders", "Q": "large", "R": "again", "N": "secret", "M": "payments, pyaments",
}  # fmt: skip
LIMITED = {"max.message.bytes": "20000"}


@dataclass(slots=True)
class World:
    source: LocalCluster
    target: LocalCluster
    lines: list[str]
    directory: Path
    mirror: ShownMirror


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("seen")
    source = LocalCluster("source", directory / "s", version=kafka_version, config=AUTHORIZER)
    target = LocalCluster("target", directory / "t", version=kafka_version)
    with ExitStack() as stack:
        for cluster in (source, target):
            keep_in_memory(cluster)
            stack.callback(cluster.stop)
        start_all([source, target])
        create_topics(source, {"orders": 4, "large": 2, "again": 1, "secret": 1, "payments": 1})
        create_topics(target, {"Q.large": 2}, LIMITED)
        forbid(source, "secret", AclOperation.READ)
        for topic in ("again", "secret", "payments"):
            produce(source, topic, numbered(COUNT))
        big = [(n % 4, Record(b"k", b"v" * 15_000, (), one.timestamp_ms)) for n, (_, one) in enumerate(numbered(100))]
        produce(source, "orders", big, compression_type="none", batch_size=16_000)
        set_quota(source.bootstrap_servers, "consumer_byte_rate", 20_000)
        lines = [
            f"clusters = {', '.join(FLOWS)}, B",
            *(f"{alias}.bootstrap.servers = {source.bootstrap_servers}" for alias in FLOWS),
            f"B.bootstrap.servers = {target.bootstrap_servers}",
            *(f"{alias}->B.enabled = true" for alias in FLOWS),
            *(f"{alias}->B.topics = {names}" for alias, names in FLOWS.items()),
            "Q->B.refused.record.policy = stop",
            "B.session.timeout.ms = 6000",
            "refresh.topics.interval.seconds = 2",
            "consumer.max.partition.fetch.bytes = 16000",
            "consumer.fetch.max.bytes = 16000",
            "replication.factor = 1",
            "tasks.max = 1",
            "log.progress.seconds = 1",
            "sync.topic.configs.enabled = false",
            "sync.topic.acls.enabled = false",
            "heartbeats.replication.enabled = false",
            "emit.heartbeats.enabled = false",
            "emit.checkpoints.enabled = false",
        ]
        mirror = stack.enter_context(ShownMirror(directory / "first", lines))
        yield World(source, target, lines, directory, mirror)


def dump(world, flow, what, mirror=None):
    s = (mirror or world.mirror).shown(flow)
    print("=====", what, "\nGET", s.get, "\nLIVE", s.live, "\nLOG", s.log[-3000:], "\nHEALTH", s.health, s.ready, "\nREST", s.rest)
    for (n, l), v in s.metrics.items():
        if n.startswith("sparkmirror_") and dict(l).get("flow") == flow and not (n.endswith("flow_state") and v == 0): print("   ", n, dict(l), v)


def test_all(world):
    import time, psutil, os
    m = world.mirror
    m.process.await_log("A->B: RUNNING", 100)
    time.sleep(5); dump(world, "A->B", "catching up")
    set_quota(world.source.bootstrap_servers, "consumer_byte_rate", None)
    dump(world, "M->B", "misspelt")
    dump(world, "N->B", "no rights")
    eventually(lambda: m.shown("A->B").get.get("lag") == "0", 100, "x")
    m.forget_log()
    big = [(0, Record(b"k", b"v" * 30_000, (), 1_700_000_000_000))] + [(0, r) for _, r in numbered(COUNT-1)]
    produce(world.source, "large", big, compression_type="none")
    time.sleep(8); dump(world, "Q->B", "quarantined")
    m.forget_log()
    delete_topic(world.source, "again")
    eventually(lambda: "again" not in topics(world.source), 100, "gone"); create_topics(world.source, {"again": 1}); produce(world.source, "again", numbered(COUNT))
    time.sleep(10); dump(world, "R->B", "recreated")
    m.forget_log()
    for w in m.process.python_workers(): print(w); w.kill()
    time.sleep(2); dump(world, "A->B", "task killed 2s"); time.sleep(5); dump(world, "A->B", "task killed 7s");
    m.forget_log(); m.put("/connectors/A-%3EB.MirrorSourceConnector/pause"); produce(world.source, "orders", numbered(COUNT, 4)); time.sleep(8); dump(world, "A->B", "paused")
    m.forget_log(); m.put("/connectors/A-%3EB.MirrorSourceConnector/stop"); time.sleep(6); dump(world, "A->B", "stopped")
    m.put("/connectors/A-%3EB.MirrorSourceConnector/resume"); eventually(lambda: m.shown("A->B").get.get("lag") == "0", 100, "x")
    with ShownMirror(world.directory / "second", world.lines) as second:
        second.process.await_log("A->B: STANDBY", 100); produce(world.source, "orders", numbered(10, 4)); time.sleep(10)
        dump(world, "A->B", "standby", second)
    m.forget_log(); world.target.kill(); produce(world.source, "orders", numbered(COUNT, 4)); time.sleep(30); dump(world, "A->B", "target down")
    dump(world, "M->B", "target down M")
    [b.start() for b in world.target.brokers]; eventually(lambda: m.shown("A->B").get.get("lag") == "0", 100, "x")
    m.forget_log(); world.source.kill(); time.sleep(35); dump(world, "A->B", "source down"); [b.start() for b in world.source.brokers]
    eventually(lambda: m.shown("A->B").get.get("lag") == "0", 100, "x")
    m.forget_log(); m.process.driver_jvm().kill(); print(m.process.wait(60)); dump(world, "A->B", "jvm")
