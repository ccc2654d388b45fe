# SPDX-License-Identifier: Apache-2.0
"""How connectors are put together, the same for pairs of a file and for connectors of a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.foreign_writers import ForeignWriters
from sparkmirror.connectors.heartbeat import MirrorHeartbeatConnector
from sparkmirror.connectors.side_topics import SideTopics
from sparkmirror.connectors.source import MirrorSourceConnector
from sparkmirror.pipeline.contract import Progress
from sparkmirror.pipeline.control_server import ControlServer
from sparkmirror.pipeline.epochs import Epochs
from sparkmirror.pipeline.status import FlowStatus
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.topology.factors import ReplicationFactors

if TYPE_CHECKING:
    from pyspark import SparkContext


class Engine(Protocol):
    """The Spark that copies."""

    @property
    def control(self) -> ControlServer:
        """Where tasks report."""

    def context(self) -> SparkContext:
        """Spark itself; waits until it runs."""


def build_source(
    settings: FlowSettings,
    policy: FlowPolicy,
    factors: ReplicationFactors,
    status: FlowStatus,
    engine: Engine,
    *,
    splits: Callable[[], int],
    once: bool = False,
) -> MirrorSourceConnector:
    """A connector that copies; `splits` says how many tasks it may have at present."""
    side_topics = SideTopics(settings, policy.replication, factors, status)
    foreign_writers = ForeignWriters(settings, status)

    def progressed(progress: Progress) -> None:
        status.progressed(progress)
        side_topics.need(progress.needs)
        foreign_writers.seen(progress.other_writers)

    epochs = Epochs(status.name, engine.context, engine.control, progressed, before=status.epoch)
    return MirrorSourceConnector(
        settings, policy, factors, status, epochs, side_topics, splits=splits, once=once
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
