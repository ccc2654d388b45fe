# SPDX-License-Identifier: Apache-2.0
"""Translation uses the maps of all flows that the registries list, under any alias."""

from __future__ import annotations

import random
import time
from pathlib import Path

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.map_chunk import ChunkKey
from sparkmirror.formats.producer_registry import PRODUCERS_TOPIC, RegisteredFlow
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.policy.loading import load_policy
from sparkmirror.state.producer_registry import ProducerRegistry
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import create_topics, topics
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirrored_clusters import TP, MirroredClusters
from support.unique_names import unique_name

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def model_of_a_mesh() -> MirroredClusters:
    """Three clusters with all their flows, and records in any order."""
    chance = random.Random(7)
    model = MirroredClusters("abc")
    for _ in range(40):
        model.produce(chance.choice("abc"), chance.randint(1, 3))
        model.copy(*chance.choice([*model.flows]), chance.randint(1, 9))
    model.settle()
    return model


def write_map(
    cluster: LocalCluster, alias: str, topic: str, model: MirroredClusters, flow: tuple[str, str]
) -> None:
    """Write an offset map as the tasks of a flow from `alias` do."""
    name = f"mm2-offset-map.{alias}.internal"
    create_topics(cluster, {name: 1}, {"cleanup.policy": "compact"})
    chunks = model.flows[flow].map.chunks
    with TopicLog(ConnectionSettings(alias, (cluster.bootstrap_servers,), "test"), name) as log:
        key = TopicPartition(topic, TP.partition)
        log.append({0: [(ChunkKey(key, one.first).pack(), one.value()) for one in chunks]})


def register(cluster: LocalCluster, flow: str, source_id: str, topic: str) -> None:
    """Register a flow on its target."""
    if PRODUCERS_TOPIC not in topics(cluster):
        create_topics(cluster, {PRODUCERS_TOPIC: 1}, {"cleanup.policy": "compact"})
    connection = ConnectionSettings("x", (cluster.bootstrap_servers,), "test")
    with ProducerRegistry(connection) as registry:
        registry.refresh()
        seen = int(time.time() * 1000)
        one = RegisteredFlow(flow, source_id, registry.cluster_id, (topic,), seen_ms=seen)
        registry.register([], [one])


def id_of(cluster: LocalCluster) -> str:
    with ClusterAdmin(ConnectionSettings("x", (cluster.bootstrap_servers,), "test")) as admin:
        return admin.cluster().cluster_id or ""


def test_positions_are_translated_by_the_maps_of_all_registered_flows(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The other flows belong to other files, which use other aliases; c is a third cluster."""
    here, there, topic = unique_name("here"), unique_name("there"), unique_name("orders")
    names = {pair: unique_name("alias") for pair in (("b", "a"), ("c", "a"), ("c", "b"))}
    model, third = model_of_a_mesh(), unique_name("third-cluster")
    for cluster in (source_cluster, target_cluster):
        create_topics(cluster, {topic: 1})
    write_map(target_cluster, here, topic, model, ("a", "b"))
    write_map(source_cluster, names["b", "a"], topic, model, ("b", "a"))
    write_map(source_cluster, names["c", "a"], topic, model, ("c", "a"))
    write_map(target_cluster, names["c", "b"], topic, model, ("c", "b"))
    register(source_cluster, f"{names['b', 'a']}->a", id_of(target_cluster), topic)
    register(source_cluster, f"{names['c', 'a']}->a", third, topic)
    register(target_cluster, f"{names['c', 'b']}->b", third, topic)
    clusters = {here: source_cluster, there: target_cluster}
    file = mirror_file(tmp_path, clusters, f"{here}->{there}.enabled = true", IDENTITY)
    settings = next(
        one
        for one in MirrorConfig.load(file).enabled_settings()
        if (one.flow.source, one.flow.target) == (here, there)
    )
    tp = TopicPartition(topic, 0)
    with GroupSync(settings, load_policy(settings.policy, settings.flow)) as groups:
        groups.refresh()
        for position in range(len(model.logs["a"]) + 1):
            truth = model.first_unread("a", "b", position)
            assert groups.translate(tp, position) == Translation(truth, Fit.EXACT)
        for position in range(len(model.logs["b"]) + 1):
            truth = model.first_unread("b", "a", position)
            assert groups.translate_back(tp, position) == Translation(truth, Fit.EXACT)
