# SPDX-License-Identifier: Apache-2.0
"""A cluster as a task sees it: topic metadata, and a connection to each broker (`Brokers`).

Metadata is requested when something is missing (`track_topics`) or wrong (`refresh_metadata`), one
request at a time, with a growing pause while no broker answers. Each request goes to another
broker, because one of them may have stale metadata. Owned by the loop's thread.
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
_ENOUGH_BROKERS = 3  # to ask in turn; no further connections are opened for metadata alone


class Cluster:
    """A cluster as seen from one task."""

    def __init__(
        self, loop: EventLoop, settings: ConnectionSettings, resolver: DnsResolver = RESOLVER
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._brokers = Brokers(
            loop, settings, resolver=resolver, on_ready=BrokerConnection.measure_round_trip
        )
        self._topics: set[str] = set()
        self._missing: set[str] = set()  # topics to ask about unless an answer comes before
        self._due: set[str] = set()  # topics to ask about in any case
        self._is_all_due = False
        self._in_flight = False
        self._last_node = -1
        self._unchanged_responses = 0  # answers in a row that said nothing new
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
        """Keep track of these topics, and ask about those that are not known yet."""
        topics = set(topics)
        self._topics |= topics
        missing = {topic for topic in topics if not self._metadata.is_found(topic)}
        if missing:
            self._missing |= missing
            self._schedule(0.0)

    def refresh_metadata(self, after: float = 0.0, topics: Iterable[str] | None = None) -> None:
        """Ask about these topics, or all, soon or after a pause; many calls become one request."""
        if topics is None:
            self._is_all_due = True
        else:
            self._due.update(topics)
        self._schedule(after)

    def _schedule(self, after: float) -> None:
        if self._in_flight:
            return  # what is due is asked after the answer
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
        """To another broker than the last time, if there is one to another."""
        ready = self._brokers.ready_nodes()
        if ready:
            if len(ready) <= self._unchanged_responses and len(ready) < _ENOUGH_BROKERS:
                self._open_another()
            later = (node for node in ready if node > self._last_node)
            self._last_node = next(later, ready[0])
            return self._brokers.connection(self._last_node)
        return self._brokers.bootstrap_connection()

    def _open_another(self) -> None:
        """Open a connection to one more broker; once it is ready it is asked in its turn."""
        node = self.next_node()
        if node is not None:
            with suppress(UnreachableError):  # those that are connected can be asked
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
        is_news = [self._metadata.update(topic) for topic in answer.topics]
        self._unchanged_responses = 0 if any(is_news) else self._unchanged_responses + 1
        for listener in self.metadata_listeners:
            listener()
        self._missing = {one for one in self._missing if not self._metadata.is_found(one)}
        if self._is_all_due or self._due or self._missing:
            self._schedule(0.0)

    # --- brokers

    def connection(self, node: int, lane: int = 0) -> BrokerConnection:
        """The connection to a broker, opened if need be; raises UnreachableError at once.

        Another lane is another connection: a broker answers one request of each at a time.
        """
        return self._brokers.connection(node, lane)

    def next_node(self) -> int | None:
        """A broker for any request; another one each time."""
        return self._brokers.next_node()

    def report_error(self, error: UnreachableError) -> None:
        """A broker does not answer: show it until the cluster answers about its brokers again."""
        self.error = error
        self.refresh_metadata(after=_ERROR_PAUSE)

    def has_metadata(self, tp: TopicPartition) -> bool:
        """Whether the cluster has answered about the partition's topic, well or badly."""
        return tp in self.leaders or self._metadata.has_response(tp.topic)

    def leader_error(self, tp: TopicPartition) -> int:
        """Why a partition has no known leader, as an error code."""
        return self.topic_errors.get(tp.topic, error_codes.NO_LEADER)

    def check_timeouts(self) -> None:
        """Close connections whose requests have waited too long, and those that nobody uses.

        Called about once a second.
        """
        self._brokers.check_timeouts()

    def close(self) -> None:
        """Close every connection."""
        self.metadata_listeners.clear()
        self._brokers.close("the task ended")
        if self._timer is not None:
            self._timer.cancel()
