# SPDX-License-Identifier: Apache-2.0
"""Runs one connector once, on one thread: ensures its internal topics, then runs it.

The thread passes three phases under the instance's lock: SETUP, RUNNING, ENDED. It enters RUNNING
only if nobody has asked for the end, so an instance that is stopped in SETUP never writes anything,
even if it still waits for an unreachable cluster.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Container, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.checkpoint_connector import MirrorCheckpointConnector
from sparkmirror.connectors.connector_states import (
    ConnectorState,
    checkpoint_state,
    heartbeat_state,
    source_state,
)
from sparkmirror.connectors.desired_state import ConnectorSpec
from sparkmirror.connectors.foreign_writers import ForeignWriters
from sparkmirror.connectors.heartbeat_connector import MirrorHeartbeatConnector
from sparkmirror.connectors.internal_topic_setup import InternalTopicSetup
from sparkmirror.connectors.loop_protection import LoopProtection
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.source_connector import MirrorSourceConnector
from sparkmirror.errors import ClusterError, SparkmirrorError
from sparkmirror.policy.loading import FlowPolicy, load_policy
from sparkmirror.spark.control_server import ControlServer
from sparkmirror.spark.epoch_runner import EpochRunner
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.spark.slots import FlowCapacity
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.task.messages import Progress
from sparkmirror.topology.internal_topics import connector_topics, internal_topics
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

if TYPE_CHECKING:
    from pyspark import SparkContext

_THREADS = {
    ConnectorClass.SOURCE: "source/copy",
    ConnectorClass.CHECKPOINT: "checkpoint",
    ConnectorClass.HEARTBEAT: "heartbeat",
}
_log = logging.getLogger(__name__)


class SparkProvider(Protocol):
    """The Spark that copies."""

    @property
    def control_server(self) -> ControlServer:
        """Where tasks report."""

    def context(self) -> SparkContext:
        """Wait until Spark runs."""

    def capacity(self, flow: str) -> FlowCapacity:
        """What a label may use now; blocks until Spark runs, or has a problem."""


class Connector(Protocol):
    """One of the three connector classes."""

    def run(self, ready_topics: Container[str]) -> None:
        """Run until the end; `ready_topics` are the internal topics that can be used."""

    def stop(self) -> None:
        """Ask for the end. Any thread; returns at once."""

    @property
    def is_running(self) -> bool:
        """Whether a helper thread may still change topics or ACLs."""


class _Phase(Enum):
    SETUP = "setup"
    RUNNING = "running"
    ENDED = "ended"


class ConnectorInstance:
    """One run of a connector. Thread-safe; nothing waits."""

    def __init__(
        self,
        spec: ConnectorSpec,
        status: FlowStatus,
        factors: ReplicationFactorChooser,
        spark: SparkProvider,
        configured_flows: Callable[[], Sequence[FlowSettings]] = tuple,
    ) -> None:
        """`configured_flows` are all flows of the file, or of the Connect cluster.

        ConfigError, or whatever a class of the user's raises.
        """
        settings = spec.settings
        self._spec = spec
        self._status = status
        policy = load_policy(settings.policy, settings.flow)
        self._policy = policy.replication
        self._topics = (
            internal_topics(settings, policy.replication)
            if spec.with_storage_topics
            else connector_topics(spec.kind, settings, policy.replication)
        )
        self._lock = threading.Lock()
        self._phase = _Phase.SETUP
        self._stop = threading.Event()
        self._topic_setup = InternalTopicSetup(factors, status, self._stop)
        self._source: MirrorSourceConnector | None = None
        self._checkpoint: MirrorCheckpointConnector | None = None
        self._heartbeat: MirrorHeartbeatConnector | None = None
        if spec.kind is ConnectorClass.HEARTBEAT:
            self._heartbeat = _build_heartbeat(settings, policy, status)
        elif settings.enabled and spec.kind is ConnectorClass.CHECKPOINT:
            self._checkpoint = MirrorCheckpointConnector(settings, policy, status)
        elif settings.enabled:
            self._source = _build_source(spec, policy, factors, status, spark, configured_flows)
        # None: heartbeats without an interval, or a disabled flow
        self._connector: Connector | None = self._source or self._checkpoint or self._heartbeat
        self._thread = ScopedThread(
            target=self._run, name=f"{settings.flow}/{_THREADS[spec.kind]}", daemon=True
        )

    def start(self) -> None:
        """Start its thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end, in order: what was read is copied and positions are written."""
        with self._lock:
            self._stop.set()
        if self._connector is not None:
            self._connector.stop()

    def replan(self) -> bool:
        """Restart the tasks of a source; False: it has none apart from itself."""
        if self._source is None or not self._thread.is_alive() or not self.state().tasks:
            return False
        self._source.replan()
        return True

    @property
    def may_write(self) -> bool:
        """Whether it may still write records, checkpoints or heartbeats."""
        with self._lock:
            may_begin = self._phase is _Phase.SETUP and not self._stop.is_set()
            return may_begin or self._phase is _Phase.RUNNING

    @property
    def is_finished(self) -> bool:
        """Whether it was stopped and nothing of it is at work any more, nor ever will be."""
        has_helpers = self._connector is not None and self._connector.is_running
        return self._stop.is_set() and not self._thread.is_alive() and not has_helpers

    def state(self) -> ConnectorState:
        """What it and its tasks do now."""
        now = self._status.snapshot()
        if self._spec.kind is ConnectorClass.SOURCE:
            return source_state(now, self._status.tasks(), self._remote_name)
        if self._spec.kind is ConnectorClass.HEARTBEAT:
            heartbeats = self._heartbeat.status if self._heartbeat else None
            return heartbeat_state(now, heartbeats, self._policy.heartbeats_topic())
        one = self._checkpoint
        has_emitted = one is not None and one.has_emitted
        emitted = (self._policy.checkpoints_topic(self._spec.settings.flow.source),)
        return checkpoint_state(
            now,
            failure=one.failure if one else "",
            refusals=one.permanent_errors if one else (),
            has_task=one is not None,
            topics=emitted if has_emitted else (),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """The consumer groups of a checkpoint connector; none before they are known."""
        return () if self._checkpoint is None else self._checkpoint.groups

    @property
    def group_positions(self) -> Mapping[str, int]:
        """The positions of these groups by state."""
        return {} if self._checkpoint is None else self._checkpoint.position_counts

    @property
    def heartbeat_error(self) -> str:
        """Why heartbeats do not arrive; empty if they do."""
        return (self._heartbeat.status.error or "") if self._heartbeat is not None else ""

    def _remote_name(self, topic: str) -> str:
        return self._policy.format_remote_topic(self._spec.settings.flow.source, topic)

    # --- its thread

    def _run(self) -> None:
        try:
            self._run_connector()
        except SparkmirrorError as error:
            self._status.set_state(FlowState.FAILED, str(error), traceback.format_exc())
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception(
                "%s: %s failed unexpectedly; restart it and report the trace",
                self._status.name,
                self._spec.kind.value,
            )
            reason = f"{type(error).__name__}: {error}"
            self._status.set_state(FlowState.FAILED, reason, traceback.format_exc())
        finally:
            with self._lock:
                self._phase = _Phase.ENDED

    def _run_connector(self) -> None:
        settings = self._spec.settings
        if not self._topic_setup.ensure(settings, self._topics, self._on_cluster_error):
            return
        with self._lock:
            if self._stop.is_set():
                return
            self._phase = _Phase.RUNNING
        if self._source is None:  # a source reports its state
            self._status.set_state(FlowState.RUNNING)
        if self._connector is not None:
            self._connector.run(self._topic_setup.usable_topics)

    def _on_cluster_error(self, error: ClusterError) -> None:
        state = FlowState.RETRYING if error.retriable else FlowState.FAILED
        self._status.set_state(state, str(error))


def _build_source(
    spec: ConnectorSpec,
    policy: FlowPolicy,
    factors: ReplicationFactorChooser,
    status: FlowStatus,
    spark: SparkProvider,
    configured_flows: Callable[[], Sequence[FlowSettings]],
) -> MirrorSourceConnector:
    settings = spec.settings
    on_demand_topics = OnDemandTopics(settings, policy.replication, factors, status)
    loops = LoopProtection(settings, factors, status, configured_flows)
    foreign_writers = ForeignWriters(settings, status, loops)

    def on_progress(progress: Progress) -> None:
        status.on_progress(progress)
        on_demand_topics.request(progress.missing_topics)
        foreign_writers.report(progress.other_writers)

    epochs = EpochRunner(
        status.name,
        spark.context,
        spark.control_server,
        on_progress,
        on_waiting=status.set_waiting_splits,
        before=status.epoch,
    )
    connector = MirrorSourceConnector(
        settings,
        policy,
        factors,
        status,
        epochs,
        on_demand_topics,
        loops,
        capacity=lambda: spark.capacity(spec.label),
        once=spec.is_bounded,
    )
    loops.on_change = connector.end_epoch
    return connector


def _build_heartbeat(
    settings: FlowSettings, policy: FlowPolicy, status: FlowStatus
) -> MirrorHeartbeatConnector | None:
    interval = settings.heartbeat.interval_seconds
    if interval is None:
        return None
    return MirrorHeartbeatConnector(
        settings.flow,
        settings.producer,
        topic=policy.replication.heartbeats_topic(),
        interval_seconds=interval,
        on_written=status.mark_success,
    )
