# SPDX-License-Identifier: Apache-2.0
"""A pair's status tells about everything that runs for it."""

from __future__ import annotations

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.heartbeat_connector import HeartbeatState, HeartbeatStatus
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.runtime.herder import Herder
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

FLOW = Flow("a", "b")
FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
"""


def test_heartbeats_that_fail_are_a_trouble_until_they_arrive_again() -> None:
    """Also on a pair that does nothing but heartbeats."""
    settings = MirrorConfig.parse(FILE).flow_settings(FLOW)
    policy = load_policy(settings.policy, FLOW)
    herder = Herder(settings, policy, ReplicationFactorChooser(), FlowStatus(str(FLOW)), None)
    assert herder.heartbeat is not None

    herder.heartbeat._status = HeartbeatStatus(HeartbeatState.RETRYING, error="nobody answers")
    assert herder.snapshot().problems == ("heartbeats: nobody answers",)

    herder.heartbeat._status = HeartbeatStatus(HeartbeatState.RUNNING, count=1)
    assert herder.snapshot().problems == ()
