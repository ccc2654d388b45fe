# SPDX-License-Identifier: Apache-2.0
"""Two real clusters that all integration tests share; tests keep apart by unique topic names."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.local.cluster import LocalCluster, start_all
from support.memory_disk import keep_in_memory
from support.names import unique_name


@pytest.fixture(scope="session")
def shared_clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[dict[str, LocalCluster]]:
    """Clusters `source` and `target`, one broker each, started together once a session."""
    directory = tmp_path_factory.mktemp("clusters")
    clusters = {
        name: LocalCluster(name, directory / name, version=kafka_version)
        for name in ("source", "target")
    }
    folders = [folder for cluster in clusters.values() for folder in keep_in_memory(cluster)]
    try:
        start_all(clusters.values())
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.stop()
        # pytest keeps the directories of three sessions: the logs are worth it, not the data.
        on_disk = [b.data for c in clusters.values() for b in c.brokers if not b.data.is_symlink()]
        for folder in [*folders, *on_disk]:
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def source_cluster(shared_clusters: dict[str, LocalCluster]) -> LocalCluster:
    """The cluster that tests replicate from; nobody may stop or hurt it."""
    return shared_clusters["source"]


@pytest.fixture(scope="session")
def target_cluster(shared_clusters: dict[str, LocalCluster]) -> LocalCluster:
    """The cluster that tests replicate to; nobody may stop or hurt it."""
    return shared_clusters["target"]


@pytest.fixture
def unique_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """A function from a prefix to a topic name that no other test uses."""
    return lambda prefix="topic": unique_name(f"{prefix}-{request.node.originalname[:40]}")


@pytest.fixture
def connection(cluster: LocalCluster) -> ConnectionSettings:
    """How to reach the broker that a module calls `cluster`, impatiently."""
    return ConnectionSettings(
        "b", (cluster.bootstrap_servers,), "control-plane-test", connect_timeout_seconds=3.0
    )


@pytest.fixture
def admin(connection: ConnectionSettings) -> Iterator[ClusterAdmin]:
    """An admin client connected to that broker."""
    with ClusterAdmin(connection) as opened:
        yield opened
