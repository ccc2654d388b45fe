# SPDX-License-Identifier: Apache-2.0
"""Target states and restarts of a pair's connectors, in MM2's own config topic on the target.

`target-state-` and `restart-connector-` records, as Connect's workers write them: they outlive the
process, reach the process that runs the pair, and a Java MM2 reads them. Every process with the
file reads them about twice a second, on the thread `<flow>/commands`; requests write on theirs.
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
from sparkmirror.wire.backoff import Backoff

TargetStates: TypeAlias = Mapping[ConnectorClass, TargetState]  # of those that shall not run

_POLL_SECONDS = 0.5  # a command of another process takes effect within two seconds
_READ_SECONDS = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestartCommand:
    """A request to restart a connector with its tasks."""

    kind: ConnectorClass
    only_failed: bool


class FlowCommands:
    """The commands for one pair. Thread-safe."""

    def __init__(self, settings: FlowSettings, on_change: Callable[[], None]) -> None:
        """`on_change` runs after every change, on the thread that has read it."""
        self._flow = settings.flow
        self._connection = settings.target_admin
        self._names = connector_names(settings)
        self._on_change = on_change
        self._config_topic = ConfigTopic(
            settings.target_admin, settings.internal_topics.configs, self._on_records
        )
        self._restarts: queue.SimpleQueue[RestartCommand] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._backoff = Backoff()  # while it cannot be read
        self._thread = threading.Thread(
            target=self._run, name=f"{self._flow}/commands", daemon=True
        )
        self.target_states: TargetStates | None = None  # None: not read yet
        self.problem = ""

    def start(self) -> None:
        """Start to read."""
        self._thread.start()

    def update_settings(self, settings: FlowSettings) -> None:
        """Use the connectors and the connection of a newer file."""
        self._names = connector_names(settings)
        if settings.target_admin != self._connection:
            self._connection = settings.target_admin
            self._config_topic.update_connection(settings.target_admin)
        self._wake.set()

    def stop(self) -> None:
        """Stop to read; returns at once."""
        self._stopping.set()
        self._wake.set()

    def take_restarts(self) -> list[RestartCommand]:
        """The restarts that were requested since the last call."""
        found = []
        while not self._restarts.empty():
            found.append(self._restarts.get())
        return found

    def set_target_state(self, kind: ConnectorClass, state: TargetState, seconds: float) -> None:
        """Write a target state; ClusterError or TimeoutError if that fails."""
        with self._config_topic.writing(seconds) as log:
            log.put_target_state(self._names[kind], state)

    def request_restart(self, kind: ConnectorClass, seconds: float, *, only_failed: bool) -> None:
        """Ask the process that runs the pair to restart a connector; errors as above."""
        request = RestartRequest(self._names[kind], include_tasks=True, only_failed=only_failed)
        with self._config_topic.writing(seconds) as log:
            log.put_restart_request(request)

    def _on_records(self) -> None:
        """On the thread that has read or written; the events are left to the reading thread."""
        self._update_target_states()
        self._wake.set()

    def _update_target_states(self) -> None:
        wanted = self._config_topic.state.target_states
        found = {
            kind: wanted[name]
            for kind, name in self._names.items()
            if wanted.get(name, TargetState.STARTED) is not TargetState.STARTED
        }
        if found != self.target_states:
            self.target_states = found
            self._on_change()

    # --- its thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                pause = self._poll()
                self._wake.wait(pause)
                self._wake.clear()
        except Exception as error:  # noqa: BLE001 - a thread's root: the pair goes on, and says it
            _log.exception(f"{self._flow}: commands over REST are not read any more")
            self.problem = f"commands over REST are not read any more: {error!r}"
        finally:
            self._config_topic.close()

    def _poll(self) -> float:
        """Read to the end; how long to wait for the next time."""
        try:
            self._config_topic.refresh(_READ_SECONDS)
        except SparkmirrorError as error:
            return self._on_error(error)
        self.problem = ""
        self._backoff.reset()
        self._update_target_states()
        for event in self._config_topic.drain_events():
            if isinstance(event, RestartRequest):
                self._on_restart_request(event)
        return _POLL_SECONDS

    def _on_error(self, error: SparkmirrorError) -> float:
        is_missing = isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION
        if is_missing and not self.target_states:  # before the first start: there are no commands
            self._update_target_states()
            return _POLL_SECONDS
        if not self.problem:
            _log.warning(f"{self._flow}: the target states of its connectors are unknown: {error}")
        self.problem = f"the target states of its connectors are unknown: {error}"
        return max(_POLL_SECONDS, self._backoff.next_pause(slow=not error.retriable))

    def _on_restart_request(self, request: RestartRequest) -> None:
        for kind, name in self._names.items():
            if name == request.connector:
                self._restarts.put(RestartCommand(kind, request.only_failed))
                self._on_change()


def connector_names(settings: FlowSettings) -> dict[ConnectorClass, str]:
    """The connectors that a pair runs, under the names that MM2 gives them."""
    names = {}
    if settings.enabled:
        names[ConnectorClass.SOURCE] = settings.source.name
        names[ConnectorClass.CHECKPOINT] = settings.checkpoint.name
    if settings.heartbeat.interval_seconds is not None:
        names[ConnectorClass.HEARTBEAT] = settings.heartbeat.name
    return names
