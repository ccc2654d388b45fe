# SPDX-License-Identifier: Apache-2.0
"""How connectors are put together, the same for pairs of a file and for connectors of a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.foreign_writers import ForeignWriters
from sparkmirror.connectors.heartbeat_connector import MirrorHeartbeatConnector
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.source_connector import MirrorSourceConnector
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.spark.control_server import ControlServer
from sparkmirror.spark.epoch_runner import EpochRunner
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.task.messages import Progress
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkProvider(Protocol):
    """The Spark that copies."""

    @property
    def control_server(self) -> ControlServer:
        """Where tasks report."""

    def context(self) -> SparkContext:
        """Spark itself; waits until it runs."""


def build_source(
    settings: FlowSettings,
    policy: FlowPolicy,
    factors: ReplicationFactorChooser,
    status: FlowStatus,
    engine: SparkProvider,
    *,
    splits: Callable[[], int],
    once: bool = False,
) -> MirrorSourceConnector:
    """A connector that copies; `splits` says how many tasks it may have at present."""
    on_demand_topics = OnDemandTopics(settings, policy.replication, factors, status)
    foreign_writers = ForeignWriters(settings, status)

    def progressed(progress: Progress) -> None:
        status.on_progress(progress)
        on_demand_topics.request(progress.missing_topics)
        foreign_writers.report(progress.other_writers)

    epochs = EpochRunner(
        status.name, engine.context, engine.control_server, progressed, before=status.epoch
    )
    return MirrorSourceConnector(
        settings, policy, factors, status, epochs, on_demand_topics, splits=splits, once=once
    )


def build_heartbeat(settings: FlowSettings, policy: FlowPolicy) -> MirrorHeartbeatConnector | None:
    """A connector that emits heartbeats; None if it has none to emit."""
    interval = settings.heartbeat.interval_seconds
    if interval is None:
        return None
    return MirrorHeartbeatConnector(
        settings.flow,
        settings.producer,
        topic=policy.replication.heartbeats_topic(),
        interval_seconds=interval,
    )
