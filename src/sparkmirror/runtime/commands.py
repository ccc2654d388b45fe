# SPDX-License-Identifier: Apache-2.0
"""What people ask of a pair's connectors: to pause, to stop, to go on, to begin anew.

Kept where Connect's workers keep it, in MM2's own config topic on the target (`target-state-` and
`restart-connector-` records), so that it outlives the process, reaches whichever process runs the
pair, and is understood by a Java MM2. Every process reads it; nobody but this thread writes.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.formats.connect_config_records import RestartRequest, TargetState
from sparkmirror.kafka.cluster_client import UNKNOWN_TOPIC_OR_PARTITION, ClusterClient
from sparkmirror.state.connect_configs import ConfigLog
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.settings import ConnectionSettings

TargetStates: TypeAlias = Mapping[ConnectorClass, TargetState]  # of those that shall not run

_LOOK_SECONDS = 0.5  # an order given elsewhere is carried out within two seconds
_READ_SECONDS = 10.0
_STOP_SECONDS = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestartCommand:
    """Somebody wants a connector begun anew."""

    kind: ConnectorClass
    only_failed: bool


@dataclass(slots=True)
class _Command:
    write: Callable[[ConfigLog], None]
    done: Future[None] = field(default_factory=Future)


class FlowCommands:
    """The commands for one pair, read about twice a second.

    `set_target_state` and `request_restart` may be called by any thread.
    """

    def __init__(
        self,
        settings: FlowSettings,
        on_target_states: Callable[[TargetStates], None],
        restart: Callable[[RestartCommand], None],
    ) -> None:
        """The thread of this calls both functions; `on_target_states` first, once all is read."""
        self._flow = settings.flow
        self._client = ClusterClient(settings.target_admin)
        self._topic = settings.internal_topics.configs
        self._names = connector_names(settings)
        self._on_target_states = on_target_states
        self._restart = restart
        self._commands: queue.SimpleQueue[_Command | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._backoff = Backoff()  # while it cannot be read
        self._thread = threading.Thread(
            target=self._run, name=f"{self._flow}/commands", daemon=True
        )
        self.target_states: TargetStates | None = None  # None: not read yet
        self.problem = ""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Connect anew, in another way, and look at once."""
        self._client.update_connection(connection)
        self._commands.put(None)

    def stop(self) -> None:
        """End; a request on its way does not keep anybody for long."""
        self._stopping.set()
        self._commands.put(None)

    def set_target_state(self, kind: ConnectorClass, state: TargetState, seconds: float) -> None:
        """Write down what a connector shall do; a ClusterError or TimeoutError if that fails."""
        self._submit(lambda log: log.put_target_state(self._names[kind], state), seconds)

    def request_restart(self, kind: ConnectorClass, seconds: float, *, only_failed: bool) -> None:
        """Ask whoever runs the pair to begin a connector anew, with its tasks."""
        request = RestartRequest(self._names[kind], include_tasks=True, only_failed=only_failed)
        self._submit(lambda log: log.put_restart_request(request), seconds)

    def _submit(self, write: Callable[[ConfigLog], None], seconds: float) -> None:
        command = _Command(write)
        self._commands.put(command)
        command.done.result(seconds)

    # --- its thread

    def _run(self) -> None:
        log = ConfigLog(self._client, self._topic)
        try:
            command: _Command | None = None
            while not self._stopping.is_set():
                command = self._next(self._poll(log, command))
        except Exception as error:  # noqa: BLE001 - a thread's root: the pair goes on, and says it
            _log.exception(f"{self._flow}: orders over REST are not read any more")
            self.problem = f"orders over REST are not read any more: {error!r}"
        finally:
            self._client.close()

    def _next(self, pause_seconds: float) -> _Command | None:
        """What is ordered within the pause; whoever orders something does not wait for its end."""
        try:
            return self._commands.get(timeout=pause_seconds)
        except queue.Empty:
            return None

    def _poll(self, log: ConfigLog, command: _Command | None) -> float:
        """Carry an order out and read; how long to wait for the next look."""
        try:
            if command is not None:
                command.write(log)
            events = log.refresh(_READ_SECONDS)
        except SparkmirrorError as error:
            return self._failed(error, command)
        if command is not None:
            command.done.set_result(None)
        self.problem = ""
        self._update_target_states(log)
        for event in events:
            if isinstance(event, RestartRequest):
                self._on_restart_request(event)
        self._backoff.reset()
        return _LOOK_SECONDS

    def _failed(self, error: SparkmirrorError, command: _Command | None) -> float:
        if command is not None:
            command.done.set_exception(error)
        is_missing = isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION
        if (
            is_missing and not self.target_states
        ):  # before the first start: nobody has asked for anything
            self._update_target_states(None)
            return _LOOK_SECONDS
        if not self.problem:
            _log.warning(f"{self._flow}: what its connectors shall do cannot be read: {error}")
        self.problem = f"what its connectors shall do cannot be read: {error}"
        return max(_LOOK_SECONDS, self._backoff.next_pause(slow=not error.retriable))

    def _update_target_states(self, log: ConfigLog | None) -> None:
        wanted = {} if log is None else log.state.target_states
        found = {
            kind: wanted[name]
            for kind, name in self._names.items()
            if wanted.get(name, TargetState.STARTED) is not TargetState.STARTED
        }
        if found != self.target_states:
            self.target_states = found
            self._on_target_states(found)

    def _on_restart_request(self, request: RestartRequest) -> None:
        for kind, name in self._names.items():
            if name == request.connector:
                self._restart(RestartCommand(kind, request.only_failed))


def connector_names(settings: FlowSettings) -> dict[ConnectorClass, str]:
    """The connectors that a pair runs, under the names that MM2 gives them."""
    names = {}
    if settings.enabled:
        names[ConnectorClass.SOURCE] = settings.source.name
        names[ConnectorClass.CHECKPOINT] = settings.checkpoint.name
    if settings.heartbeat.interval_seconds is not None:
        names[ConnectorClass.HEARTBEAT] = settings.heartbeat.name
    return names
