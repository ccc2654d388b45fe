# SPDX-License-Identifier: Apache-2.0
"""A pair of clusters and the connectors that run for it, as MM2 keeps a herder per pair.

Makes sure of the internal topics first, then starts heartbeats (on every pair) and the source and
checkpoint connectors (on enabled ones). A cluster out of reach keeps only its own pairs waiting.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.checkpoint_connector import MirrorCheckpointConnector
from sparkmirror.connectors.connector_instance import Connector, build_heartbeat
from sparkmirror.connectors.heartbeat_connector import MirrorHeartbeatConnector
from sparkmirror.connectors.internal_topic_setup import InternalTopicSetup
from sparkmirror.connectors.source_connector import MirrorSourceConnector
from sparkmirror.errors import ClusterError, SparkmirrorError
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.runtime.commands import TargetStates
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.topology.internal_topics import internal_topics
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

_HEARTBEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.5
_CHANGE = "new settings"
_log = logging.getLogger(__name__)


class Herder:
    """One pair; `source` is None for a pair that only emits heartbeats, or whose copying rests.

    `target_states` names the connectors that rest.
    """

    def __init__(
        self,
        settings: FlowSettings,
        policy: FlowPolicy,
        factors: ReplicationFactorChooser,
        status: FlowStatus,
        source: MirrorSourceConnector | None,
        target_states: TargetStates = MappingProxyType({}),
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self.status = status
        self.source = source
        self._topics = internal_topics(settings, policy.replication)
        self._stop = threading.Event()
        self._topic_setup = InternalTopicSetup(factors, status, self._stop)
        self._thread = threading.Thread(target=self._run, name=f"{self._flow}/herder", daemon=True)
        self.heartbeat: MirrorHeartbeatConnector | None = None
        if ConnectorClass.HEARTBEAT not in target_states:
            self.heartbeat = build_heartbeat(settings, policy)
        self.checkpoint: MirrorCheckpointConnector | None = None
        if settings.enabled and ConnectorClass.CHECKPOINT not in target_states:
            self.checkpoint = MirrorCheckpointConnector(settings, policy, status)
        self._target_states = target_states
        self._threads: dict[Connector, threading.Thread] = {}
        self.has_started = False

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask every connector of the pair to end."""
        self._stop.set()
        if self.source is not None:
            self.source.stop()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        if self.checkpoint is not None:
            self.checkpoint.stop()

    def join(self, seconds: float) -> bool:
        """Wait for the source connector; whether it ended in time."""
        deadline = time.monotonic() + seconds
        self._thread.join(seconds)
        if self.heartbeat is not None and self.has_started:
            self._join(self.heartbeat, min(_left(deadline), _HEARTBEAT_SECONDS))
        if self.source is None or not self.has_started:
            return True
        return self._join(self.source, _left(deadline))

    def is_alive(self, connector: Connector) -> bool:
        """Whether a connector may write records, checkpoints or heartbeats."""
        thread = self._threads.get(connector)
        return thread is not None and thread.is_alive()

    def _join(self, connector: Connector, seconds: float) -> bool:
        thread = self._threads.get(connector)
        if thread is not None:
            thread.join(seconds)
        return not self.is_alive(connector)

    def _is_running(self, connector: Connector | None) -> bool:
        if connector is None:
            return False
        return self.is_alive(connector) or connector.is_running

    def _start_connector(self, connector: Connector, role: str) -> None:
        thread = threading.Thread(
            target=self._run_connector,
            args=(connector,),
            name=f"{self._flow}/{role}",
            daemon=True,
        )
        self._threads[connector] = thread
        thread.start()

    def _run_connector(self, connector: Connector) -> None:
        try:
            connector.run(self._topic_setup.usable_topics)
        except SparkmirrorError as error:
            self.status.set_state(FlowState.FAILED, str(error), traceback.format_exc())
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception("%s: a connector failed", self._flow)
            reason = f"{type(error).__name__}: {error}"
            self.status.set_state(FlowState.FAILED, reason, traceback.format_exc())

    @property
    def is_finished(self) -> bool:
        """Whether a herder that was asked to stop copies nothing any more and never will.

        What is left of it may still wait for an answer; it writes no record, position or right.
        """
        parts = (self.source, self.checkpoint)
        return self._stop.is_set() and not any(map(self._is_running, parts))

    @property
    def is_idle(self) -> bool:
        """Whether it is over and no heartbeat or internal topic is on its way either."""
        is_starting = self._thread.is_alive()
        return self.is_finished and not is_starting and not self._is_running(self.heartbeat)

    @property
    def is_settled(self) -> bool:
        """Whether everything has started and nothing is being changed."""
        return self.has_started and not self._thread.is_alive()

    def restart_connectors(
        self,
        settings: FlowSettings,
        policy: FlowPolicy,
        *,
        heartbeats: bool,
        checkpoints: bool,
        target_states: TargetStates = MappingProxyType({}),
    ) -> None:
        """Restart the small connectors with other settings, once settled; the copying goes on."""
        self._settings = settings
        self._target_states = target_states
        self._topics = internal_topics(settings, policy.replication)
        old: list[MirrorHeartbeatConnector | MirrorCheckpointConnector] = []
        new: list[MirrorHeartbeatConnector | MirrorCheckpointConnector] = []
        if heartbeats:
            old += [self.heartbeat] if self.heartbeat else []
            rests = ConnectorClass.HEARTBEAT in target_states
            self.heartbeat = None if rests else build_heartbeat(settings, policy)
            new += [self.heartbeat] if self.heartbeat else []
        if checkpoints:
            old += [self.checkpoint] if self.checkpoint else []
            self.checkpoint = None
            if ConnectorClass.CHECKPOINT not in target_states:
                self.checkpoint = MirrorCheckpointConnector(settings, policy, self.status)
                new.append(self.checkpoint)
        for one in old:
            one.stop()
        self._thread = threading.Thread(
            target=self._run_change, args=(old, new), name=f"{self._flow}/herder", daemon=True
        )
        self._thread.start()

    def snapshot(self) -> FlowSnapshot:
        """The pair as it stands now; heartbeats that fail are a trouble like any other."""
        now = self.status.snapshot()
        if self.checkpoint is not None:
            now = replace(now, group_positions=self.checkpoint.position_counts)
        error = self.heartbeat.status.error if self.heartbeat is not None else None
        return replace(now, problems=(*now.problems, f"heartbeats: {error}")) if error else now

    def _run(self) -> None:
        try:
            self._start_connectors()
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception("%s: the pair failed to start", self._flow)
            self.status.set_state(FlowState.FAILED, f"{type(error).__name__}: {error}")

    def _run_change(
        self,
        old: Sequence[MirrorHeartbeatConnector | MirrorCheckpointConnector],
        new: Sequence[MirrorHeartbeatConnector | MirrorCheckpointConnector],
    ) -> None:
        for one in old:
            while not self._join(one, _LOOK_SECONDS):
                if self._stop.is_set():
                    return
            if isinstance(one, MirrorCheckpointConnector):
                one.clear_status()
        try:
            ready = self._topic_setup.ensure(
                self._settings,
                self._topics,
                lambda error: self.status.set_problem(_CHANGE, str(error)),
            )
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception("%s: the new settings failed", self._flow)
            self.status.set_problem(_CHANGE, f"{type(error).__name__}: {error}")
            return
        self.status.set_problem(_CHANGE, "")
        for fresh in new if ready else ():
            is_checkpoint = isinstance(fresh, MirrorCheckpointConnector)
            self._start_connector(fresh, "checkpoint" if is_checkpoint else "heartbeat")
        if ready and self.source is None:
            self._report_state()

    def _failed(self, error: ClusterError) -> None:
        state = FlowState.RETRYING if error.retriable else FlowState.FAILED
        self.status.set_state(state, str(error))

    def _start_connectors(self) -> None:
        if not self._topic_setup.ensure(self._settings, self._topics, self._failed):
            return
        self.has_started = True
        if self.heartbeat is not None:
            self._start_connector(self.heartbeat, "heartbeat")
        if self.checkpoint is not None:
            self._start_connector(self.checkpoint, "checkpoint")
        if self.source is not None:
            self._start_connector(self.source, "source/copy")
        else:
            self._report_state()

    def _report_state(self) -> None:
        """Of a pair that copies nothing."""
        resting = [
            f"{kind.value} is {state.lower()}" for kind, state in self._target_states.items()
        ]
        if self._settings.enabled or self.heartbeat is None:
            self.status.set_state(FlowState.PAUSED, ", ".join(resting))
        else:
            self.status.set_state(FlowState.RUNNING, "heartbeats only")


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
