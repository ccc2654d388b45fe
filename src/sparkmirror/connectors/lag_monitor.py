# SPDX-License-Identifier: Apache-2.0
"""Keeps the lag of one source connector true, and says which of its clusters cannot be reached.

Tasks report position and end offset with their progress. This thread reads the end offsets of
all other partitions from the source: those of a connector that is paused, stopped, on standby,
failed or starting, and those that wait for a slot or have a problem. Positions of partitions
without a task come from the stored offsets. Every round sends one small request to each cluster,
because an idle task notices a cluster that hangs only with its next request. A monitor lives as
long as its connector is known to the process, over all of its instances; it writes only the
connector's status.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.idle_positions import IdlePositions
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.errors import ClusterError, SparkmirrorError, WireError, join_sentences
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_requests import metadata_request
from sparkmirror.policy.loading import load_policy
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.wire.backoff import Backoff

_POLL_SECONDS = 3.0
_STALE_SECONDS = 5.0  # tasks report every second
_START_SECONDS = 5.0  # for tasks; a start is not slowed down by reading positions
_TOPICS_SECONDS = 30.0  # between two reads of the source's topics
_CERTAIN_FAILURES = 2  # in a row, each after 5 s without an answer: the cluster is unreachable
_POSITION_PROBLEM, _END_PROBLEM = "lag positions", "lag"  # their keys in the status
_log = logging.getLogger(__name__)


class LagMonitor:
    """From `start` to `stop`; `stop` returns at once."""

    def __init__(self, settings: FlowSettings, status: Callable[[], FlowStatus]) -> None:
        """`status` returns the connector's current status: each instance has its own."""
        self._settings = settings
        self._status = status
        self._stop = threading.Event()
        self._partitions: list[MirroredPartition] | None = None
        self._topics_read_at = 0.0
        self._seen: FlowStatus | None = None
        self._seen_at = 0.0
        self._failures: Counter[str] = Counter()  # of requests in a row, by cluster
        self._thread = ScopedThread(
            target=self._run, name=f"{settings.flow}/source/lag", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    # --- its thread

    def _run(self) -> None:
        try:
            policy = load_policy(self._settings.policy, self._settings.flow)
            with closing(IdlePositions(self._settings, policy)) as idle:
                self._watch(idle)
        except SparkmirrorError as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception(
                "%s: reading the lag failed unexpectedly; restart the connector",
                self._settings.flow,
            )
            self._fail(f"{type(error).__name__}: {error}")

    def _fail(self, reason: str) -> None:
        self._status().set_problem(_END_PROBLEM, f"Cannot read the lag: {reason}")

    def _watch(self, idle: IdlePositions) -> None:
        backoff = Backoff()
        pause = _POLL_SECONDS
        while not self._stop.wait(pause):
            status = self._status()
            if status is not self._seen:
                self._seen, self._seen_at = status, time.monotonic()
            error = self._round(idle, status)
            pause = _POLL_SECONDS
            if error is None:
                backoff.reset()
            elif not error.retriable:  # users get locked out
                pause = backoff.next_pause(slow=True)

    def _round(self, idle: IdlePositions, status: FlowStatus) -> ClusterError | WireError | None:
        of_target = self._check(idle, idle.target, status)
        of_source = self._check(idle, idle.source, status)
        if of_source is not None:
            return of_source
        of_positions = None
        # Positions stay known without the target: what cannot be read cannot be written either.
        if of_target is None or not idle.is_state_on_target:
            of_positions = self._attempt(
                status, _POSITION_PROBLEM, lambda: self._read_positions(idle, status)
            )
        of_ends = self._attempt(status, _END_PROBLEM, lambda: self._read_ends(idle, status))
        return of_ends or of_positions or of_target

    def _check(
        self, idle: IdlePositions, client: ClusterClient, status: FlowStatus
    ) -> ClusterError | None:
        """Send a request to a cluster, and show in the status whether it answers."""
        cluster = client.connection.alias
        is_source = client is idle.source
        try:
            client.retry("checking the cluster", lambda: client.send(metadata_request([])))
        except ClusterError as error:
            self._failures[cluster] += 1
            if self._failures[cluster] >= _CERTAIN_FAILURES:
                status.set_unreachable(cluster, str(error), is_source=is_source)
            return error
        self._failures[cluster] = 0
        status.set_unreachable(cluster, "", is_source=is_source)
        return None

    def _attempt(
        self, status: FlowStatus, topic: str, step: Callable[[], str]
    ) -> ClusterError | WireError | None:
        """Run a step, which returns a problem or an empty string, and show its result."""
        try:
            problem = step()
        except (ClusterError, WireError) as error:
            status.set_problem(topic, f"The lag is not up to date: {error}")
            return error
        status.set_problem(topic, problem)
        return None

    def _read_positions(self, idle: IdlePositions, status: FlowStatus) -> str:
        """Read the positions of partitions without a task."""
        now = time.monotonic()
        if not status.has_others or now - self._seen_at < _START_SECONDS:
            return ""
        if self._partitions is None or now - self._topics_read_at >= _TOPICS_SECONDS:
            self._partitions = idle.partitions()
            self._topics_read_at = now
        status.set_scope(one.source for one in self._partitions)
        status.set_positions(idle.positions(self._partitions))
        return ""

    def _read_ends(self, idle: IdlePositions, status: FlowStatus) -> str:
        """Read the end offsets that no task reports; returns why some are unknown."""
        unreported = status.unreported_partitions(_STALE_SECONDS)
        if not unreported:
            return ""
        result = idle.source_admin.end_offsets(unreported, self._settings.fetch.isolation_level)
        status.set_end_offsets(result.found)
        return join_sentences(dict.fromkeys(str(error) for error in result.failed.values()))
