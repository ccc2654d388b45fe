# SPDX-License-Identifier: Apache-2.0
"""Starts and ends the connector instances of this process until they match the desired ones.

Level-triggered: every round polls the `DesiredStateSource` and applies the difference. The
supervisor's thread owns the slots; `release`, `restart` and `close` only mark a slot and stop its
instance.

    A  Two instances of one name never overlap: a successor is built after its predecessor's end.
    B  An instance starts only from a result polled after the last `release`. The caller
       of `release` has changed its source before.
    C  `release` returns True only when nothing of these names writes any more.
    D  Only the callers of `release` and `close` wait.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.connectors.connector_instance import ConnectorInstance
from sparkmirror.connectors.desired_state import (
    ConnectorSpec,
    DesiredConnector,
    DesiredConnectors,
    DesiredState,
    InstanceView,
    Restart,
)
from sparkmirror.errors import ClusterError, SparkmirrorError
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.runtime.connector_slot import SLOW_SECONDS, ConnectorSlot, LagMonitorBuilder
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.spark.shared_context import SharedSparkContext
from sparkmirror.system.log_scope import log_scope
from sparkmirror.wire.backoff import Backoff

_ENDING_SECONDS = 0.05  # between two rounds while an instance ends
_POLL_SECONDS = 0.5
_SETTLE_SECONDS = 1.0  # for connectors without positions, when the process ends
_log = logging.getLogger(__name__)


class DesiredStateSource(Protocol):
    """Says which connectors should run in this process."""

    def poll(self) -> DesiredConnectors:
        """Called on the supervisor's thread twice a second and after `wake`; no network."""

    def announce(self, names: Collection[str]) -> None:
        """Called before these get their first instance here; ClusterError: they do not start."""


InstanceBuilder = Callable[[ConnectorSpec, FlowStatus], ConnectorInstance]


