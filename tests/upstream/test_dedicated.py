# SPDX-License-Identifier: Apache-2.0
"""MM2's own tests of its dedicated mode: one node, one direction, A to B."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import (
    await_copy,
    compare_topics,
    create_topics,
    numbered,
    produce,
    topics,
)
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS

RECORDS = 100


class Node:
    """One node that mirrors A to B and knows of nothing that goes back."""

    def __init__(self, source: LocalCluster, target: LocalCluster, directory: Path) -> None:
        self.source, self.target = source, target
        self.a, self.b = unique_name("A"), unique_name("B")
        self._topics = unique_name("test-topic")
        self._directory = directory

    def start(self, *lines: str) -> MirrorProcess:
        """The node, with further lines in its file."""
        file = mirror_file(
            self._directory,
            {self.a: self.source, self.b: self.target},
            f"{self.a}->{self.b}.enabled = true",
            f"{self.a}->{self.b}.topics = {self._topics}-.*",
            f"{self.b}->{self.a}.enabled = false",
            f"{self.b}->{self.a}.emit.heartbeats.enabled = false",
            "refresh.topics.interval.seconds = 1",
            "heartbeats.replication.enabled = false",
            *lines,
        )
        return MirrorProcess(file)

    def mirror_a_topic(self, mirror: MirrorProcess) -> None:
        """Make a topic while the node runs, and find it on B with its records."""
        mirror.await_log(f"{self.a}->{self.b}: RUNNING", PATIENCE_SECONDS)
        topic = f"{self._topics}-1"
        remote = f"{self.a}.{topic}"
        create_topics(self.source, {topic: 1})
        produce(self.source, topic, numbered(RECORDS))
        await_copy(self.source, topic, self.target, remote, PATIENCE_SECONDS)
        assert compare_topics(self.source, topic, self.target, remote) == RECORDS
        assert mirror.is_running

    def internal_topics(self, cluster: LocalCluster) -> set[str]:
        """What the node has made on a cluster for itself."""
        return {n for n in topics(cluster) if f".{self.a}." in n or f".{self.b}." in n}


@pytest.fixture
def node(source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path) -> Node:
    """A node that does not run yet."""
    return Node(source_cluster, target_cluster, tmp_path)


def test_single_node_cluster(node: Node) -> None:
    """The flow runs, a topic made later is mirrored; the way back does not exist at all."""
    with node.start() as mirror:
        node.mirror_a_topic(mirror)
        assert f"{node.b}->{node.a}" not in mirror.log
    assert f"mm2-offset-syncs.{node.b}.internal" in node.internal_topics(node.source)
    assert [name for name in node.internal_topics(node.source) if "offset-syncs" not in name] == []


def test_cluster_with_emit_offset_disabled(node: Node) -> None:
    """Without offset syncs records flow all the same, and neither side has a topic for them."""
    with node.start("emit.offset-syncs.enabled = false") as mirror:
        node.mirror_a_topic(mirror)
    assert node.internal_topics(node.source) == set()
    left = node.internal_topics(node.target) | (
        {f"{node.a}.checkpoints.internal"} & topics(node.target).keys()
    )
    assert f"mm2-offsets.{node.a}.internal" in left
    assert [name for name in left if "offset-syncs" in name or "checkpoints" in name] == []
