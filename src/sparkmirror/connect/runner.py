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

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.connector_config import ConnectorReading
from sparkmirror.connect.running import RunningConnector
from sparkmirror.connect.states import ConnectorState, PartState, failed
from sparkmirror.errors import ArgumentError, SparkmirrorError
from sparkmirror.formats.connect_statuses import State
from sparkmirror.pipeline.status import FlowSnapshot, FlowStatus
from sparkmirror.shared_spark import SharedSpark
from sparkmirror.topology.factors import ReplicationFactors

SLOW_SECONDS = 8.0  # what a clean end may take
_LOOK_SECONDS = 0.05  # between two looks at what is ending
_ROOM = 240  # splits of connectors that may still come; a slot of a local Spark costs nothing
_CLOSE_SECONDS = 10.0  # that Spark may take to end
_log = logging.getLogger(__name__)


class _Wanted(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"


@dataclass(slots=True)
class _Slot:
    """A connector by name, through all its lives."""

    name: str
    reading: ConnectorReading
    wanted: _Wanted
    status: FlowStatus
    life: RunningConnector | None = None
    ending_since: float | None = None
    is_slow: bool = False
    failure: str = ""  # why its next life could not begin
    waits_as: State = State.UNASSIGNED  # what to call it before its next life gets somewhere
    before: ConnectorState = field(
        default_factory=lambda: ConnectorState(PartState(State.UNASSIGNED))
    )  # how its last life looked when it was asked to end

    @property
    def copies(self) -> bool:
        """Whether it needs Spark."""
        is_source = self.reading.kind is ConnectorClass.SOURCE
        return is_source and self.reading.unchecked.enabled and self.wanted is _Wanted.RUNNING

    def end(self) -> None:
        """Ask its present life to end."""
        if self.life is not None and self.ending_since is None:
            now = self.life.state()
            self.before = now if now.tasks else ConnectorState(now.connector, self.before.tasks)
            self.ending_since = time.monotonic()
            self.life.stop()

    def state(self) -> ConnectorState:
        """What it and its tasks do now."""
        if self.life is not None and self.ending_since is None:
            now = self.life.state()
            is_waiting = now.connector.state is State.UNASSIGNED
            return self.before.all_in(self.waits_as) if is_waiting else now
        if self.failure:
            return failed(self.failure)
        if self.wanted is _Wanted.RUNNING:
            return self.before.all_in(self.waits_as)
        if self.life is not None and self.life.is_copying:
            return self.before
        is_paused = self.wanted is _Wanted.PAUSED
        return self.before.all_in(State.PAUSED if is_paused else State.UNASSIGNED)


class ConnectorRunner:
    """The connectors of one machine by name; `spark_options` and `master` are for their Spark."""

    def __init__(self, spark_options: Mapping[str, str], master: str | None = None) -> None:
        self._options = dict(spark_options)
        self._spark: SharedSpark[str] = SharedSpark(master)
        self._factors = ReplicationFactors()
        self._slots: dict[str, _Slot] = {}
        self._changed = threading.Condition()  # and the lock of all that is above
        self._is_closing = False
        self._is_awaited = False  # Spark, by connectors that may come
        self._is_clean = True
        self._close_at = 0.0
        self._thread = threading.Thread(target=self._run, name="connect/runner", daemon=True)
        self._thread.start()

    # --- what is wanted

    def start(self, name: str, reading: ConnectorReading, *, paused: bool = False) -> None:
        """Run a connector, from another configuration if it runs already."""
        wanted = _Wanted.PAUSED if paused else _Wanted.RUNNING
        with self._changed:
            if self._is_closing:
                raise ArgumentError(f"Connector {name} cannot be run: this worker is ending.")
            slot = self._slots.get(name)
            if slot is None:
                status = FlowStatus(f"{reading.unchecked.flow}|{name}")
                slot = self._slots[name] = _Slot(name, reading, wanted, status)
            elif slot.reading != reading:
                slot.reading = reading
                slot.failure = ""
                slot.waits_as = State.RESTARTING
                slot.end()
            self._want(slot, wanted)

    def expect(self) -> None:
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
                self._want(slot, _Wanted.GONE)

    def pause(self, name: str) -> None:
        """Copy nothing more; the connector keeps its place."""
        with self._changed:
            self._want(self._slot(name), _Wanted.PAUSED)

    def resume(self, name: str) -> None:
        """Go on where the connector was paused."""
        with self._changed:
            self._want(self._slot(name), _Wanted.RUNNING)

    def restart(self, name: str) -> None:
        """End a connector with all its tasks and begin it anew; a paused one stays paused."""
        with self._changed:
            slot = self._slot(name)
            slot.failure = ""
            slot.waits_as = State.RESTARTING
            slot.end()
            self._changed.notify_all()

    def restart_tasks(self, name: str) -> None:
        """Begin the tasks of a connector anew, all of them: they are planned together."""
        with self._changed:
            slot = self._slot(name)
            source = slot.life.source if slot.life is not None else None
            is_alive = source is not None and source.is_copying and slot.ending_since is None
            if source is not None and is_alive and slot.state().tasks:
                source.replan()
                return
        self.restart(name)

    def _slot(self, name: str) -> _Slot:
        slot = self._slots.get(name)
        if slot is None or slot.wanted is _Wanted.GONE:
            raise ArgumentError(f"No connector {name} runs here.")
        return slot

    def _want(self, slot: _Slot, wanted: _Wanted) -> None:
        if wanted is not _Wanted.RUNNING:
            slot.end()
        elif slot.wanted is not _Wanted.RUNNING:
            slot.failure = ""
            is_resumed = slot.wanted is _Wanted.PAUSED
            slot.waits_as = State.PAUSED if is_resumed else State.RESTARTING
        slot.wanted = wanted
        self._changed.notify_all()

    # --- what is

    def statuses(self) -> dict[str, ConnectorState]:
        """What every connector and its tasks do now; one that was stopped is there to its end."""
        with self._changed:
            slots = [*self._slots.values()]
            return {slot.name: slot.state() for slot in slots}

    def groups(self, name: str) -> tuple[str, ...]:
        """The consumer groups that a checkpoint connector looks after."""
        with self._changed:
            slot = self._slots.get(name)
            return slot.life.groups if slot is not None and slot.life is not None else ()

    def wait_until_quiet(self, names: Collection[str], seconds: float) -> bool:
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
        return slot is not None and slot.life is not None and slot.life.is_copying

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
                self._want(slot, _Wanted.GONE)
            self._changed.notify_all()
        self._thread.join(seconds + _CLOSE_SECONDS)
        return self._is_clean and not self._thread.is_alive()

    # --- the runner's thread

    def _run(self) -> None:
        while True:
            with self._changed:
                begin = self._look()
                is_over = self._is_closing and (
                    not self._slots or time.monotonic() > self._close_at
                )
                is_cold = self._is_awaited and not self._spark.is_prepared and not is_over
                if not begin and not is_over and not is_cold:
                    is_ending = any(one.life is not None for one in self._ending())
                    self._changed.wait(_LOOK_SECONDS if is_ending else None)
                    continue
            if is_over:
                self._is_clean = not self._slots
                self._spark.stop(keep_log=not self._is_clean)
                return
            for slot in begin:
                self._begin(slot)
            if is_cold:
                self._start_spark({})

    def _ending(self) -> list[_Slot]:
        return [slot for slot in self._slots.values() if slot.ending_since is not None]

    def _look(self) -> list[_Slot]:
        """Take leave of what has ended; returns what is to begin."""
        for slot in self._ending():
            if slot.life is not None and not slot.life.is_over:
                self._wait_for(slot)
                continue
            slot.life, slot.ending_since, slot.is_slow = None, None, False
        resting = [slot for slot in self._slots.values() if slot.life is None]
        for slot in resting:
            if slot.wanted is _Wanted.GONE:
                del self._slots[slot.name]
        return [one for one in resting if one.wanted is _Wanted.RUNNING and not one.failure]

    def _wait_for(self, slot: _Slot) -> None:
        waited = time.monotonic() - (slot.ending_since or 0.0)
        if waited > SLOW_SECONDS and not slot.is_slow:
            slot.is_slow = True
            _log.warning(
                f"{slot.status.name}: has not ended within {SLOW_SECONDS:.0f} s; whatever follows "
                "waits for it, because two would copy the same topic partitions."
            )

    def _begin(self, slot: _Slot) -> None:
        with self._changed:
            reading = slot.reading
            status = slot.status.successor()
        try:
            self._share_spark()
            life = RunningConnector(
                reading.kind,
                reading.settings,
                self._factors,
                status,
                lambda: self._spark,
                lambda: self._spark.slots(slot.name),
            )
            with self._changed:
                if slot.reading is not reading or slot.wanted is not _Wanted.RUNNING:
                    return  # another one is wanted by now
                life.start()
                slot.life, slot.status = life, status
        except Exception as error:  # noqa: BLE001 - plugins of the user's: the status must tell
            self._cannot_begin(slot, reading, error)

    def _cannot_begin(self, slot: _Slot, reading: ConnectorReading, error: Exception) -> None:
        sentence = str(error)
        if not isinstance(error, SparkmirrorError):
            sentence = f"{type(error).__name__}: {error}"
        _log.error(f"{slot.status.name}: cannot be run: {sentence}")
        with self._changed:
            if slot.reading is reading:
                slot.failure = f"{sentence}\n{traceback.format_exc()}"

    def _share_spark(self) -> None:
        """Divide the slots among those that copy; the first of them has Spark started."""
        with self._changed:
            copying = [slot for slot in self._slots.values() if slot.copies]
            wanted = {slot.name: slot.reading.tasks_max for slot in copying}
        if not wanted:
            return
        self._start_spark(wanted)
        shrunk = self._spark.share(wanted)
        with self._changed:
            for slot in copying:
                source = slot.life.source if slot.life is not None else None
                if slot.name in shrunk and source is not None:
                    _log.info(f"{slot.status.name}: planned anew with fewer splits")
                    source.replan()

    def _start_spark(self, wanted: Mapping[str, int]) -> None:
        """Unless it runs already, with room for these and for others that will come."""
        if not self._spark.is_prepared:
            self._spark.prepare(self._options, wanted or {"": 1}, room=_ROOM)
            self._spark.start()
