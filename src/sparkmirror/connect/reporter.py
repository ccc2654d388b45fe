# SPDX-License-Identifier: Apache-2.0
"""Writes statuses of this worker's connectors, publishes their tasks, and maintains the leadership.

The reporter's thread does all network I/O of a worker that no caller waits for. It runs on changes
and twice a second, because connectors do not announce changes of their state. Each round starts
from the topics and the instances; nothing is kept from the last round.

    A  A connector has a status of this worker before its first instance starts (`announce`), so a
       DELETE waits for its end and offsets are not altered while it runs.
    B  No status of a connector is written after `give_up` has returned for it.

Both hold because instances are read and their statuses written under one lock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader
from sparkmirror.connect.status_updates import (
    StatusOrigin,
    status_updates,
    topic_updates,
    unassigned_updates,
)
from sparkmirror.connect.task_publisher import TaskPublisher
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import InstanceView
from sparkmirror.errors import ClusterError, UnreachableError, join_sentences
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_status_records import ConnectorStatus, RunState, StatusRecord
from sparkmirror.group.membership import Membership
from sparkmirror.wire.backoff import Backoff

_ROUND_SECONDS = 0.5
_READ_SECONDS = 3.0  # between two reads of both topics, in case the watcher misses a record
_RENEW_SECONDS = 10.0  # before a warning is written again with other details
_END_SECONDS = 10.0
_log = logging.getLogger(__name__)


class Reporter:
    """The thread `connect/reporter`. Any thread may call the public methods except `report`."""

    def __init__(
        self,
        group_state: GroupState,
        config_cache: ConnectorConfigCache,
        membership: Membership,
        leader: GroupLeader,
        tasks: TaskPublisher,
        worker_id: str,
        *,
        owns: Callable[[str], bool],
        instances: Callable[[], Mapping[str, InstanceView]],
        tracks_topics: bool,
    ) -> None:
        self._group_state = group_state
        self._config_cache = config_cache
        self._membership = membership
        self._leader = leader
        self._tasks = tasks
        self._worker_id = worker_id
        self._owns = owns
        self._instances = instances
        self._tracks_topics = tracks_topics
        self._status_lock = threading.Lock()
        self._renewed_at = 0.0
        self._read_at = 0.0
        self._backoff = Backoff()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect/reporter", daemon=True)
        self.problem = ""  # why the worker cannot report or lead; empty if it can

    def start(self) -> None:
        """Start the thread. Both topics must have been read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. The group must have revoked all connectors."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def wake(self, *, read: bool = False) -> None:
        """Report now; with `read`, read the status topic first."""
        if read:
            self._read_at = 0.0
        self._wake.set()

    # --- the supervisor's and the group's calls

    def announce(self, names: Collection[str]) -> None:
        """Write UNASSIGNED for connectors that are about to start; ClusterError if that fails."""
        if not self._membership.is_member:
            raise UnreachableError(
                "This worker is no longer a member of its group.", cluster=self._group_state.cluster
            )
        with self._status_lock:
            self._group_state.refresh_statuses()
            known, origin = self._group_state.statuses.connectors, self._origin()
            status = origin.status(ReportedState(RunState.UNASSIGNED))
            self._write(
                [
                    ConnectorStatus(name, status)
                    for name in names
                    if name not in known or known[name].state is RunState.STOPPED
                ]
            )

    def update_statuses(self) -> None:
        """Write statuses on the caller's thread; the reporter retries if that fails."""
        try:
            with self._status_lock:
                self._update_statuses(self._instances())
        except ClusterError as error:
            _log.debug(f"Statuses could not be written at once: {error}")
            self.wake()

    def give_up(self, names: Collection[str]) -> None:
        """Write that these have ended here; another worker will run them."""
        with self._status_lock:
            known = [name for name in names if name in self._group_state.configs.configs]
            updates = unassigned_updates(known, self._group_state.statuses, self._origin())
            try:
                self._group_state.write_statuses(updates)
            except ClusterError as error:
                # The next owner overwrites them; without one the next leader removes them.
                _log.warning(
                    f"Cannot write the statuses of {', '.join(known)}; their next worker will: "
                    f"{error}"
                )

    # --- its thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(_ROUND_SECONDS)
            self._wake.clear()
            if self._stopping.is_set():
                return
            try:
                self.report()
            except ClusterError as error:
                self._on_failure(str(error), slow=not error.retriable)
            except Exception as error:  # noqa: BLE001 - the root of the thread
                _log.exception("A report about this worker's connectors failed; retrying.")
                self._on_failure(f"{type(error).__name__}: {error}")
            else:
                if self.problem:
                    _log.info("Statuses are written again.")
                self.problem = ""
                self._backoff = Backoff()

    def _on_failure(self, sentence: str, *, slow: bool = False) -> None:
        if not self.problem:
            _log.warning(f"Cannot write statuses, retrying: {sentence}")
        self.problem = sentence
        self._wake.wait(self._backoff.next_pause(slow=slow))

    def report(self) -> None:
        """One round; ClusterError if a topic cannot be read or written."""
        self._refresh_topics()
        if self._membership.is_member:
            with self._status_lock:
                instances = self._instances()
                self._update_statuses(instances)
                self._remove_deleted_statuses(instances)
        self._leader.maintain()
        if self._membership.is_member:
            self._publish_tasks()

    def _refresh_topics(self) -> None:
        now = time.monotonic()
        if now - self._read_at > _READ_SECONDS:
            self._read_at = now
            try:
                self._group_state.refresh_configs()
                self._group_state.refresh_statuses()
            except ClusterError:
                self._read_at = 0.0
                raise

    def _owned(self, instances: Mapping[str, InstanceView]) -> list[InstanceView]:
        configs = self._group_state.configs.configs
        return [
            view for name, view in sorted(instances.items()) if name in configs and self._owns(name)
        ]

    def _update_statuses(self, instances: Mapping[str, InstanceView]) -> None:
        configs, statuses = self._group_state.configs, self._group_state.statuses
        now = time.monotonic()
        renews = now - self._renewed_at > _RENEW_SECONDS
        if renews:
            self._renewed_at = now
        records: list[StatusRecord] = []
        for view in self._owned(instances):
            is_to_stop = configs.target_state(view.name) is TargetState.STOPPED
            if is_to_stop != (view.state.connector.state is RunState.STOPPED):
                continue  # it is ending, or the supervisor has not polled its desired state yet
            state = self._with_warnings(view)
            records += status_updates(
                view.name, state, statuses, self._origin(), renews_warnings=renews
            )
            if self._tracks_topics:
                records += topic_updates(view.name, state, statuses, int(time.time() * 1000))
        self._write(records)

    def _with_warnings(self, view: InstanceView) -> ConnectorState:
        """Return its state, with problems of a running connector as a warning."""
        state = view.state
        warnings = (self._config_cache.warning(view.name), self._tasks.problem(view.name))
        if not any(warnings) or state.connector.state is not RunState.RUNNING:
            return state
        text = join_sentences((state.connector.warning, *warnings))
        return replace(state, connector=replace(state.connector, warning=text))

    def _remove_deleted_statuses(self, instances: Mapping[str, InstanceView]) -> None:
        """Remove the statuses of connectors that were deleted and have ended here."""
        configs = self._group_state.configs.configs
        for name, status in self._group_state.statuses.connectors.items():
            view = instances.get(name)
            has_ended = view is None or view.state.connector.state in _ENDED
            if status.worker_id == self._worker_id and has_ended and name not in configs:
                self._group_state.remove_connector_status(name)

    def _publish_tasks(self) -> None:
        for view in self._owned(self._instances()):
            parsed = self._config_cache.find(view.name)
            if parsed is not None and not self._tasks.publish(parsed, view):
                return  # the leader does not respond

    def _write(self, records: list[StatusRecord]) -> None:
        """Write statuses; those of this worker override earlier ones of other workers."""
        if records:
            self._group_state.write_statuses(records, certain=True)

    def _origin(self) -> StatusOrigin:
        return StatusOrigin(self._worker_id, self._membership.generation)


_ENDED = (RunState.UNASSIGNED, RunState.STOPPED)
