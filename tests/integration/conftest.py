# SPDX-License-Identifier: Apache-2.0
"""What integration tests share beside the clusters; they keep apart by unique topic names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.wire.settings import ConnectionSettings
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS


@pytest.fixture
def unique_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """A function from a prefix to a topic name that no other test uses."""
    return lambda prefix="topic": unique_name(f"{prefix}-{request.node.originalname[:40]}")


@pytest.fixture
def connection(cluster: LocalCluster) -> ConnectionSettings:
    """How to reach the broker that a module calls `cluster`, under load, too."""
    return ConnectionSettings(
        "b",
        (cluster.bootstrap_servers,),
        "control-plane-test",
        connect_timeout_seconds=PATIENCE_SECONDS,
    )


@pytest.fixture
def admin(connection: ConnectionSettings) -> Iterator[ClusterAdmin]:
    """An admin client connected to that broker."""
    with ClusterAdmin(connection) as opened:
        yield opened


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest, kafka_version: str) -> str:
    """The classic rebalance protocol, and that of KIP-848."""
    if request.param == "consumer" and kafka_version.startswith("3."):
        pytest.skip("brokers before 4.0 do not speak KIP-848 unless told to")
    return str(request.param)
