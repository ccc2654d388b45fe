# SPDX-License-Identifier: Apache-2.0
"""Runs the connectors that this machine is to run, each from its own configuration, on one Spark.

Commands say what is wanted and return at once; a thread of the runner's brings it about. Pausing
ends a connector in order and keeps its place, which is in its stored positions; resuming begins it
anew there. Whatever replaces a connector begins only when nothing of it is at work any more: two
would copy the same topic partitions. All of it may be called from any thread.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.config.connector_config import ParsedConnector
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.connectors.connector_instance import ConnectorInstance
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState, failed_state
from sparkmirror.connectors.targets import ConnectorSpec
from sparkmirror.errors import ArgumentError, SparkmirrorError
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.spark.flow_status import FlowSnapshot, FlowStatus
from sparkmirror.spark.shared_context import SharedSparkContext
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

SLOW_SECONDS = 8.0  # what a clean end may take
_LOOK_SECONDS = 0.05  # between two looks at what is ending
_ROOM = 240  # splits of connectors that may still come; a slot of a local Spark costs nothing
_CLOSE_SECONDS = 10.0  # that Spark may take to end
_log = logging.getLogger(__name__)


class _DesiredState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"


@dataclass(slots=True)
class _SupervisedConnector:
    """A connector by name, through all its lives."""

    name: str
    reading: ParsedConnector
    desired: _DesiredState
    status: FlowStatus
    instance: ConnectorInstance | None = None
    stopping_since: float | None = None
    is_slow: bool = False
    failure: str = ""  # why its next life could not begin
    pending_state: RunState = (
        RunState.UNASSIGNED
    )  # what to call it before its next life gets somewhere
    last_state: ConnectorState = field(
        default_factory=lambda: ConnectorState(ReportedState(RunState.UNASSIGNED))
    )  # how its last life looked when it was asked to end

    @property
    def needs_spark(self) -> bool:
        """Whether it needs Spark."""
        is_source = self.reading.kind is ConnectorClass.SOURCE
        return (
            is_source
            and self.reading.unchecked_settings.enabled
            and self.desired is _DesiredState.RUNNING
        )

    def request_stop(self) -> None:
        """Ask its present life to end."""
        if self.instance is not None and self.stopping_since is None:
            now = self.instance.state()
            self.last_state = (
                now if now.tasks else ConnectorState(now.connector, self.last_state.tasks)
            )
            self.stopping_since = time.monotonic()
            self.instance.stop()

    def state(self) -> ConnectorState:
        """What it and its tasks do now."""
        if self.instance is not None and self.stopping_since is None:
            now = self.instance.state()
            is_waiting = now.connector.state is RunState.UNASSIGNED
            return self.last_state.with_state(self.pending_state) if is_waiting else now
        if self.failure:
            return failed_state(self.failure)
        if self.desired is _DesiredState.RUNNING:
            return self.last_state.with_state(self.pending_state)
        if self.instance is not None and self.instance.may_write:
            return self.last_state
        is_paused = self.desired is _DesiredState.PAUSED
        return self.last_state.with_state(RunState.PAUSED if is_paused else RunState.UNASSIGNED)


class ConnectorSupervisor:
    """The connectors of one machine by name; `spark_options` and `master` are for their Spark."""

    def __init__(self, spark_options: Mapping[str, str], master: str | None = None) -> None:
        self._options = dict(spark_options)
        self._spark: SharedSparkContext[str] = SharedSparkContext(master)
        self._factors = ReplicationFactorChooser()
        self._slots: dict[str, _SupervisedConnector] = {}
        self._changed = threading.Condition()  # and the lock of all that is above
        self._is_closing = False
        self._is_awaited = False  # Spark, by connectors that may come
        self._is_clean = True
        self._close_at = 0.0
        self._thread = threading.Thread(target=self._run, name="connect/supervisor", daemon=True)
        self._thread.start()

    # --- what is wanted

    def start(self, name: str, reading: ParsedConnector, *, paused: bool = False) -> None:
        """Run a connector, from another configuration if it runs already."""
        wanted = _DesiredState.PAUSED if paused else _DesiredState.RUNNING
        with self._changed:
            if self._is_closing:
                raise ArgumentError(f"Connector {name} cannot be run: this worker is ending.")
            slot = self._slots.get(name)
            if slot is None:
                status = FlowStatus(f"{reading.unchecked_settings.flow}|{name}")
                slot = self._slots[name] = _SupervisedConnector(name, reading, wanted, status)
            elif slot.reading != reading:
                slot.reading = reading
                slot.failure = ""
                slot.pending_state = RunState.RESTARTING
                slot.request_stop()
            self._set_desired(slot, wanted)

    def prestart_spark(self) -> None:
        """Have Spark started though nothing needs it yet: a take-over should not wait for it."""
        with self._changed:
            if not self._is_awaited:
                self._is_awaited = True
                self._changed.notify_all()

    def stop(self, name: str) -> None:
        """End a connector and forget it; nothing happens if there is none."""
        with self._changed:
            slot = self._slots.get(name)
            if slot is not None:
                self._set_desired(slot, _DesiredState.GONE)

    def pause(self, name: str) -> None:
        """Copy nothing more; the connector keeps its place."""
        with self._changed:
            self._set_desired(self._slot(name), _DesiredState.PAUSED)

    def resume(self, name: str) -> None:
        """Go on where the connector was paused."""
        with self._changed:
            self._set_desired(self._slot(name), _DesiredState.RUNNING)

    def restart(self, name: str) -> None:
        """End a connector with all its tasks and begin it anew; a paused one stays paused."""
        with self._changed:
            slot = self._slot(name)
            slot.failure = ""
            slot.pending_state = RunState.RESTARTING
            slot.request_stop()
            self._changed.notify_all()

    def restart_tasks(self, name: str) -> None:
        """Begin the tasks of a connector anew, all of them: they are planned together."""
        with self._changed:
            slot = self._slot(name)
            is_active = slot.instance is not None and slot.stopping_since is None
            if slot.instance is not None and is_active and slot.instance.replan():
                return
        self.restart(name)

    def _slot(self, name: str) -> _SupervisedConnector:
        slot = self._slots.get(name)
        if slot is None or slot.desired is _DesiredState.GONE:
            raise ArgumentError(f"No connector {name} runs here.")
        return slot

    def _set_desired(self, slot: _SupervisedConnector, wanted: _DesiredState) -> None:
        if wanted is not _DesiredState.RUNNING:
            slot.request_stop()
        elif slot.desired is not _DesiredState.RUNNING:
            slot.failure = ""
            is_resumed = slot.desired is _DesiredState.PAUSED
            slot.pending_state = RunState.PAUSED if is_resumed else RunState.RESTARTING
        slot.desired = wanted
        self._changed.notify_all()

    # --- what is

    def states(self) -> dict[str, ConnectorState]:
        """What every connector and its tasks do now; one that was stopped is there to its end."""
        with self._changed:
            slots = [*self._slots.values()]
            return {slot.name: slot.state() for slot in slots}

    def consumer_groups(self, name: str) -> tuple[str, ...]:
        """The consumer groups that a checkpoint connector looks after."""
        with self._changed:
            slot = self._slots.get(name)
            return slot.instance.groups if slot is not None and slot.instance is not None else ()

    def wait_until_not_writing(self, names: Collection[str], seconds: float) -> bool:
        """Wait until none of these writes anything any more; whether that came in time.

        They must have been stopped. A source that waits for a cluster out of reach is quiet, though
        it takes its time to end.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while any(self._is_writing(name) for name in names):
                if time.monotonic() > deadline:
                    return False
                self._changed.wait(_LOOK_SECONDS)
        return True

    def _is_writing(self, name: str) -> bool:
        slot = self._slots.get(name)
        return slot is not None and slot.instance is not None and slot.instance.may_write

    def snapshots(self) -> list[FlowSnapshot]:
        """The figures of the connectors that copy."""
        with self._changed:
            return [
                slot.status.snapshot()
                for slot in self._slots.values()
                if slot.reading.kind is ConnectorClass.SOURCE
            ]

    def spark_failure(self) -> BaseException | None:
        """Why there is no Spark, if it did not start or its JVM died: only a new process helps."""
        return self._spark.failure()

    def close(self, seconds: float = SLOW_SECONDS) -> bool:
        """End everything; whether all of it wrote its positions in time."""
        with self._changed:
            if not self._is_closing:
                self._is_closing = True
                self._close_at = time.monotonic() + seconds
            for slot in self._slots.values():
                self._set_desired(slot, _DesiredState.GONE)
            self._changed.notify_all()
        self._thread.join(seconds + _CLOSE_SECONDS)
        return self._is_clean and not self._thread.is_alive()

    # --- the runner's thread

    def _run(self) -> None:
        while True:
            with self._changed:
                begin = self._reap_stopped()
                is_over = self._is_closing and (
                    not self._slots or time.monotonic() > self._close_at
                )
                is_cold = self._is_awaited and not self._spark.is_configured and not is_over
                if not begin and not is_over and not is_cold:
                    is_ending = any(one.instance is not None for one in self._ending())
                    self._changed.wait(_LOOK_SECONDS if is_ending else None)
                    continue
            if is_over:
                self._is_clean = not self._slots
                self._spark.stop(keep_log=not self._is_clean)
                return
            for slot in begin:
                self._start_instance(slot)
            if is_cold:
                self._start_spark({})

    def _ending(self) -> list[_SupervisedConnector]:
        return [slot for slot in self._slots.values() if slot.stopping_since is not None]

    def _reap_stopped(self) -> list[_SupervisedConnector]:
        """Take leave of what has ended; returns what is to begin."""
        for slot in self._ending():
            if slot.instance is not None and not slot.instance.is_finished:
                self._warn_if_slow(slot)
                continue
            slot.instance, slot.stopping_since, slot.is_slow = None, None, False
        resting = [slot for slot in self._slots.values() if slot.instance is None]
        for slot in resting:
            if slot.desired is _DesiredState.GONE:
                del self._slots[slot.name]
        return [one for one in resting if one.desired is _DesiredState.RUNNING and not one.failure]

    def _warn_if_slow(self, slot: _SupervisedConnector) -> None:
        waited = time.monotonic() - (slot.stopping_since or 0.0)
        if waited > SLOW_SECONDS and not slot.is_slow:
            slot.is_slow = True
            _log.warning(
                f"{slot.status.name}: has not ended within {SLOW_SECONDS:.0f} s; whatever follows "
                "waits for it, because two would copy the same topic partitions."
            )

    def _start_instance(self, slot: _SupervisedConnector) -> None:
        with self._changed:
            reading = slot.reading
            status = slot.status.restarted()
        try:
            self._reallocate_slots()
            spec = ConnectorSpec(reading.kind, slot.status.name, reading, reading.settings)
            life = ConnectorInstance(spec, status, self._factors, self._spark)
            with self._changed:
                if slot.reading is not reading or slot.desired is not _DesiredState.RUNNING:
                    return  # another one is wanted by now
                life.start()
                slot.instance, slot.status = life, status
        except Exception as error:  # noqa: BLE001 - plugins of the user's: the status must tell
            self._start_failed(slot, reading, error)

    def _start_failed(
        self, slot: _SupervisedConnector, reading: ParsedConnector, error: Exception
    ) -> None:
        sentence = str(error)
        if not isinstance(error, SparkmirrorError):
            sentence = f"{type(error).__name__}: {error}"
        _log.error(f"{slot.status.name}: cannot be run: {sentence}")
        with self._changed:
            if slot.reading is reading:
                slot.failure = f"{sentence}\n{traceback.format_exc()}"

    def _reallocate_slots(self) -> None:
        """Divide the slots among those that copy; the first of them has Spark started."""
        with self._changed:
            copying = [slot for slot in self._slots.values() if slot.needs_spark]
            wanted = {slot.status.name: slot.reading.tasks_max for slot in copying}
        if not wanted:
            return
        self._start_spark(wanted)
        shrunk = self._spark.reallocate_slots(wanted)
        with self._changed:
            for slot in copying:
                if slot.status.name in shrunk and slot.instance is not None:
                    _log.info(f"{slot.status.name}: planned anew with fewer splits")
                    slot.instance.replan()

    def _start_spark(self, wanted: Mapping[str, int]) -> None:
        """Unless it runs already, with room for these and for others that will come."""
        if not self._spark.is_configured:
            self._spark.configure(self._options, wanted or {"": 1}, room=_ROOM)
            self._spark.start()
