# SPDX-License-Identifier: Apache-2.0
"""A pair of clusters and the connectors that run for it, as MM2 keeps a herder per pair.

Makes sure of the internal topics first, then starts heartbeats (on every pair) and the source and
checkpoint connectors (on enabled ones). A cluster out of reach keeps only its own pairs waiting.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.checkpoint import MirrorCheckpointConnector
from sparkmirror.connectors.heartbeat import MirrorHeartbeatConnector
from sparkmirror.connectors.source import MirrorSourceConnector
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.pipeline.status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.policy.own_topics import offset_map_topic
from sparkmirror.topology.factors import ReplicationFactors
from sparkmirror.topology.internal_topics import (
    InternalTopic,
    Side,
    ensure_internal_topics,
    internal_topics,
    offset_syncs_topic,
)
from sparkmirror.wire.backoff import Backoff

_HEARTBEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.5
_CHANGE = "new settings"
_log = logging.getLogger(__name__)


class Herder:
    """One pair; `source` is None for a pair that only emits heartbeats."""

    def __init__(
        self,
        settings: FlowSettings,
        policy: FlowPolicy,
        factors: ReplicationFactors,
        status: FlowStatus,
        source: MirrorSourceConnector | None,
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._factors = factors
        self.status = status
        self.source = source
        self._names = policy.replication
        self._topics = internal_topics(settings, policy.replication)
        self._there: set[str] = set()  # internal topics that can be used
        self._said: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{self._flow}/herder", daemon=True)
        self._heartbeat = _heartbeat(settings, policy)
        self.checkpoint = (
            MirrorCheckpointConnector(settings, policy, status) if settings.enabled else None
        )
        self._has_started = False

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask every connector of the pair to end."""
        self._stop.set()
        if self.source is not None:
            self.source.stop()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self.checkpoint is not None:
            self.checkpoint.stop()

    def join(self, seconds: float) -> bool:
        """Wait for the source connector; whether it ended in time."""
        self._thread.join(seconds)
        if self._heartbeat is not None and self._has_started:
            self._heartbeat.join(min(seconds, _HEARTBEAT_SECONDS))
        if self.source is None or not self._has_started:
            return True
        return self.source.join(seconds)

    @property
    def is_over(self) -> bool:
        """Whether a herder that was asked to stop copies nothing any more and never will.

        What is left of it may still wait for an answer; it writes no record, position or right.
        """
        parts = (self.source, self.checkpoint)
        return self._stop.is_set() and not any(one and one.is_at_work for one in parts)

    @property
    def is_settled(self) -> bool:
        """Whether everything has started and nothing is being changed."""
        return self._has_started and not self._thread.is_alive()

    def change(
        self, settings: FlowSettings, policy: FlowPolicy, *, heartbeats: bool, checkpoints: bool
    ) -> None:
        """Restart the small connectors with other settings, once settled; the copying goes on."""
        self._settings = settings
        self._topics = internal_topics(settings, policy.replication)
        old: list[MirrorHeartbeatConnector | MirrorCheckpointConnector] = []
        new: list[MirrorHeartbeatConnector | MirrorCheckpointConnector] = []
        if heartbeats:
            old += [self._heartbeat] if self._heartbeat else []
            self._heartbeat = _heartbeat(settings, policy)
            new += [self._heartbeat] if self._heartbeat else []
        if checkpoints:
            old += [self.checkpoint] if self.checkpoint else []
            self.checkpoint = MirrorCheckpointConnector(settings, policy, self.status)
            new.append(self.checkpoint)
        for one in old:
            one.stop()
        self._thread = threading.Thread(
            target=self._change, args=(old, new), name=f"{self._flow}/herder", daemon=True
        )
        self._thread.start()

    def snapshot(self) -> FlowSnapshot:
        """The pair as it stands now; heartbeats that fail are a trouble like any other."""
        now = self.status.snapshot()
        if self.checkpoint is not None:
            now = replace(now, group_positions=self.checkpoint.counts)
        error = self._heartbeat.status.error if self._heartbeat is not None else None
        return replace(now, troubles=(*now.troubles, f"heartbeats: {error}")) if error else now

    def _run(self) -> None:
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception("%s: the pair failed to start", self._flow)
            self.status.enter(FlowState.FAILED, f"{type(error).__name__}: {error}")

    def _change(
        self,
        old: Sequence[MirrorHeartbeatConnector | MirrorCheckpointConnector],
        new: Sequence[MirrorHeartbeatConnector | MirrorCheckpointConnector],
    ) -> None:
        for one in old:
            while not one.join(_LOOK_SECONDS):
                if self._stop.is_set():
                    return
            if isinstance(one, MirrorCheckpointConnector):
                one.forget()
        try:
            ready = self._ensured(lambda error: self.status.note(_CHANGE, str(error)))
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception("%s: the new settings failed", self._flow)
            self.status.note(_CHANGE, f"{type(error).__name__}: {error}")
            return
        self.status.note(_CHANGE, "")
        for fresh in new if ready else ():
            fresh.start()

    def _ensured(self, failed: Callable[[ClusterError], None]) -> bool:
        """Make sure of the internal topics, however long it takes; False: stopped meanwhile."""
        backoff = Backoff()
        while not self._stop.is_set():
            try:
                self._ensure(Side.TARGET)
                self._ensure(Side.SOURCE)
            except ClusterError as error:
                failed(error)
                self._stop.wait(backoff.next_pause())
                continue
            return not self._stop.is_set()
        return False

    def _failed(self, error: ClusterError) -> None:
        state = FlowState.RETRYING if error.retriable else FlowState.FAILED
        self.status.enter(state, str(error))

    def _begin(self) -> None:
        if not self._ensured(self._failed):
            return
        self._has_started = True
        if self.source is not None:
            self._name_topics(self.source)
        if self._heartbeat is not None:
            self._heartbeat.start()
        if self.checkpoint is not None:
            self.checkpoint.start()
        if self.source is not None:
            self.source.start()
        else:
            self.status.enter(FlowState.RUNNING, "heartbeats only")

    def _name_topics(self, source: MirrorSourceConnector) -> None:
        """Tasks wait for the topics they are to write: only those that are there are named."""
        map_topic = offset_map_topic(self._names, self._flow.source)
        syncs_topic = offset_syncs_topic(self._settings, self._names)
        source.map_topic = map_topic if map_topic in self._there else ""
        source.syncs_topic = syncs_topic if syncs_topic in self._there else ""

    def _ensure(self, side: Side) -> None:
        wanted: list[InternalTopic] = [topic for topic in self._topics if topic.side is side]
        if not wanted:
            return
        connection = (
            self._settings.target_admin if side is Side.TARGET else self._settings.source_admin
        )
        with ClusterAdmin(connection) as admin:
            ensured = ensure_internal_topics(
                wanted,
                admin,
                self._factors,
                creates=self._settings.source.topic_creation_enabled,
            )
        fatal: list[ClusterError] = []
        for one in ensured:
            name = one.topic.name
            if one.error is None:
                self._there.add(name)
            elif one.topic.storage_key is not None:
                fatal.append(one.error)
            else:
                self.status.note(f"topic {name}", str(one.error))
                self._warn_once(str(one.error))
        if fatal:  # positions have nowhere to go
            error = ClusterError(" ".join(map(str, fatal)), cluster=connection.alias)
            error.retriable = any(one.retriable for one in fatal)
            raise fatal[0] if len(fatal) == 1 else error

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            _log.warning("%s: %s", self._flow, sentence)


def _heartbeat(settings: FlowSettings, policy: FlowPolicy) -> MirrorHeartbeatConnector | None:
    interval = settings.heartbeat.interval_seconds
    if interval is None:
        return None
    return MirrorHeartbeatConnector(
        settings.flow,
        settings.producer,
        topic=policy.replication.heartbeats_topic(),
        interval_seconds=interval,
    )
