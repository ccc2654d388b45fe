# SPDX-License-Identifier: Apache-2.0
"""One life of a connector: from its internal topics to the moment when nothing of it is at work.

What a herder is for a pair of clusters, for one connector of any of the three classes. Everything
may be called from any thread and returns at once, save `join`.
"""

from __future__ import annotations

import logging
import threading
import traceback
from typing import TYPE_CHECKING

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.builders import SparkProvider, build_heartbeat, build_source
from sparkmirror.connectors.checkpoint_connector import MirrorCheckpointConnector
from sparkmirror.connectors.connector_states import (
    ConnectorState,
    checkpoint_state,
    heartbeat_state,
    source_state,
)
from sparkmirror.connectors.internal_topic_setup import InternalTopicSetup
from sparkmirror.errors import ClusterError
from sparkmirror.policy.loading import load_policy
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.topology.internal_topics import connector_topics
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkmirror.connectors.heartbeat_connector import MirrorHeartbeatConnector
    from sparkmirror.connectors.source_connector import MirrorSourceConnector

_log = logging.getLogger(__name__)


class ConnectorInstance:
    """A connector between `start` and `is_over`; it does not begin a second time."""

    def __init__(
        self,
        kind: ConnectorClass,
        settings: FlowSettings,
        factors: ReplicationFactorChooser,
        status: FlowStatus,
        engine: Callable[[], SparkProvider],
        splits: Callable[[], int],
    ) -> None:
        self._kind = kind
        self._settings = settings
        self._status = status
        policy = load_policy(settings.policy, settings.flow)
        self._policy = policy.replication
        self._topics = connector_topics(kind, settings, policy.replication)
        self._stop = threading.Event()
        self._topic_setup = InternalTopicSetup(factors, status, self._stop)
        self.source: MirrorSourceConnector | None = None
        self._checkpoint: MirrorCheckpointConnector | None = None
        self._heartbeat: MirrorHeartbeatConnector | None = None
        if kind is ConnectorClass.HEARTBEAT:
            self._heartbeat = build_heartbeat(settings, policy)
        elif settings.enabled and kind is ConnectorClass.CHECKPOINT:
            self._checkpoint = MirrorCheckpointConnector(settings, policy, status)
        elif settings.enabled:
            self.source = build_source(settings, policy, factors, status, engine(), splits=splits)
        self._thread = threading.Thread(target=self._run, name=f"{status.name}/start", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end, in order: what was read is copied and positions are written."""
        self._stop.set()
        for part in (self.source, self._checkpoint, self._heartbeat):
            if part is not None:
                part.stop()

    def join(self, seconds: float) -> bool:
        """Wait for the end; whether it came in time."""
        self._thread.join(seconds)
        if self.source is not None and self.source.is_copying:
            return self.source.join(seconds)
        if self._heartbeat is not None:
            self._heartbeat.join(seconds)
        return True

    @property
    def may_write(self) -> bool:
        """Whether it may still write records, checkpoints or heartbeats."""
        small = any(part and part.is_running for part in (self._checkpoint, self._heartbeat))
        return small or (self.source is not None and self.source.is_copying)

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it is at work any more, nor ever will be."""
        parts = (self.source, self._checkpoint, self._heartbeat)
        is_at_work = self._thread.is_alive() or any(part and part.is_running for part in parts)
        return self._stop.is_set() and not is_at_work

    def state(self) -> ConnectorState:
        """What it and its tasks do now."""
        now = self._status.snapshot()
        if self._kind is ConnectorClass.SOURCE:
            return source_state(now, self._status.tasks(), self._remote_name)
        if self._kind is ConnectorClass.HEARTBEAT:
            beats = self._heartbeat.status if self._heartbeat else None
            return heartbeat_state(now, beats, self._policy.heartbeats_topic())
        one = self._checkpoint
        has_emitted = one is not None and one.has_emitted
        emitted = (self._policy.checkpoints_topic(self._settings.flow.source),)
        return checkpoint_state(
            now,
            failure=one.failure if one else "",
            refusals=one.permanent_errors if one else (),
            has_task=one is not None,
            topics=emitted if has_emitted else (),
        )

    @property
    def consumer_groups(self) -> tuple[str, ...]:
        """The consumer groups that a checkpoint connector looks after; none before it knows."""
        return () if self._checkpoint is None else self._checkpoint.groups

    def _remote_name(self, topic: str) -> str:
        return self._policy.format_remote_topic(self._settings.flow.source, topic)

    # --- its first thread

    def _run(self) -> None:
        try:
            self._start_parts()
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception("%s: the connector failed to start", self._status.name)
            reason = f"{type(error).__name__}: {error}"
            self._status.set_state(FlowState.FAILED, reason, traceback.format_exc())

    def _start_parts(self) -> None:
        if not self._topic_setup.ensure(self._settings, self._topics, self._on_cluster_error):
            return
        if self.source is not None:
            self.source.start(self._topic_setup.usable_topics)
            return
        for part in (self._checkpoint, self._heartbeat):
            if part is not None:
                part.start()
        self._status.set_state(FlowState.RUNNING)

    def _on_cluster_error(self, error: ClusterError) -> None:
        state = FlowState.RETRYING if error.retriable else FlowState.FAILED
        self._status.set_state(state, str(error))
