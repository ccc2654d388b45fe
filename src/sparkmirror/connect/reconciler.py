# SPDX-License-Identifier: Apache-2.0
"""What a worker does all the time: run what it was given, tell what it does, lead if it leads.

One thread looks at what is wanted (the group's state, its assignment) and at what is (the runner),
and closes the gap; it is woken by news and looks twice a second otherwise, for connectors change
their state without a word. Nothing is remembered that the next look could not find out anew.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from urllib.parse import quote

from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.api import ApiError, SignedBody
from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.connector_supervisor import ConnectorSupervisor
from sparkmirror.connect.forwarding import ForwardedRequest, forward
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.signatures import sign
from sparkmirror.connect.status_updates import (
    StatusOrigin,
    status_updates,
    topic_updates,
    unassigned_updates,
)
from sparkmirror.connect.task_configs import put_tasks_if_started, task_configs
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState, failed_state
from sparkmirror.errors import ArgumentError, ClusterError, join_sentences
from sparkmirror.formats.connect_config_records import LoggerLevel, RestartRequest, TargetState
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_status_records import ConnectorStatus, RunState, StatusRecord
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ClusterConfigState
from sparkmirror.wire.backoff import Backoff

_LOOK_SECONDS = 0.5
_READ_SECONDS = 3.0  # between two readings of both topics, should nothing tell that there is news
_RENEW_SECONDS = 10.0  # between two wordings of the same warning
_PUBLISH_SECONDS = 5.0  # that the leader may take
_END_SECONDS = 10.0
_log = logging.getLogger(__name__)


class Reconciler:
    """The thread of a worker; `given` and `taken` are the group's, `wake` is anybody's."""

    def __init__(
        self,
        file: WorkerConfig,
        group_state: GroupState,
        runner: ConnectorSupervisor,
        config_cache: ConnectorConfigCache,
        worker_id: str,
    ) -> None:
        self._file = file
        self._signing = file.settings.signing
        self._tracks_topics = file.settings.topic_tracking
        self._group_state = group_state
        self._runner = runner
        self._worker_id = worker_id
        self._revoke_timeout_seconds = 0.7 * file.settings.group.rebalance_timeout_ms / 1000
        self._config_cache = config_cache
        self._levels = LogLevels()
        self._leader: GroupLeader | None = None
        self._membership: Membership | None = None
        self._assigned: frozenset[str] = frozenset()
        self._lock = threading.Lock()  # of `_assigned`: given here, taken there
        self._last_connectors: frozenset[str] | None = (
            None  # names that the group was last asked to share
        )
        self._publishing: dict[str, _PublishBackoff] = {}
        self._renewed_at = 0.0
        self._read_at = 0.0
        self._trouble = ""
        self._backoff = Backoff()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect/reconciler", daemon=True)

    @property
    def log_levels(self) -> LogLevels:
        """The loggers of this process."""
        return self._levels

    @property
    def problem(self) -> str:
        """Why the worker cannot do what it should; empty if it can."""
        return self._trouble

    def start(self, membership: Membership, leading: GroupLeader) -> None:
        """Begin; the group's state has been read."""
        self._membership, self._leader = membership, leading
        self._last_connectors = frozenset(self._group_state.configs.connectors)
        self._thread.start()

    def stop(self) -> None:
        """End; the group has taken everything back before."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def reparse_configs(self) -> None:
        """What the worker's file leads to has changed: connectors that differ begin anew."""
        self._config_cache.invalidate_all()
        self._wake.set()

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    # --- the group's calls

    def on_assigned(self, names: Collection[str]) -> None:
        """All that this worker is to run."""
        with self._lock:
            self._assigned = frozenset(names)
        self._read_at = 0.0  # what is known of their statuses may be old
        self._wake.set()

    def on_revoked(self, names: Collection[str]) -> None:
        """Somebody else is to run these: returns when nothing of them is at work here."""
        with self._lock:
            self._assigned -= frozenset(names)
        for name in names:
            self._runner.stop(name)
        if not self._runner.wait_until_not_writing(names, self._revoke_timeout_seconds):
            # The group would go on without this worker. Nothing is written twice: whoever is next
            # compares both sides, and the brokers refuse whoever comes too late.
            _log.warning(f"{', '.join(names)}: given up before all of it has ended here")
        known = [name for name in names if name in self._group_state.configs.configs]
        try:
            self._group_state.write_statuses(
                unassigned_updates(known, self._group_state.statuses, self._status_origin())
            )
        except ClusterError as error:
            # Whoever runs them next says so; if nobody does, the next leader finds out.
            _log.warning(f"What {', '.join(known)} do could not be told: {error}")

    def is_assigned(self, name: str) -> bool:
        """Whether a connector is this worker's."""
        return name in self._assigned

    # --- the thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()
            if self._stopping.is_set():
                return
            try:
                self._reconcile()
            except ClusterError as error:
                self._on_failure(str(error), slow=not error.retriable)
            except Exception as error:  # noqa: BLE001 - the root of the thread
                # Without it nothing would be begun or ended any more.
                _log.exception("A worker's look at its connectors failed; trying again.")
                self._on_failure(f"{type(error).__name__}: {error}")
            else:
                if self._trouble:
                    _log.info("The worker does its duties again.")
                self._trouble = ""
                self._backoff = Backoff()

    def _on_failure(self, sentence: str, *, slow: bool = False) -> None:
        if not self._trouble:
            _log.warning(f"The worker cannot do its duties: {sentence}")
        self._trouble = sentence
        self._wake.wait(self._backoff.next_pause(slow=slow))

    def _reconcile(self) -> None:
        membership, leading = self._membership, self._leader
        if membership is None or leading is None:
            return
        self._refresh_topics()
        self._handle_events()
        configs = self._group_state.configs
        names = frozenset(configs.connectors)
        if names != self._last_connectors:
            self._last_connectors = names
            membership.rejoin()
        self._config_cache.update(configs.configs)
        if self._config_cache.has_source:
            self._runner.prestart_spark()
        if membership.is_member:
            self._write_unassigned()
        self._apply_target_states(membership)
        if membership.is_member:
            self._update_statuses()
            self._remove_deleted_statuses()
        leading.maintain()
        if membership.is_member:
            self._publish_task_configs(membership, leading)

    def _handle_events(self) -> None:
        """What was asked for once, and is nobody's lasting wish."""
        for event in self._group_state.drain_events():
            match event:
                case RestartRequest():
                    self._restart(event)
                case LoggerLevel(logger, level):
                    self._set_level(logger, level)

    def _refresh_topics(self) -> None:
        """News is told, but a message may be lost; of statuses nobody tells."""
        now = time.monotonic()
        if now - self._read_at > _READ_SECONDS:
            self._group_state.refresh_configs()
            self._group_state.refresh_statuses()
            self._read_at = now

    def _write_unassigned(self) -> None:
        """Say that a connector is begun before it is, so that nobody believes an older status.

        Whoever deletes it waits for its end, and whoever sets its offsets does not take it for
        stopped.
        """
        configs, statuses, running = (
            self._group_state.configs,
            self._group_state.statuses,
            self._instance_states(),
        )
        records: list[StatusRecord] = []
        for name in self._assigned_connectors(configs):
            known = statuses.connectors.get(name)
            is_old = known is None or known.state is RunState.STOPPED
            is_meant = configs.target_state(name) is not TargetState.STOPPED
            if is_old and is_meant and name not in running:
                status = self._status_origin().status(ReportedState(RunState.UNASSIGNED))
                records.append(ConnectorStatus(name, status))
        self._write_statuses(records)

    def _apply_target_states(self, membership: Membership) -> None:
        """Begin, pause and end connectors until they are as they are meant to be."""
        configs = self._group_state.configs
        with self._lock:  # what is taken meanwhile must not begin again
            # A place that is lost is lost with all its work, whoever finds out first.
            mine = self._assigned_connectors(configs) if membership.is_member else []
            for name in mine:
                reading = self._config_cache.get(name).parsed
                target = configs.target_state(name)
                if reading is None or target is TargetState.STOPPED:
                    self._runner.stop(name)
                else:
                    self._runner.start(name, reading, paused=target is TargetState.PAUSED)
            for name in self._instance_states().keys() - set(mine):
                self._runner.stop(name)

    def _assigned_connectors(self, configs: ClusterConfigState) -> list[str]:
        """Connectors that are to run here; one that has come since this look began waits."""
        return sorted(self._assigned & configs.configs.keys() & self._config_cache.names)

    def _instance_states(self) -> dict[str, ConnectorState]:
        return self._runner.states()

    # --- telling

    def _state_of(self, name: str, running: Mapping[str, ConnectorState]) -> ConnectorState | None:
        """What a connector of this worker's does; None if there is nothing new to be said."""
        now = running.get(name)
        if self._group_state.configs.target_state(name) is TargetState.STOPPED:
            return ConnectorState(ReportedState(RunState.STOPPED)) if now is None else None
        readable = self._config_cache.get(name)
        if readable.parsed is None:
            return failed_state(readable.failure)
        return now

    def _update_statuses(self) -> None:
        configs, statuses = self._group_state.configs, self._group_state.statuses
        now = time.monotonic()
        renews = now - self._renewed_at > _RENEW_SECONDS
        if renews:
            self._renewed_at = now
        running = self._instance_states()
        records: list[StatusRecord] = []
        for name in self._assigned_connectors(configs):
            state = self._state_of(name, running)
            if state is None:
                continue
            attempt = self._publishing.get(name)
            warnings = (self._config_cache.warning(name), attempt.trouble if attempt else "")
            if any(warnings) and state.connector.state is RunState.RUNNING:
                text = join_sentences((state.connector.warning, *warnings))
                state = replace(state, connector=replace(state.connector, warning=text))
            records += status_updates(
                name, state, statuses, self._status_origin(), renews_warnings=renews
            )
            if self._tracks_topics:
                records += topic_updates(name, state, statuses, int(time.time() * 1000))
        self._write_statuses(records)

    def _remove_deleted_statuses(self) -> None:
        """What was deleted and has ended here is nobody's business any more."""
        known, running = self._group_state.statuses.connectors, self._instance_states()
        for name, status in known.items():
            is_mine = status.worker_id == self._worker_id
            state = running.get(name)
            has_ended = state is None or state.connector.state is RunState.UNASSIGNED
            if is_mine and has_ended and name not in self._group_state.configs.configs:
                self._group_state.remove_connector_status(name)

    def _write_statuses(self, records: list[StatusRecord]) -> None:
        """What is this worker's own is certain: somebody else's older word does not count."""
        if records:
            self._group_state.write_statuses(records, certain=True)

    def _status_origin(self) -> StatusOrigin:
        generation = -1 if self._membership is None else self._membership.generation
        return StatusOrigin(self._worker_id, generation)

    # --- restarting

    def _restart(self, request: RestartRequest) -> None:
        name = request.connector
        state = self._instance_states().get(name)
        if not self.is_assigned(name) or state is None:
            return
        has_failed = any(task.state is RunState.FAILED for task in state.tasks.values())
        if not request.only_failed or state.connector.state is RunState.FAILED:
            self.restart(name)
        elif request.include_tasks and has_failed:
            self.restart_tasks(name)

    def restart(self, name: str) -> None:
        """Begin a connector of this worker's anew, references in its configuration read again."""
        self._config_cache.invalidate(name)
        try:
            self._runner.restart(name)
        except ArgumentError:
            _log.info(f"Connector {name} does not run, so there is nothing to restart")
        self._wake.set()

    def restart_tasks(self, name: str) -> None:
        """Begin the tasks of a connector of this worker's anew."""
        try:
            self._runner.restart_tasks(name)
        except ArgumentError:
            _log.info(f"Connector {name} does not run, so there are no tasks to restart")

    def _set_level(self, logger: str, level: str) -> None:
        try:
            self._levels.set(logger, level)
        except ApiError as error:
            _log.warning(f"Logger {logger}: {error}")

    # --- tasks, as Connect's config topic has them

    def _publish_task_configs(self, membership: Membership, leading: GroupLeader) -> None:
        configs, running = self._group_state.configs, self._instance_states()
        for name in self._assigned_connectors(configs):
            state, readable = self._state_of(name, running), self._config_cache.get(name)
            if state is None or readable.parsed is None or not _is_running(state):
                continue
            if configs.target_state(name) is not TargetState.STARTED:
                continue
            wanted = task_configs(
                readable.parsed.kind,
                readable.config,
                state.tasks,
                self._runner.consumer_groups(name),
            )
            is_stale = configs.tasks(name) != wanted or name in configs.inconsistent
            is_exact = readable.parsed.unchecked_settings.transactions.is_enabled
            if not is_stale and not (is_exact and name in configs.unfenced):
                continue
            url = None if leading.is_ready else membership.leader_url
            if not self._publish_connector_tasks(
                url, name, wanted, is_stale=is_stale, is_exact=is_exact
            ):
                return  # who does not answer for one does not answer for the next

    def _publish_connector_tasks(
        self, url: str | None, name: str, wanted: list[Config], *, is_stale: bool, is_exact: bool
    ) -> bool:
        """To the leader at an address, or as the leader; whether that is worth going on with."""
        attempt = self._publishing.setdefault(name, _PublishBackoff())
        if not attempt.is_due:
            return True
        try:
            if url is None:
                self._write_as_leader(name, wanted, is_stale=is_stale, is_exact=is_exact)
            else:
                path = f"/connectors/{quote(name, safe='')}"
                if is_stale:
                    body = json.dumps([dict(one) for one in wanted]).encode()
                    self._send_to_leader("POST", url, f"{path}/tasks", body)
                if is_exact:
                    self._send_to_leader("PUT", url, f"{path}/fence", b"")
        except (ApiError, ClusterError) as error:
            sentence = f"its tasks could not be published: {error.__cause__ or error}"
            if attempt.failed(sentence):
                _log.warning(f"Connector {name}: {sentence}")
            return False
        self._publishing.pop(name, None)
        return True

    def _write_as_leader(
        self, name: str, wanted: list[Config], *, is_stale: bool, is_exact: bool
    ) -> None:
        if self._leader is None:
            return
        with self._leader.writing() as log:
            if is_stale:
                put_tasks_if_started(log, name, wanted)
            if is_exact:
                log.put_task_count(name, len(wanted))

    def _send_to_leader(self, method: str, url: str, path: str, body: bytes) -> None:
        signed = self._sign(body)
        headers = {
            "X-Connect-Authorization": signed.signature or "",
            "X-Connect-Request-Signature-Algorithm": signed.algorithm or "",
        }
        answer = forward(
            ForwardedRequest(method, path, "", headers, body),
            url,
            _PUBLISH_SECONDS,
            lambda: self._membership is not None and self._membership.leader_url == url,
            self._file.settings.rest.tls,
        )
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP's own
            text = answer.body[:500].decode(errors="replace")
            raise ApiError(answer.status, f"the leader {url} answered {answer.status}: {text}")

    def _sign(self, body: bytes) -> SignedBody:
        key = self._group_state.configs.session_key
        if key is None:
            raise ApiError(503, "there is no session key yet")
        return sign(body, key.secret, self._signing.signature_algorithm)


class _PublishBackoff:
    """When to try once more."""

    def __init__(self) -> None:
        self._backoff = Backoff()
        self._at = 0.0
        self.trouble = ""

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._at

    def failed(self, sentence: str) -> bool:
        """Whether that is news."""
        self._at = time.monotonic() + self._backoff.next_pause()
        is_news, self.trouble = self.trouble != sentence, sentence
        return is_news


def _is_running(state: ConnectorState) -> bool:
    """Whether the tasks are those that will stay for a while."""
    return state.connector.state is RunState.RUNNING
