# SPDX-License-Identifier: Apache-2.0
"""Creates the internal topics of connectors and of a worker before they start.

An unreachable cluster is retried until it responds. Without the topics for positions nothing can
start; another missing topic shows in the status, and its connector works without it. As in Connect,
a worker's storage topic that is not compacted is an error, because it would lose state.

The connectors of a flow create the same topics at the same time: they share one attempt, and a
missing topic is logged once per process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future

from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import WorkerSettings
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.internal_topics import (
    EnsuredTopic,
    EnsureOutcome,
    InternalTopic,
    Side,
    ensure_internal_topics,
    storage_topics,
)
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.settings import ConnectionSettings

_log = logging.getLogger(__name__)


class _SharedAttempts:
    """Lets threads that ensure the same topics at the same time share one attempt."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[list[EnsuredTopic]]] = {}

    def run(self, key: Hashable, attempt: Callable[[], list[EnsuredTopic]]) -> list[EnsuredTopic]:
        """The result or the error of this attempt, or of the one that runs already."""
        with self._lock:
            running = self._running.get(key)
            if running is None:
                own = self._running[key] = Future()
        if running is not None:
            return running.result()
        try:
            own.set_result(attempt())
        except Exception as error:  # noqa: BLE001 - every caller gets it
            own.set_exception(error)
        finally:
            with self._lock:
                del self._running[key]
        return own.result()


class _Warnings:
    """Logs every sentence once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged: set[str] = set()

    def log_once(self, sentence: str) -> None:
        with self._lock:
            if sentence in self._logged:
                return
            self._logged.add(sentence)
        _log.warning(sentence)


_attempts = _SharedAttempts()
_warnings = _Warnings()


class InternalTopicSetup:
    """Not thread-safe, except that any thread may set `stop`."""

    def __init__(
        self, factors: ReplicationFactorChooser, status: FlowStatus, stop: threading.Event
    ) -> None:
        self._factors = factors
        self._status = status
        self._stop = stop
        self.usable_topics: set[str] = set()

    def ensure(
        self,
        settings: FlowSettings,
        topics: Sequence[InternalTopic],
        on_error: Callable[[ClusterError], None],
    ) -> bool:
        """Create the topics, with retries. Returns False if stopped meanwhile."""
        backoff = Backoff()
        while not self._stop.is_set():
            try:
                for side in (Side.TARGET, Side.SOURCE):
                    self._ensure(settings, [topic for topic in topics if topic.side is side], side)
            except ClusterError as error:
                on_error(error)
                self._stop.wait(backoff.next_pause(slow=not error.retriable))
                continue
            return not self._stop.is_set()
        return False

    def _ensure(self, settings: FlowSettings, topics: list[InternalTopic], side: Side) -> None:
        if not topics:
            return
        connection = settings.target_admin if side is Side.TARGET else settings.source_admin
        key = (settings.flow, connection.bootstrap_servers, *(topic.name for topic in topics))
        ensured = _attempts.run(key, lambda: self._attempt(settings, connection, topics))
        fatal: list[ClusterError] = []
        for one in ensured:
            name = one.topic.name
            if one.error is None:
                self.usable_topics.add(name)
            elif one.topic.storage_key is not None:
                fatal.append(one.error)
            else:
                self._status.set_problem(f"topic {name}", str(one.error))
                _warnings.log_once(f"{settings.flow}: {one.error}")
        if fatal:  # positions cannot be stored
            error = ClusterError(" ".join(map(str, fatal)), cluster=connection.alias)
            error.retriable = any(one.retriable for one in fatal)
            raise fatal[0] if len(fatal) == 1 else error

    def _attempt(
        self, settings: FlowSettings, connection: ConnectionSettings, topics: list[InternalTopic]
    ) -> list[EnsuredTopic]:
        creates = settings.source.topic_creation_enabled
        with ClusterAdmin(connection, ClusterClient(connection, self._stop)) as admin:
            return ensure_internal_topics(topics, admin, self._factors, creates=creates)


def ensure_storage_topics(settings: WorkerSettings) -> str:
    """Create a worker's topics. Returns the id of its cluster; raises ClusterError."""
    with ClusterAdmin(settings.connection) as admin:
        cluster_id = admin.cluster().cluster_id
        topics = storage_topics(settings.internal_topics)
        for one in ensure_internal_topics(topics, admin, ReplicationFactorChooser()):
            if one.error is not None:
                raise one.error
            if one.state is EnsureOutcome.CREATED:
                _log.info(f"Created topic '{one.topic.name}' ({one.topic.storage_key})")
    return cluster_id or ""
