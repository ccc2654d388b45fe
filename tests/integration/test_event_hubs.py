# SPDX-License-Identifier: Apache-2.0
"""Both directions of `profile=event-hubs` against a broker that offers only that service's APIs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.fenced_producer import CANNOT_FENCE, FencedProducer
from sparkmirror.wire.error_codes import UNSUPPORTED_VERSION
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.consumer_groups import commit, committed
from support.clients.librdkafka import (
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    topics,
)
from support.clusters.event_hubs import EventHubs, event_hubs
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess, command
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

MANY = 60_000
QUICK = (
    "refresh.topics.interval.seconds = 1",
    "refresh.groups.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "emit.heartbeats.interval.seconds = 1",
    "sync.group.offsets.interval.seconds = 1",
)


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[EventHubs]:
    """The stand-in."""
    with event_hubs(tmp_path_factory.mktemp("hubs"), kafka_version) as running:
        yield running


@pytest.mark.parametrize("direction", ["target", "source"])
def test_records_and_groups_arrive(
    direction: str, hubs: EventHubs, source_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Each record once, although all is killed under load; nothing is asked that is not there."""
    topic, group = unique_name("orders"), unique_name("readers")
    alias, service = unique_name("onprem"), unique_name("hubs")
    clusters = {alias: source_cluster, service: hubs}
    is_target = direction == "target"
    flow = f"{alias}->{service}" if is_target else f"{service}->{alias}"
    source = source_cluster if is_target else hubs.cluster
    target = hubs.cluster if is_target else source_cluster
    create_topics(source, {topic: 3})
    produce(source, topic, numbered(MANY, partitions=3))
    commit(source, group, topic, {0: 40})
    profile = "profile" if is_target else "source.profile"
    remote = f"{flow.partition('->')[0]}.{topic}"
    file = mirror_file(
        tmp_path,
        clusters,
        f"{flow}.enabled = true",
        f"{flow}.topics = {topic}",
        f"{flow}.groups = {group}",
        f"{flow}.{profile} = event-hubs",
        f"{flow}.sync.group.offsets.enabled = true",
        *QUICK,
    )
    with MirrorProcess(file) as mirror:
        eventually(
            lambda: sum(end_offsets(target, remote).values()) > 0, PATIENCE_SECONDS, "copying"
        )
        mirror.kill_everything()
    produce(source, topic, numbered(300, first=MANY, partitions=3))
    with MirrorProcess(file) as mirror:
        await_copy(source, topic, target, remote, PATIENCE_SECONDS)
        eventually(
            lambda: committed(target, group, remote, 3).get(0) == 40,
            PATIENCE_SECONDS,
            "the group's position is on the target",
        )
        mirror.terminate()
    assert compare_topics(source, topic, target, remote) == MANY + 300
    assert hubs.limit.refused == []
    assert (0, 7) in hubs.limit.seen if is_target else (1, 6) in hubs.limit.seen


@pytest.mark.parametrize("role", ["source", "target"])
def test_check_explains_what_the_service_cannot_do(
    role: str, hubs: EventHubs, source_cluster: LocalCluster, tmp_path: Path
) -> None:
    """In sentences, without an error, and without asking for anything that is not there."""
    flow = "hubs->onprem" if role == "source" else "onprem->hubs"
    file = mirror_file(tmp_path, {"onprem": source_cluster, "hubs": hubs}, f"{flow}.enabled = true")
    done = subprocess.run(
        [command(), "check", file, "--connect", "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    (found,) = [one for one in json.loads(done.stdout)["clusters"] if one["alias"] == "hubs"]
    said = [one["message"].partition(":")[0] for one in found["limits"]]
    expected = {
        "source": {"no fetch sessions", "no OffsetForLeaderEpoch", "no topic ids"},
        "target": {"no DescribeProducers", "no incremental config changes", "no transactions"},
    }
    assert expected[role] <= set(said)
    assert (done.returncode, found["ok"], found["missingPermissions"]) == (0, True, [])
    assert hubs.limit.refused == []


def test_what_the_service_lacks_is_refused_before_anything_is_sent(hubs: EventHubs) -> None:
    """No deletion by a name that may be another topic's; no fencing that could not be renewed."""
    topic = unique_name("kept")
    create_topics(hubs.cluster, {topic: 1})
    connection = ConnectionSettings("hubs", (hubs.bootstrap_servers,), "lacking")
    with ClusterAdmin(connection) as admin:
        found = admin.topics([topic]).found
        assert found[topic].topic_id is None
        refused = admin.delete_topics([*found.values()])[topic]
        assert refused is not None
        assert refused.code == UNSUPPORTED_VERSION
        with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION"):
            admin.alter_configs({topic: {"retention.ms": "1"}})
    client = ClusterClient(connection)
    try:
        with pytest.raises(BrokerError) as caught:
            FencedProducer(client, unique_name("worker")).acquire()
        assert caught.value.code in CANNOT_FENCE
    finally:
        client.close()
    assert topic in topics(hubs.cluster)
    assert hubs.limit.refused == []
