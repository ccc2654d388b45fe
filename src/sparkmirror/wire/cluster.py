# SPDX-License-Identifier: Apache-2.0
"""Topic metadata of one cluster, and a connection to each of its brokers (`Brokers`).

Requests metadata when a topic is missing (`track_topics`) or its metadata is stale
(`refresh_metadata`): one request at a time, with exponential backoff while no broker answers. Each
request goes to the next broker, because one of them may have stale metadata. Owned by the loop's
thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import UnreachableError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.brokers import Brokers
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.dns_resolver import RESOLVER, DnsResolver
from sparkmirror.wire.event_loop import EventLoop, Timer
from sparkmirror.wire.metadata_cache import MetadataCache
from sparkmirror.wire.settings import ConnectionSettings

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_ERROR_PAUSE = 1.0
_METADATA_VERSION = 12
_ENOUGH_BROKERS = 3  # open no further connections for metadata alone


class Cluster:
    """The metadata and connections of one task."""

    def __init__(
        self, loop: EventLoop, settings: ConnectionSettings, resolver: DnsResolver = RESOLVER
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._brokers = Brokers(
            loop, settings, resolver=resolver, on_ready=BrokerConnection.measure_round_trip
        )
        self.traffic = self._brokers.traffic
        self._topics: set[str] = set()
        self._missing: set[str] = set()  # to request, unless a response describes them first
        self._due: set[str] = set()  # to request in any case
        self._is_all_due = False
        self._in_flight = False
        self._last_node = -1
        self._unchanged_responses = 0  # consecutive responses without a change
        self._pause = 0.0
        self._timer: Timer | None = None
        self._requested_at = 0.0
        self._metadata = MetadataCache()
        self.leaders = self._metadata.leaders
        self.topic_ids = self._metadata.topic_ids
        self.topic_names = self._metadata.topic_names
        self.topic_errors = self._metadata.topic_errors
        self.error: UnreachableError | None = None
        self.metadata_listeners: list[Callable[[], None]] = []

    @property
    def alias(self) -> str:
        """The cluster's name in the configuration."""
        return self._settings.alias

    # --- metadata

    def track_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics; request it for those that are unknown."""
        topics = set(topics)
        self._topics |= topics
        missing = {topic for topic in topics if not self._metadata.is_found(topic)}
        if missing:
            self._missing |= missing
            self._schedule(0.0)

    def refresh_metadata(self, after: float = 0.0, topics: Iterable[str] | None = None) -> None:
        """Request the metadata of these topics (default: all) after a delay; coalesces calls."""
        if topics is None:
            self._is_all_due = True
        else:
            self._due.update(topics)
        self._schedule(after)

    def _schedule(self, after: float) -> None:
        if self._in_flight:
            return  # the response triggers the next request
        now = time.monotonic()
        delay = max(after, self._requested_at + self._pause - now, 0.0)
        if self._timer is not None:
            if self._timer.due <= now + delay:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._request_metadata)

    def _request_metadata(self) -> None:
        self._timer = None
        self._in_flight = True
        self._requested_at = time.monotonic()
        names = sorted(self._topics if self._is_all_due else self._due | self._missing)
        self._due.clear()
        self._missing.clear()
        self._is_all_due = False

        def failed(error: UnreachableError) -> None:
            self._on_failure(names, error)

        try:
            connection = self._any_connection()
        except UnreachableError as error:
            failed(error)
            return
        connection.when_ready(lambda: self._send_request(connection, names, failed), failed)

    def _send_request(
        self,
        connection: BrokerConnection,
        names: list[str],
        failed: Callable[[UnreachableError], None],
    ) -> None:
        message = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(topic_id=None, name=n) for n in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        connection.request(message, self._on_metadata, failed, newest=_METADATA_VERSION)

    def _any_connection(self) -> BrokerConnection:
        """Return a connection to the next broker in turn."""
        ready = self._brokers.ready_nodes()
        if ready:
            if len(ready) <= self._unchanged_responses and len(ready) < _ENOUGH_BROKERS:
                self._open_another()
            later = (node for node in ready if node > self._last_node)
            self._last_node = next(later, ready[0])
            return self._brokers.connection(self._last_node)
        return self._brokers.bootstrap_connection()

    def _open_another(self) -> None:
        """Open a connection to one more broker, for later requests."""
        node = self.next_node()
        if node is not None:
            with suppress(UnreachableError):  # the connected brokers can still serve requests
                self.connection(node)

    def _on_failure(self, names: Collection[str], error: UnreachableError) -> None:
        self._in_flight = False
        self._due.update(names)
        self._is_all_due |= not names
        self.error = error
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._schedule(0.0)

    def _on_metadata(self, answer: Any) -> None:
        self._in_flight = False
        self.error = None
        self._pause = _FIRST_PAUSE
        self._brokers.learn(answer.brokers)
        changes = [self._metadata.update(topic) for topic in answer.topics]
        self._unchanged_responses = 0 if any(changes) else self._unchanged_responses + 1
        for listener in self.metadata_listeners:
            listener()
        self._missing = {one for one in self._missing if not self._metadata.is_found(one)}
        if self._is_all_due or self._due or self._missing:
            self._schedule(0.0)

    # --- brokers

    def connection(self, node: int, lane: int = 0) -> BrokerConnection:
        """See `Brokers.connection`."""
        return self._brokers.connection(node, lane)

    def next_node(self) -> int | None:
        """See `Brokers.next_node`."""
        return self._brokers.next_node()

    def report_error(self, error: UnreachableError) -> None:
        """Record that a broker does not answer, until the next metadata response."""
        self.error = error
        self.refresh_metadata(after=_ERROR_PAUSE)

    def has_metadata(self, tp: TopicPartition) -> bool:
        """Whether the metadata has the partition's topic, or an error for it."""
        return tp in self.leaders or self._metadata.has_response(tp.topic)

    def leader_error(self, tp: TopicPartition) -> int:
        """The error code that says why a partition has no known leader."""
        return self.topic_errors.get(tp.topic, error_codes.NO_LEADER)

    def check_timeouts(self) -> None:
        """Close idle connections and those with a timed out request; call about once a second."""
        self._brokers.check_timeouts()

    def close(self) -> None:
        self.metadata_listeners.clear()
        self._brokers.close("the task ended")
        if self._timer is not None:
            self._timer.cancel()
