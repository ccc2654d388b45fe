# SPDX-License-Identifier: Apache-2.0
"""What a worker does all the time: run what it was given, tell what it does, lead if it leads.

One thread looks at what is wanted (the board, the group's assignment) and at what is (the runner),
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

from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.connect.api import ApiError, SignedBody
from sparkmirror.connect.board import Board
from sparkmirror.connect.forwarding import Forwarded, forward
from sparkmirror.connect.leading import Leading
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.membership import Membership
from sparkmirror.connect.readings import Readings
from sparkmirror.connect.runner import ConnectorRunner
from sparkmirror.connect.signatures import sign
from sparkmirror.connect.states import ConnectorState, PartState, failed
from sparkmirror.connect.task_configs import put_tasks_if_started, task_configs
from sparkmirror.connect.telling import Teller, statuses_to_tell, topics_to_tell, unassigned
from sparkmirror.errors import ArgumentError, ClusterError, LeadershipLostError
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_records import LoggerLevel, RestartRequest, TargetState
from sparkmirror.formats.connect_statuses import ConnectorStatus, State, StatusRecord
from sparkmirror.sentences import joined
from sparkmirror.state.connect_configs import ConfigLog, ConfigState
from sparkmirror.wire.backoff import Backoff

_LOOK_SECONDS = 0.5
_READ_SECONDS = 3.0  # between two readings of both topics, should nothing tell that there is news
_RENEW_SECONDS = 10.0  # between two wordings of the same warning
_PUBLISH_SECONDS = 5.0  # that the leader may take
_END_SECONDS = 10.0
_log = logging.getLogger(__name__)


class Duties:
    """The thread of a worker; `given` and `taken` are the group's, `wake` is anybody's."""

    def __init__(
        self, file: WorkerFile, board: Board, runner: ConnectorRunner, worker_id: str
    ) -> None:
        self._file = file
        self._signing = file.settings.signing
        self._tracks_topics = file.settings.topic_tracking
        self._board = board
        self._runner = runner
        self._worker_id = worker_id
        self._patience_seconds = 0.7 * file.settings.group.rebalance_timeout_ms / 1000
        self._readings = Readings(file)
        self._levels = LogLevels()
        self._leading: Leading | None = None
        self._membership: Membership | None = None
        self._assigned: frozenset[str] = frozenset()
        self._lock = threading.Lock()  # of `_assigned`: given here, taken there
        self._agreed: frozenset[str] | None = None  # names that the group was last asked to share
        self._publishing: dict[str, _Attempt] = {}
        self._renewed_at = 0.0
        self._read_at = 0.0
        self._trouble = ""
        self._backoff = Backoff()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect/duties", daemon=True)

    @property
    def levels(self) -> LogLevels:
        """The loggers of this process."""
        return self._levels

    @property
    def trouble(self) -> str:
        """Why the worker cannot do what it should; empty if it can."""
        return self._trouble

    def start(self, membership: Membership, leading: Leading) -> None:
        """Begin; the board has been read."""
        self._membership, self._leading = membership, leading
        self._agreed = frozenset(self._board.configs.connectors)
        self._thread.start()

    def stop(self) -> None:
        """End; the group has taken everything back before."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def renew(self) -> None:
        """What the worker's file leads to has changed: connectors that differ begin anew."""
        self._readings.suspect_all()
        self._wake.set()

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    # --- the group's calls

    def given(self, names: Collection[str]) -> None:
        """All that this worker is to run."""
        with self._lock:
            self._assigned = frozenset(names)
        self._read_at = 0.0  # what is known of their statuses may be old
        self._wake.set()

    def taken(self, names: Collection[str]) -> None:
        """Somebody else is to run these: returns when nothing of them is at work here."""
        with self._lock:
            self._assigned -= frozenset(names)
        for name in names:
            self._runner.stop(name)
        if not self._runner.wait_until_quiet(names, self._patience_seconds):
            # The group would go on without this worker. Nothing is written twice: whoever is next
            # compares both sides, and the brokers refuse whoever comes too late.
            _log.warning(f"{', '.join(names)}: given up before all of it has ended here")
        known = [name for name in names if name in self._board.configs.configs]
        try:
            self._board.write_statuses(unassigned(known, self._board.statuses, self._teller()))
        except ClusterError as error:
            # Whoever runs them next says so; if nobody does, the next leader finds out.
            _log.warning(f"What {', '.join(known)} do could not be told: {error}")

    def runs(self, name: str) -> bool:
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
                self._look()
            except ClusterError as error:
                self._fails(str(error), slow=not error.retriable)
            except Exception as error:  # noqa: BLE001 - the root of the thread
                # Without it nothing would be begun or ended any more.
                _log.exception("A worker's look at its connectors failed; trying again.")
                self._fails(f"{type(error).__name__}: {error}")
            else:
                if self._trouble:
                    _log.info("The worker does its duties again.")
                self._trouble = ""
                self._backoff = Backoff()

    def _fails(self, sentence: str, *, slow: bool = False) -> None:
        if not self._trouble:
            _log.warning(f"The worker cannot do its duties: {sentence}")
        self._trouble = sentence
        self._wake.wait(self._backoff.next_pause(slow=slow))

    def _look(self) -> None:
        membership, leading = self._membership, self._leading
        if membership is None or leading is None:
            return
        self._read()
        self._hear()
        configs = self._board.configs
        names = frozenset(configs.connectors)
        if names != self._agreed:
            self._agreed = names
            membership.rejoin()
        self._readings.update(configs.configs)
        if self._readings.has_source:
            self._runner.expect()
        if membership.is_member:
            self._announce()
        self._bring_about(membership)
        if membership.is_member:
            self._tell_all()
            self._forget_the_gone()
        try:
            leading.look()
        except LeadershipLostError:
            leading.has_lost()
            raise
        if membership.is_member:
            self._publish_all(membership, leading)

    def _hear(self) -> None:
        """What was asked for once, and is nobody's lasting wish."""
        for event in self._board.take_events():
            match event:
                case RestartRequest():
                    self._restart(event)
                case LoggerLevel(logger, level):
                    self._set_level(logger, level)

    def _read(self) -> None:
        """News is told, but a message may be lost; of statuses nobody tells."""
        now = time.monotonic()
        if now - self._read_at > _READ_SECONDS:
            self._board.refresh_configs()
            self._board.refresh_statuses()
            self._read_at = now

    def _announce(self) -> None:
        """Say that a connector is begun before it is, so that nobody believes an older status.

        Whoever deletes it waits for its end, and whoever sets its offsets does not take it for
        stopped.
        """
        configs, statuses, running = self._board.configs, self._board.statuses, self._running()
        records: list[StatusRecord] = []
        for name in self._mine(configs):
            known = statuses.connectors.get(name)
            is_old = known is None or known.state is State.STOPPED
            is_meant = configs.target_state(name) is not TargetState.STOPPED
            if is_old and is_meant and name not in running:
                status = self._teller().status(PartState(State.UNASSIGNED))
                records.append(ConnectorStatus(name, status))
        self._tell(records)

    def _bring_about(self, membership: Membership) -> None:
        """Begin, pause and end connectors until they are as they are meant to be."""
        configs = self._board.configs
        with self._lock:  # what is taken meanwhile must not begin again
            # A place that is lost is lost with all its work, whoever finds out first.
            mine = self._mine(configs) if membership.is_member else []
            for name in mine:
                reading = self._readings.of(name).reading
                target = configs.target_state(name)
                if reading is None or target is TargetState.STOPPED:
                    self._runner.stop(name)
                else:
                    self._runner.start(name, reading, paused=target is TargetState.PAUSED)
            for name in self._running().keys() - set(mine):
                self._runner.stop(name)

    def _mine(self, configs: ConfigState) -> list[str]:
        """Connectors that are to run here; one that has come since this look began waits."""
        return sorted(self._assigned & configs.configs.keys() & self._readings.names)

    def _running(self) -> dict[str, ConnectorState]:
        return self._runner.statuses()

    # --- telling

    def _state_of(self, name: str, running: Mapping[str, ConnectorState]) -> ConnectorState | None:
        """What a connector of this worker's does; None if there is nothing new to be said."""
        now = running.get(name)
        if self._board.configs.target_state(name) is TargetState.STOPPED:
            return ConnectorState(PartState(State.STOPPED)) if now is None else None
        readable = self._readings.of(name)
        if readable.reading is None:
            return failed(readable.failure)
        return now

    def _tell_all(self) -> None:
        configs, statuses = self._board.configs, self._board.statuses
        now = time.monotonic()
        renews = now - self._renewed_at > _RENEW_SECONDS
        if renews:
            self._renewed_at = now
        running = self._running()
        records: list[StatusRecord] = []
        for name in self._mine(configs):
            state = self._state_of(name, running)
            if state is None:
                continue
            attempt = self._publishing.get(name)
            warnings = (self._readings.warning(name), attempt.trouble if attempt else "")
            if any(warnings) and state.connector.state is State.RUNNING:
                text = joined((state.connector.warning, *warnings))
                state = replace(state, connector=replace(state.connector, warning=text))
            records += statuses_to_tell(
                name, state, statuses, self._teller(), renews_warnings=renews
            )
            if self._tracks_topics:
                records += topics_to_tell(name, state, statuses, int(time.time() * 1000))
        self._tell(records)

    def _forget_the_gone(self) -> None:
        """What was deleted and has ended here is nobody's business any more."""
        known, running = self._board.statuses.connectors, self._running()
        for name, status in known.items():
            is_mine = status.worker_id == self._worker_id
            state = running.get(name)
            has_ended = state is None or state.connector.state is State.UNASSIGNED
            if is_mine and has_ended and name not in self._board.configs.configs:
                self._board.forget(name)

    def _tell(self, records: list[StatusRecord]) -> None:
        """What is this worker's own is certain: somebody else's older word does not count."""
        if records:
            self._board.write_statuses(records, certain=True)

    def _teller(self) -> Teller:
        generation = -1 if self._membership is None else self._membership.generation
        return Teller(self._worker_id, generation)

    # --- restarting

    def _restart(self, request: RestartRequest) -> None:
        name = request.connector
        state = self._running().get(name)
        if not self.runs(name) or state is None:
            return
        has_failed = any(task.state is State.FAILED for task in state.tasks.values())
        if not request.only_failed or state.connector.state is State.FAILED:
            self.restart(name)
        elif request.include_tasks and has_failed:
            self.restart_tasks(name)

    def restart(self, name: str) -> None:
        """Begin a connector of this worker's anew, references in its configuration read again."""
        self._readings.forget(name)
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

    def _publish_all(self, membership: Membership, leading: Leading) -> None:
        configs, running = self._board.configs, self._running()
        for name in self._mine(configs):
            state, readable = self._state_of(name, running), self._readings.of(name)
            if state is None or readable.reading is None or not _has_settled(state):
                continue
            if configs.target_state(name) is not TargetState.STARTED:
                continue
            wanted = task_configs(
                readable.reading.kind, readable.config, state.tasks, self._runner.groups(name)
            )
            is_stale = configs.tasks(name) != wanted or name in configs.inconsistent
            is_exact = readable.reading.unchecked.transactions.is_enabled
            if not is_stale and not (is_exact and name in configs.unfenced):
                continue
            url = None if leading.is_ready else membership.leader_url
            if not self._publish(url, name, wanted, is_stale=is_stale, is_exact=is_exact):
                return  # who does not answer for one does not answer for the next

    def _publish(
        self, url: str | None, name: str, wanted: list[Config], *, is_stale: bool, is_exact: bool
    ) -> bool:
        """To the leader at an address, or as the leader; whether that is worth going on with."""
        attempt = self._publishing.setdefault(name, _Attempt())
        if not attempt.is_due:
            return True
        try:
            if url is None:
                self._write(name, wanted, is_stale=is_stale, is_exact=is_exact)
            else:
                path = f"/connectors/{quote(name, safe='')}"
                if is_stale:
                    body = json.dumps([dict(one) for one in wanted]).encode()
                    self._send("POST", url, f"{path}/tasks", body)
                if is_exact:
                    self._send("PUT", url, f"{path}/fence", b"")
        except (ApiError, ClusterError) as error:
            sentence = f"its tasks could not be published: {error}"
            if attempt.failed(sentence):
                _log.warning(f"Connector {name}: {sentence}")
            return False
        self._publishing.pop(name, None)
        return True

    def _write(self, name: str, wanted: list[Config], *, is_stale: bool, is_exact: bool) -> None:
        leading = self._leading

        def write(log: ConfigLog) -> None:
            if leading is None or not leading.is_ready:
                raise ApiError(409, "this worker does not lead any more")
            log.read_on()
            if is_stale:
                put_tasks_if_started(log, name, wanted)
            if is_exact:
                log.put_task_count(name, len(wanted))

        self._board.write_configs(write)

    def _send(self, method: str, url: str, path: str, body: bytes) -> None:
        signed = self._signed(body)
        headers = {
            "X-Connect-Authorization": signed.signature or "",
            "X-Connect-Request-Signature-Algorithm": signed.algorithm or "",
        }
        answer = forward(
            Forwarded(method, path, "", headers, body),
            url,
            _PUBLISH_SECONDS,
            lambda: self._membership is not None and self._membership.leader_url == url,
            self._file.settings.rest.tls,
        )
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP's own
            text = answer.body[:500].decode(errors="replace")
            raise ApiError(answer.status, f"the leader {url} answered {answer.status}: {text}")

    def _signed(self, body: bytes) -> SignedBody:
        key = self._board.configs.session_key
        if key is None:
            raise ApiError(503, "there is no session key yet")
        return sign(body, key.secret, self._signing.signature_algorithm)


class _Attempt:
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


def _has_settled(state: ConnectorState) -> bool:
    """Whether the tasks are those that will stay for a while."""
    return state.connector.state is State.RUNNING