class Supervisor:
    """Keeps the connector instances of this process in their desired states."""

    def __init__(
        self,
        source: DesiredStateSource,
        build: InstanceBuilder,
        spark: SharedSparkContext[str],
        *,
        start_spark: Callable[[Mapping[str, int]], None] = lambda _: None,
        on_change: Callable[[], None] = lambda: None,
        monitor_lag: LagMonitorBuilder | None = None,
    ) -> None:
        """`start_spark` starts Spark, unless it has started, for splits by connector label.

        By default the caller starts Spark. `on_change` runs after a round that has started,
        stopped or removed an instance. Both run on the supervisor's thread. `monitor_lag` builds
        the monitor of a source connector; None: its lag is known only from its tasks.
        """
        self._source = source
        self._build = build
        self._spark = spark
        self._start_spark = start_spark
        self._on_change = on_change
        self._monitor_lag = monitor_lag
        self._changed = threading.Condition()  # guards the next four attributes
        self._slots: dict[str, ConnectorSlot] = {}
        self._revision = 0  # counts `release` and `close`
        self._is_woken = False
        self._is_closing = False
        # Supervisor's thread only.
        self._allocated: dict[str, int] | None = None
        self._is_spark_expected = False
        self._reported: dict[str, object] = {}  # the slots as of the last `on_change`
        self._spark_failure = ""
        self._announce_at = 0.0
        self._announce_backoff = Backoff()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._round_problem = ""
        self._announce_problem = ""

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Poll the source now. Thread-safe."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    @property
    def problem(self) -> str:
        """Why new instances cannot start; empty if they can. Thread-safe."""
        return self._round_problem or self._announce_problem

    def instances(self) -> dict[str, InstanceView]:
        """Return all connectors that are desired or ending, by name. Thread-safe."""
        with self._changed:
            return {name: slot.view() for name, slot in self._slots.items()}

    def restart(self, restart: Restart) -> bool:
        """Restart a connector or its tasks; False if it does not exist. Thread-safe."""
        with self._changed:
            found = self._restart(restart)
            self._is_woken = True
            self._changed.notify_all()
            return found

    def release(self, names: Collection[str], seconds: float) -> bool:
        """End these and wait until they write nothing; False: not in time. Thread-safe.

        The source must not want them any more. An instance that waits for an unreachable cluster
        writes nothing, although it ends later.
        """
        with self._changed:
            self._revision += 1
            self._is_woken = True
            slots = [slot for name in names if (slot := self._slots.get(name)) is not None]
            for slot in slots:
                slot.is_released = True
                slot.request_stop()
            self._changed.notify_all()
        return self._wait(lambda: not any(slot.may_write for slot in slots), seconds)

    def close(self, seconds: float = SLOW_SECONDS) -> bool:
        """End all instances. Returns whether all sources wrote their positions in time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._revision += 1
            self._is_closing = True
            slots = [*self._slots.values()]
            for slot in slots:
                slot.wanted = None
                slot.stop_monitor()
                slot.request_stop()
            self._changed.notify_all()
        sources = [slot for slot in slots if slot.spec and slot.spec.kind is ConnectorClass.SOURCE]
        is_clean = self._wait(lambda: not any(slot.may_write for slot in sources), seconds)
        settle_seconds = min(_SETTLE_SECONDS, deadline - time.monotonic())
        self._wait(lambda: all(slot.is_over for slot in slots), settle_seconds)
        if self._thread.is_alive():
            self._thread.join(max(0.0, min(_SETTLE_SECONDS, deadline - time.monotonic())))
        return is_clean

    def _wait(self, is_reached: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        with self._changed:
            while not is_reached():
                if time.monotonic() > deadline:
                    return False
                self._changed.wait(_ENDING_SECONDS)
        return True

    # --- the supervisor's thread

    def _run(self) -> None:
        backoff = Backoff()
        while not self._is_closing:
            try:
                pause = self.step()
                self._round_problem = ""
                backoff.reset()
            except Exception as error:  # noqa: BLE001 - the root of the thread
                # Without this thread no instance would be started or stopped any more.
                _log.exception("A round of the supervisor failed; retrying.")
                self._round_problem = f"{type(error).__name__}: {error}"
                pause = backoff.next_pause()
            with self._changed:
                if not self._is_woken and not self._is_closing:
                    self._changed.wait(pause)
                self._is_woken = False

    def step(self) -> float:
        """Run one round. Returns the pause until the next one. Supervisor's thread, or a test."""
        with self._changed:
            revision = self._revision
        wanted = self._source.poll()
        with self._changed:
            for restart in wanted.restarts:  # the source returns each of them only once
                self._restart(restart)
            if revision != self._revision:
                return 0.0
            due = self._apply(wanted.connectors)
        self._share_spark(due, expects_copying=wanted.expects_copying)
        self._announce()
        is_current = all(self._start(slot, revision) for slot in due if slot.is_announced)
        with self._changed:
            ending = [slot for slot in self._slots.values() if slot.ending_since is not None]
            slots: dict[str, object] = {
                name: (slot.desired, id(slot.instance), slot.ending_since, slot.failure)
                for name, slot in self._slots.items()
            }
        if slots != self._reported:
            self._reported = slots
            self._on_change()
        if not is_current:
            return 0.0
        return _POLL_SECONDS if all(slot.is_slow for slot in ending) else _ENDING_SECONDS

    def _apply(self, connectors: Mapping[str, DesiredConnector]) -> list[ConnectorSlot]:
        """Apply them, under the lock. Returns the slots that need an instance."""
        for name, connector in connectors.items():
            slot = self._slots.get(name)
            if slot is None:
                label = connector.spec.label if connector.spec is not None else name
                slot = self._slots[name] = ConnectorSlot(name, FlowStatus(label))
            slot.set_desired(connector)
            if self._monitor_lag is not None:
                slot.monitor_lag(self._monitor_lag)
        for name in [name for name in self._slots if name not in connectors]:
            self._slots[name].set_desired(None)
        for slot in [*self._slots.values()]:
            slot.drop_if_finished()
            if slot.instance is None and slot.wanted is None:
                slot.stop_monitor()
                del self._slots[slot.name]
        return [slot for slot in self._slots.values() if slot.is_due]

    def _restart(self, restart: Restart) -> bool:
        slot = self._slots.get(restart.name)
        if slot is None or slot.desired is None:
            return False
        if slot.desired is not DesiredState.RUNNING:
            return True  # a paused connector stays paused
        if slot.instance is None or slot.ending_since is not None:
            slot.request_restart()
            return True
        now = slot.state()
        is_failed = now.connector.state is RunState.FAILED
        has_failed_task = any(task.state is RunState.FAILED for task in now.tasks.values())
        if restart.only_failed and not is_failed:
            if not (restart.include_tasks and has_failed_task):
                return True
            tasks_only = True
        else:
            tasks_only = restart.tasks_only
        scope = slot.log_scope._asdict()
        _log.info(f"Connector {slot.name}: restarting on request", extra=scope)
        if not (tasks_only and slot.instance.replan()):
            slot.request_restart()
        return True

    def _share_spark(self, due: list[ConnectorSlot], *, expects_copying: bool) -> None:
        """Divide Spark's slots among the source connectors; replan those that get fewer."""
        with self._changed:
            slots = [slot for slot in self._slots.values() if slot.wanted_splits]
            wanted = {slot.spec.label: slot.wanted_splits for slot in slots if slot.spec}
        copying = [slot for slot in due if slot.wanted_splits]
        is_expected = bool(wanted) or expects_copying
        is_new = wanted != (self._allocated or {}) or (is_expected and not self._is_spark_expected)
        if not is_new and not (copying and self._spark_failure):
            return
        self._allocated = wanted
        try:
            if is_expected:
                self._is_spark_expected = True
                self._start_spark(wanted)
            shrunk = self._spark.reallocate_slots(wanted)
            self._spark_failure = ""
        except SparkmirrorError as error:
            if str(error) != self._spark_failure:
                _log.error(f"Cannot start Spark: {error}")
            self._spark_failure = str(error)
            for slot in copying:
                self._fail(slot, error)
            return
        with self._changed:
            for slot in slots:
                is_active = slot.instance is not None and slot.ending_since is None
                if is_active and slot.instance and slot.status.name in shrunk:
                    sentence = f"{slot.status.name}: replanning with fewer splits"
                    _log.info(sentence, extra=slot.log_scope._asdict())
                    slot.instance.replan()

    def _announce(self) -> None:
        with self._changed:
            new = [slot for slot in self._slots.values() if slot.needs_announcement]
        if not new:
            self._announce_problem = ""
        if not new or time.monotonic() < self._announce_at:
            return
        try:
            self._source.announce([slot.name for slot in new])
        except ClusterError as error:
            if not self._announce_problem:
                _log.warning(f"New connectors cannot start, retrying: {error}")
            self._announce_problem = str(error)
            pause = self._announce_backoff.next_pause(slow=not error.retriable)
            self._announce_at = time.monotonic() + pause
            return
        for slot in new:
            slot.is_announced = True
        self._announce_problem = ""
        self._announce_backoff.reset()

    def _start(self, slot: ConnectorSlot, revision: int) -> bool:
        """Build and start an instance; False if the desired state may have changed meanwhile."""
        spec, status = slot.spec, slot.status.restarted()
        if spec is None or slot.failure:
            return True
        try:
            instance = self._build(spec, status)
            with self._changed, log_scope(slot.log_scope):
                if revision != self._revision:
                    return False
                instance.start()
                slot.instance, slot.status = instance, status
        except Exception as error:  # noqa: BLE001 - user plugins may raise anything
            self._fail(slot, error)
        return True

    def _fail(self, slot: ConnectorSlot, error: Exception) -> None:
        sentence = str(error)
        if not isinstance(error, SparkmirrorError):
            sentence = f"{type(error).__name__}: {error}"
        scope = slot.log_scope._asdict()
        _log.error(f"{slot.status.name}: cannot start: {sentence}", extra=scope)
        trace = "".join(traceback.format_exception(error))
        with self._changed:
            slot.failure = f"{sentence}\n{trace}"
