# SPDX-License-Identifier: Apache-2.0
"""Consumer groups of a topic that two clusters copy to each other, synchronised in both ways."""

from __future__ import annotations

import re
from pathlib import Path

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.consumer_groups import commit, committed
from support.clients.librdkafka import Record, create_topics, produce, read_topic
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

ROUNDS, SIZE = 4, 5


def log_of(cluster: LocalCluster, topic: str) -> list[bytes]:
    """The values of the one partition; offsets have no gaps."""
    return [one.value or b"" for one in read_topic(cluster, topic)[0]]


def write(cluster: LocalCluster, topic: str, prefix: str) -> None:
    produce(
        cluster, topic, [(0, Record(b"key", b"%s-%d" % (prefix.encode(), n))) for n in range(SIZE)]
    )


def await_length(cluster: LocalCluster, topic: str, length: int) -> None:
    eventually(
        lambda: len(log_of(cluster, topic)) >= length,
        PATIENCE_SECONDS,
        f"{cluster.name} has {length} records",
    )


def test_groups_follow_in_both_directions_and_skip_nothing(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """A position on a copied record leads to the record; no sync moves a group past unread ones."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("orders")
    clusters = {east: source_cluster, west: target_cluster}
    groups = {alias: unique_name(f"group-of-{alias}") for alias in clusters}
    for cluster in clusters.values():
        create_topics(cluster, {topic: 1})
    file = mirror_file(
        tmp_path,
        clusters,
        f"{east}->{west}.enabled = true",
        f"{west}->{east}.enabled = true",
        f"topics = {topic}",
        f"groups = {', '.join(groups.values())}",
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "emit.heartbeats.enabled = false",
        "sync.group.offsets.enabled = true",
        "sync.group.offsets.interval.seconds = 1",
        "emit.checkpoints.interval.seconds = 1",
        "refresh.groups.interval.seconds = 1",
    )
    with MirrorProcess(file) as mirror:
        for number in range(ROUNDS):  # on both at once: the orders differ
            for alias, cluster in clusters.items():
                write(cluster, topic, f"{alias}-{number}")
            for cluster in clusters.values():
                await_length(cluster, topic, 2 * SIZE * (number + 1))
        logs = {alias: log_of(cluster, topic) for alias, cluster in clusters.items()}
        assert sorted(logs[east]) == sorted(logs[west])
        for here, there in ((east, west), (west, east)):
            group, size = groups[here], len(logs[here])
            copies = [at for at, value in enumerate(logs[here]) if value.startswith(there.encode())]
            for position in (copies[SIZE], copies[2 * SIZE + 1], size):
                commit(clusters[here], group, topic, {0: position})
                expected = size if position == size else logs[there].index(logs[here][position])
                eventually(
                    lambda group=group, there=there, expected=expected: (
                        committed(clusters[there], group, topic, 1) == {0: expected}
                    ),
                    PATIENCE_SECONDS,
                    f"{group} is at {expected} on {there}",
                )
                assert {*logs[there][:expected]} <= {*logs[here][:position]}
                assert committed(clusters[here], group, topic, 1) == {0: position}
        assert mirror.terminate()[0] == 0
        skipped = re.findall(r"copied, ([\d,]+) records of other flows skipped\n", mirror.log)
        assert len(skipped) == len(clusters)  # a task that is replaced counts some again
        assert all(int(one.replace(",", "")) >= ROUNDS * SIZE for one in skipped)
