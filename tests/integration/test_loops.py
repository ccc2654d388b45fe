# SPDX-License-Identifier: Apache-2.0
"""Topics that keep their names between clusters: every record arrives once, and none returns.

That nothing is copied again is shown by markers: a flow reads a partition in order, so when a later
record of a cluster has arrived on the others, everything before it was copied or skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import (
    Record,
    create_topics,
    end_offsets,
    produce,
    read_topic,
)
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
COMMON = (
    IDENTITY,
    "emit.heartbeats.enabled = false",
    "emit.checkpoints.enabled = false",
    "sync.topic.acls.enabled = false",
    "sync.topic.configs.enabled = false",
    "refresh.topics.interval.seconds = 1",
)
PARTITIONS = 2
_numbers = count()


def values(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    """Count each record of a topic."""
    found = read_topic(cluster, topic)
    return Counter(one.value or b"" for records in found.values() for one in records)


def write(cluster: LocalCluster, topic: str, records: int) -> set[bytes]:
    """Produce records with unique values to every partition in turn."""
    made = [b"%d" % next(_numbers) for _ in range(records)]
    produce(
        cluster,
        topic,
        [(at % PARTITIONS, Record(b"key", value)) for at, value in enumerate(made)],
    )
    return set(made)


def await_everywhere(clusters: Sequence[LocalCluster], topic: str, expected: set[bytes]) -> None:
    """Wait until every cluster has these records, and then check that it has each once."""
    for cluster in clusters:
        eventually(
            lambda cluster=cluster: expected <= values(cluster, topic).keys(),
            PATIENCE_SECONDS,
            f"{cluster.name} has all records",
        )


def prove_no_loop(clusters: Sequence[LocalCluster], topic: str, expected: set[bytes]) -> None:
    """Send markers round twice; the second ones show that the copies of the first stay."""
    for _ in range(2):
        for cluster in clusters:
            expected |= write(cluster, topic, PARTITIONS)
        await_everywhere(clusters, topic, expected)
    for cluster in clusters:
        assert values(cluster, topic) == Counter(expected), f"{cluster.name} has copies of copies"


@pytest.mark.parametrize("delivery", ["default", "exactly-once"])
def test_two_clusters_copy_to_each_other_and_nothing_returns(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, delivery: str
) -> None:
    """200 records stay 200 on both sides."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("invoices")
    create_topics(source_cluster, {topic: PARTITIONS})
    expected = write(source_cluster, topic, 200)
    support = "enabled" if delivery == "exactly-once" else "disabled"
    file = mirror_file(
        tmp_path,
        {east: source_cluster, west: target_cluster},
        f"{east}->{west}.enabled = true",
        f"{west}->{east}.enabled = true",
        f"exactly.once.source.support = {support}",
        f"topics = {topic}",
        *COMMON,
    )
    clusters = (source_cluster, target_cluster)
    with MirrorProcess(file) as mirror:
        await_everywhere(clusters, topic, expected)
        prove_no_loop(clusters, topic, expected)
        assert mirror.terminate()[0] == 0
    expected |= write(target_cluster, topic, 10)
    with MirrorProcess(file) as mirror:
        await_everywhere(clusters, topic, expected)
        prove_no_loop(clusters, topic, expected)
        assert mirror.terminate()[0] == 0
