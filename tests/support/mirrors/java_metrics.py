# SPDX-License-Identifier: Apache-2.0
"""One flow of Java's MirrorMaker 2 with the JMX exporter, as a Connect worker runs it for Strimzi.

Strimzi names connectors `source->target.MirrorSourceConnector`; Kafka puts quotes around such
names, and its dashboards match the quotes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.clients.consumer_groups import commit
from support.clients.librdkafka import Cluster, create_topics, numbered, produce
from support.mirrors.java_connect import ConnectTopics, JavaConnect
from support.mirrors.jmx_exporter import JmxExporter
from support.waiting import PATIENCE_SECONDS, eventually

SOURCE, TARGET = "primary", "backup"
CONNECTORS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
TOPIC, GROUP = "orders.v1", "billing"
RECORDS = 300
_SETTLED = (  # each appears when its part of the flow has worked once
    'mirrorsourceconnector_replication_latency_ms_max{partition="1"',
    "mirrorcheckpointconnector_checkpoint_latency_ms{",
    "kafka_consumer_fetch_manager_records_lag{",
    "kafka_connect_connector_task_offset_commit_avg_time_ms{",
)


def connector_configs(clusters: Mapping[str, Cluster]) -> dict[str, dict[str, str]]:
    """The three connectors of a flow, by the names that Strimzi gives them."""
    common = {
        "source.cluster.alias": SOURCE,
        "target.cluster.alias": TARGET,
        "source.cluster.bootstrap.servers": clusters[SOURCE].bootstrap_servers,
        "target.cluster.bootstrap.servers": clusters[TARGET].bootstrap_servers,
        "topics": "orders.*",
        "groups": GROUP,
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
    }
    return {
        f"{SOURCE}->{TARGET}.{kind}": {
            "connector.class": f"org.apache.kafka.connect.mirror.{kind}",
            **common,
        }
        for kind in CONNECTORS
    }


def make_traffic(source: Cluster) -> None:
    """A topic with two partitions, and a group that has processed some of it."""
    create_topics(source, {TOPIC: 2})
    produce(source, TOPIC, numbered(RECORDS, 2))
    commit(source, GROUP, TOPIC, {0: 50, 1: 50})


@contextmanager
def java_flow(clusters: Mapping[str, Cluster], scratch: Path) -> Iterator[JmxExporter]:
    """Run the flow; every part of it has reported."""
    exporter = JmxExporter(scratch)
    try:
        with JavaConnect(
            clusters[TARGET], scratch, ConnectTopics("java-metrics"), exporter.options
        ) as java:
            for name, config in connector_configs(clusters).items():
                java.create(name, config)

            def settled() -> bool:
                text = exporter.scrape()
                missing = [one for one in _SETTLED if one not in text]
                assert not missing, missing
                return True

            eventually(settled, 2 * PATIENCE_SECONDS, "every metric is there")
            yield exporter
    finally:
        exporter.close()
