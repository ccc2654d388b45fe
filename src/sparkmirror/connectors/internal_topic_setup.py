# SPDX-License-Identifier: Apache-2.0
"""The internal topics that connectors stand on: made sure of before any of them starts.

A cluster out of reach is asked again until it answers. Without the topics for positions nothing
can start; any other one that is missing shows in the status, and its connector does without.

The three topics of a Connect worker: made before it does anything else.

Connect creates those that are missing and refuses one that is not compacted, for it would lose
what it holds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import WorkerSettings
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.internal_topics import (
    EnsureOutcome,
    InternalTopic,
    Side,
    ensure_internal_topics,
    storage_topics,
)
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire.backoff import Backoff

_log = logging.getLogger(__name__)


class InternalTopicSetup:
    """Belongs to one thread at a time; `stop` may be set by any."""

    def __init__(
        self, factors: ReplicationFactorChooser, status: FlowStatus, stop: threading.Event
    ) -> None:
        self._factors = factors
        self._status = status
        self._stop = stop
        self._said: set[str] = set()
        self.usable_topics: set[str] = set()  # internal topics that can be used

    def ensure(
        self,
        settings: FlowSettings,
        topics: Sequence[InternalTopic],
        failed: Callable[[ClusterError], None],
    ) -> bool:
        """Make sure of the topics, however long it takes; False: stopped meanwhile."""
        backoff = Backoff()
        while not self._stop.is_set():
            try:
                for side in (Side.TARGET, Side.SOURCE):
                    self._ensure(settings, [topic for topic in topics if topic.side is side], side)
            except ClusterError as error:
                failed(error)
                self._stop.wait(backoff.next_pause(slow=not error.retriable))
                continue
            return not self._stop.is_set()
        return False

    def _ensure(self, settings: FlowSettings, wanted: list[InternalTopic], side: Side) -> None:
        if not wanted:
            return
        connection = settings.target_admin if side is Side.TARGET else settings.source_admin
        with ClusterAdmin(connection, ClusterClient(connection, self._stop)) as admin:
            ensured = ensure_internal_topics(
                wanted, admin, self._factors, creates=settings.source.topic_creation_enabled
            )
        fatal: list[ClusterError] = []
        for one in ensured:
            name = one.topic.name
            if one.error is None:
                self.usable_topics.add(name)
            elif one.topic.storage_key is not None:
                fatal.append(one.error)
            else:
                self._status.set_problem(f"topic {name}", str(one.error))
                self._warn_once(f"{settings.flow}: {one.error}")
        if fatal:  # positions have nowhere to go
            error = ClusterError(" ".join(map(str, fatal)), cluster=connection.alias)
            error.retriable = any(one.retriable for one in fatal)
            raise fatal[0] if len(fatal) == 1 else error

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            _log.warning(sentence)


def ensure_storage_topics(settings: WorkerSettings) -> str:
    """Returns the id of the worker's cluster when its topics are there; ClusterError if not."""
    with ClusterAdmin(settings.connection) as admin:
        cluster_id = admin.cluster().cluster_id
        topics = storage_topics(settings.internal_topics)
        for one in ensure_internal_topics(topics, admin, ReplicationFactorChooser()):
            if one.error is not None:
                raise one.error
            if one.state is EnsureOutcome.CREATED:
                _log.info(f"Created topic '{one.topic.name}' ({one.topic.storage_key})")
    return cluster_id or ""
