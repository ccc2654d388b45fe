# SPDX-License-Identifier: Apache-2.0
"""Target states and restarts of a flow's connectors, in MM2's config topic on the target.

These are `target-state-` and `restart-connector-` records, as Connect's workers write them. They
outlive the process and reach the process that runs the flow; a Java MM2 reads them, too. Every
process with the file polls them about twice a second, on the thread `<flow>/commands`. A request
writes on its own thread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connect.group_state import ConfigTopic
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.formats.connect_config_records import RestartRequest, TargetState
from sparkmirror.kafka.cluster_client import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.wire.backoff import Backoff

TargetStates: TypeAlias = Mapping[ConnectorClass, TargetState]  # only those that are not STARTED

_POLL_SECONDS = 0.5  # a command that another process received is carried out within two seconds
_READ_SECONDS = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestartCommand:
    """A request to restart a connector with its tasks."""

    kind: ConnectorClass
    only_failed: bool


class FlowCommands:
    """The commands for one flow. Thread-safe."""

    def __init__(self, settings: FlowSettings, on_change: Callable[[], None]) -> None:
        """`on_change` runs after every change, on the thread that has read it."""
        self._flow = settings.flow
        self._connection = settings.target_admin
        self._config_topic = ConfigTopic(
            settings.target_admin, settings.internal_topics.configs, self._update
        )
        self._names = connector_names(settings)
        self._on_change = on_change
        self._restarts: queue.SimpleQueue[RestartCommand] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards `target_states` and the topic's events
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._backoff = Backoff()  # while the topic cannot be read
        self._thread = ScopedThread(target=self._run, name=f"{self._flow}/commands", daemon=True)
        self.target_states: TargetStates | None = None  # None: not read yet
        self.problem = ""

    def start(self) -> None:
        self._thread.start()

    def update_settings(self, settings: FlowSettings) -> None:
        """Use the connectors and the connection of a newer file."""
        self._names = connector_names(settings)
        if settings.target_admin != self._connection:
            self._connection = settings.target_admin
            self._config_topic.update_connection(settings.target_admin)
        self._wake.set()

    def take_restarts(self) -> list[RestartCommand]:
        """Return the restarts that were requested since the last call."""
        found = []
        while not self._restarts.empty():
            found.append(self._restarts.get())
        return found

    def stop(self) -> None:
        """End the thread. Does not wait."""
        self._stopping.set()
        self._wake.set()

    def set_target_state(self, kind: ConnectorClass, state: TargetState, seconds: float) -> None:
        """Write a target state; ClusterError, or TimeoutError if the topic is in use for long."""
        with self._config_topic.writing(seconds) as log:
            log.put_target_state(self._names[kind], state)

    def request_restart(self, kind: ConnectorClass, seconds: float, *, only_failed: bool) -> None:
        """Request a restart from the process that runs the flow; errors as above."""
        request = RestartRequest(self._names[kind], include_tasks=True, only_failed=only_failed)
        with self._config_topic.writing(seconds) as log:
            log.put_restart_request(request)

    # --- its thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._wake.wait(self._read())
                self._wake.clear()
        except Exception as error:  # noqa: BLE001 - a thread's root: shown in the status
            _log.exception(
                f"{self._flow}: REST commands are not read any more; restart the process"
            )
            self.problem = f"REST commands are not read any more: {error!r}"
        finally:
            self._config_topic.close()

    def _read(self) -> float:
        """Read to the end. Returns the pause until the next read."""
        try:
            self._config_topic.refresh(_READ_SECONDS)
        except SparkmirrorError as error:
            return self._on_failure(error)
        self.problem = ""
        self._backoff.reset()
        self._update()
        return _POLL_SECONDS

    def _on_failure(self, error: SparkmirrorError) -> float:
        is_missing = isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION
        if is_missing and not self.target_states:  # before the first start: no commands
            self._update()
            return _POLL_SECONDS
        had_problem = bool(self.problem)
        self.problem = f"the target states of its connectors are unknown: {error}"
        if not had_problem:
            _log.warning(f"{self._flow}: {self.problem} Retrying.")
        return max(_POLL_SECONDS, self._backoff.next_pause(slow=not error.retriable))

    # --- the thread that has read the topic

    def _update(self) -> None:
        with self._lock:
            kinds = {name: kind for kind, name in self._names.items()}
            states = self._config_topic.state.target_states
            found = {
                kind: states[name]
                for name, kind in kinds.items()
                if states.get(name, TargetState.STARTED) is not TargetState.STARTED
            }
            has_changed, self.target_states = found != self.target_states, found
            for event in self._config_topic.drain_events():
                if isinstance(event, RestartRequest) and event.connector in kinds:
                    self._restarts.put(RestartCommand(kinds[event.connector], event.only_failed))
                    has_changed = True
        if has_changed:
            self._on_change()


def connector_names(settings: FlowSettings) -> dict[ConnectorClass, str]:
    """Return MM2's names of the connectors that a flow runs."""
    names = {}
    if settings.enabled:
        names[ConnectorClass.SOURCE] = settings.source.name
        names[ConnectorClass.CHECKPOINT] = settings.checkpoint.name
    if settings.heartbeat.interval_seconds is not None:
        names[ConnectorClass.HEARTBEAT] = settings.heartbeat.name
    return names
