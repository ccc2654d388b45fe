# SPDX-License-Identifier: Apache-2.0
"""A Connect worker, put together from its parts.

board       what the group has agreed on (config and status topic)
bell        rings when the config topic has something new
membership  its place in the group: who leads, what runs here
runner      connectors on Spark
leading     what the leader does beside
duties      the thread that makes all of them agree
requests    what others ask of it
"""

from __future__ import annotations

import logging
import threading

from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.connect.board import Board
from sparkmirror.connect.duties import Duties
from sparkmirror.connect.leader_writes import Life
from sparkmirror.connect.leading import Leading
from sparkmirror.connect.membership import Membership
from sparkmirror.connect.requests import Requests
from sparkmirror.connect.runner import ConnectorRunner
from sparkmirror.connect.storage import ensure_storage
from sparkmirror.errors import ClusterError, ConfigError, SparkmirrorError
from sparkmirror.kafka.topic_bell import TopicBell
from sparkmirror.metrics.connect_worker import WorkerFigures
from sparkmirror.pipeline.status import FlowSnapshot
from sparkmirror.wire.backoff import Backoff

_LEAVE_SECONDS = 30.0
_log = logging.getLogger(__name__)


class ConnectWorker:
    """From `start` to `stop`; `requests` is its ConnectApi."""

    def __init__(self, file: WorkerFile, url: str, *, master: str | None = None) -> None:
        """`url` is where other workers reach this one."""
        settings = file.settings
        self._file = file
        self._life = Life()
        worker_id = url.partition("://")[2].rstrip("/")
        self._board = Board(settings.connection, settings.internal_topics, self._on_news)
        self._runner = ConnectorRunner(settings.spark, master)
        self._duties = Duties(file, self._board, self._runner, worker_id)
        self._membership = Membership(
            settings.connection,
            settings.group,
            url,
            self._board,
            on_assigned=self._duties.given,
            on_revoked=self._duties.taken,
        )
        self._leading = Leading(settings.group, settings.signing, self._board, self._membership)
        self._bell = TopicBell(settings.connection, settings.internal_topics.configs, self._rung)
        self.requests = Requests(
            file, self._life, self._board, self._membership, self._leading, self._duties
        )
        self._thread = threading.Thread(target=self._begin, name="connect/start", daemon=True)

    def start(self) -> None:
        """Begin; returns at once, the requests tell how it goes."""
        self._thread.start()

    def renew(self) -> None:
        """Use what its file leads to now: for new connections, and for connectors that differ."""
        connection = self._file.settings.connection
        self._board.renew(connection)
        self._bell.renew(connection)
        self._membership.renew(connection)
        self._duties.renew()

    def stop(self) -> bool:
        """Leave the group and end everything; whether all of it ended in order."""
        self._life.stage = "stopping"
        self._life.stopping.set()
        self._thread.join()
        has_left = not self._life.is_started or self._membership.stop(_LEAVE_SECONDS)
        self._duties.stop()
        self._bell.stop()
        is_clean = self._runner.close()
        self._board.close()
        return has_left and is_clean

    def failure(self) -> BaseException | None:
        """Why this worker cannot go on, if only a person or a new process helps."""
        if self._life.failure is None:
            self._life.failure = self._membership.failure or self._runner.spark_failure()
        return self._life.failure

    def snapshots(self) -> list[FlowSnapshot]:
        """The figures of the connectors that copy here."""
        return self._runner.snapshots()

    def figures(self) -> WorkerFigures:
        """What it runs, and its place in the group."""
        place = self._membership
        return WorkerFigures(
            {
                name: [task.state.value.lower() for _, task in sorted(state.tasks.items())]
                for name, state in self._runner.statuses().items()
            },
            leader=place.leader_url or "",
            generation=place.generation,
            is_rebalancing=not place.is_settled,
            is_leader=place.is_leader,
        )

    def _begin(self) -> None:
        try:
            self._join()
        except Exception as error:  # noqa: BLE001 - a thread's root: the process must end
            _log.exception("The worker could not be started.")
            self._life.failure = error

    def _join(self) -> None:
        backoff = Backoff()
        while not self._life.stopping.is_set():
            try:
                self._life.cluster_id = ensure_storage(self._file.settings)
                self._board.refresh_configs()
                self._board.refresh_statuses()
            except (ConfigError, ClusterError) as error:
                if not error.retriable:
                    self._life.failure = error
                    return
                self._cannot_begin(error)
                self._life.stopping.wait(backoff.next_pause())
            else:
                break
        if self._life.stopping.is_set():
            return
        self._life.stage = "joining its group"
        self._bell.start(self._board.configs.offset)
        self._duties.start(self._membership, self._leading)
        self._membership.start()
        self._life.is_started = True

    def _cannot_begin(self, error: Exception) -> None:
        if self._life.stage != str(error):
            _log.warning(f"The worker cannot start yet: {error}")
        self._life.stage = str(error)

    def _on_news(self) -> None:
        self._duties.wake()

    def _rung(self) -> None:
        """The config topic has something new; the bell's own thread reads it."""
        try:
            self._board.refresh_configs()
        except SparkmirrorError as error:
            # The duties read it every few seconds in any case, and say what is wrong with it.
            _log.debug(f"The config topic could not be read: {error}")
            self._duties.wake()
