# SPDX-License-Identifier: Apache-2.0
"""Blocking requests to one cluster, with retries and errors for users; leaders of topics."""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from sparkmirror.errors import (
    AuthenticationError,
    BrokerError,
    ClusterError,
    UnreachableError,
)
from sparkmirror.kafka.broker_session import BrokerSession, Send
from sparkmirror.kafka.error_mapping import (
    REQUEST_ERRORS,
    RequestError,
    broker_error,
    closed_client_error,
    cluster_error,
    unreachable_error,
)
from sparkmirror.kafka.idle_clients import IDLE_CLIENTS
from sparkmirror.kafka.request import RawResponse, Request
from sparkmirror.kafka.topic_requests import metadata_request
from sparkmirror.model import TopicPartition
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings

T = TypeVar("T")

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
# Error codes of a partition whose leader is being elected or has just moved.
LEADER_CODES = frozenset({5, 6, 9, 74, 75, 78})
PAUSE_SECONDS = 0.2

_NO_LEADER = -1


class ClusterClient:
    """Connects on demand, and again after a failure.

    For one thread at a time; `close`, `interrupt` and `update_connection` are thread-safe. Requests
    raise ConnectionLostError or UnsupportedVersionError; `retry` maps these to errors for users.
    """

    def __init__(
        self,
        connection: ConnectionSettings,
        stop: threading.Event | None = None,
        *,
        make_loop: Callable[[], EventLoop] = EventLoop,
    ) -> None:
        """Once `stop` is set, `retry` does not retry."""
        self.connection = connection
        self._stop = stop or threading.Event()
        self._make_loop = make_loop
        self._lock = threading.Lock()  # held while a request runs
        self._loop: EventLoop | None = None
        self._session: BrokerSession | None = None
        self._is_outdated = False
        self._is_aborted = False  # the running request must fail
        self._interrupted = threading.Event()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Reconnect with new settings at the next request."""
        self.connection = connection
        self._is_outdated = True

    def close(self) -> None:
        """Close the connections; a running request fails, a later one reconnects."""
        if self._lock.acquire(blocking=False):
            try:
                self._close_session()
            finally:
                self._lock.release()
        else:
            self._is_aborted = True
            self._wake()

    def interrupt(self) -> None:
        """Make the running request and every later one fail immediately."""
        self._interrupted.set()
        self._wake()

    def pause(self, seconds: float) -> None:
        """Sleep; `interrupt` ends it early."""
        self._interrupted.wait(seconds)

    def close_if_idle(self, now: float) -> float | None:
        """Close idle connections; called by `IdleClients`. Returns when to call again."""
        longest = self.connection.max_idle_seconds
        if longest is None:
            return None
        if not self._lock.acquire(blocking=False):
            return now + longest
        try:
            if self._session is None:
                return None
            if now < self._session.used_at + longest:
                return self._session.used_at + longest
            self._close_session()
            return None
        finally:
            self._lock.release()

    def send(
        self,
        request: Request,
        node_id: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Any:
        """Return the response of one broker (default: any)."""
        return self._run([Send(request, node_id)], timeout_seconds)[0]

    def send_raw(self, request: Request) -> RawResponse:
        """Like `send`, but does not decode the response."""
        found: RawResponse = self._run([Send(request, None, is_raw=True)])[0]
        return found

    def send_all(
        self, requests: Sequence[Request], node_id: int | None = None, *, lanes: int = 1
    ) -> list[Any]:
        """Return one broker's responses to many requests, sent on `lanes` connections."""
        return self._run([Send(one, node_id, at % lanes) for at, one in enumerate(requests)])

    def send_to_each(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        """Send to several brokers in parallel; returns the responses by node."""
        found = self._run([Send(request, node) for node, request in requests.items()])
        return dict(zip(requests, found, strict=True))

    def metadata(self, names: Sequence[str] | None) -> Any:
        """Request brokers, controller and the named topics (None: all topics)."""
        (answer,) = self._run([Send(metadata_request(names))])
        with self._lock:
            if self._session is not None:
                self._session.brokers.learn(answer.brokers)
        return answer

    def send_to_controller(self, request: Request) -> Any:
        controller = self.metadata([]).controller_id
        if controller < 0:
            reason = "the cluster has no controller now"
            raise unreachable_error(self.connection, "finding the controller", reason)
        return self.send(request, controller)

    def addresses(self) -> dict[int, Address]:
        """Return the advertised addresses of the brokers, by node."""
        with self._lock:
            return dict(self._opened().brokers.addresses)

    def api_versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        """Return the oldest and newest supported version of each API, by API key."""
        with self._lock:
            return dict(self._opened().api_versions(node_id))

    def partitions_by_leader(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, int]]:
        """Return the partitions by leader, and error codes for those without a leader."""
        missing = set(topic_partitions)
        answer = self.metadata(sorted({tp.topic for tp in missing}))
        leaders: dict[int, list[TopicPartition]] = defaultdict(list)
        failed: dict[TopicPartition, int] = {}
        for tp, partition in partition_results(answer.topics):
            if tp not in missing:
                continue
            missing.discard(tp)
            if partition.leader_id >= 0:
                leaders[partition.leader_id].append(tp)
            else:
                failed[tp] = LEADER_NOT_AVAILABLE
        codes = {topic.name: topic.error_code for topic in answer.topics}
        failed |= {tp: codes.get(tp.topic) or UNKNOWN_TOPIC_OR_PARTITION for tp in missing}
        return leaders, failed

    def retry(self, doing: str, step: Callable[[], T]) -> T:
        """Run a step; repeat it while brokers do not respond, up to the connect timeout.

        The metadata lists a broker for some seconds after its crash, so one failure does not mean
        that the cluster is unreachable.
        """
        deadline = time.monotonic() + self.connection.connect_timeout_seconds
        while True:
            try:
                return step()
            except REQUEST_ERRORS as error:
                failure = self.failure(doing, error)
                if isinstance(failure, (UnreachableError, AuthenticationError)):
                    self.close()
                if not isinstance(failure, UnreachableError):
                    raise failure from error
                is_last = time.monotonic() + PAUSE_SECONDS >= deadline
                if is_last or self._stop.wait(PAUSE_SECONDS):
                    raise failure from error

    def retry_on_controller(self, doing: str, request: Request) -> Any:
        """Send a request to the controller, with `retry`."""
        return self.retry(doing, lambda: self.send_to_controller(request))

    def failure(self, doing: str, error: RequestError) -> ClusterError:
        """Map a failed request to an error for users."""
        session = self._session
        addresses = {} if session is None else session.brokers.addresses
        return cluster_error(self.connection, doing, error, ", ".join(map(str, addresses.values())))

    def broker_error(
        self, doing: str, code: int, topic: str | None, message: str | None = None
    ) -> BrokerError:
        """Map a broker's error code to an error for users."""
        return broker_error(self.connection, doing, code, message, topic)

    def _run(self, sends: Sequence[Send], timeout_seconds: float | None = None) -> list[Any]:
        with self._lock:
            return self._opened().run(sends, timeout_seconds)

    def _opened(self) -> BrokerSession:
        self._is_aborted = False
        if self._interrupted.is_set():
            raise closed_client_error(self.connection)
        if self._is_outdated:
            self._is_outdated = False
            self._close_session()
        if self._session is None or self._session.is_closed:
            self._loop = self._make_loop()
            session = BrokerSession(self.connection, self._loop, self._is_interrupted)
            try:
                session.open()
            except BaseException:
                session.close()
                raise
            self._session = session
            if self.connection.max_idle_seconds is not None:
                due = time.monotonic() + self.connection.max_idle_seconds
                IDLE_CLIENTS.add(self, due)
        return self._session

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
            IDLE_CLIENTS.remove(self)

    def _is_interrupted(self) -> bool:
        return self._is_aborted or self._interrupted.is_set()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.wake()


class Closable(ABC):
    """A context manager that calls `close` at its end."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; a later request may reconnect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AdminClient(Closable):
    """Base of the admin classes; `close` also closes a shared client."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        self._client = client or ClusterClient(connection)

    @property
    def alias(self) -> str:
        """The cluster's alias."""
        return self._client.connection.alias

    def close(self) -> None:
        self._client.close()


def partition_results(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield the partitions of a response's topics."""
    for topic in topics:
        for one in topic.partitions:
            yield TopicPartition(topic.name, one.partition_index), one


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """The topic id and leaders of one topic, from a metadata response."""

    topic: str
    topic_id: uuid.UUID | None  # None from brokers before Kafka 2.8
    leaders: tuple[int, ...]  # by partition; -1 without a leader

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, index) for index in range(len(self.leaders))]

    @property
    def has_all_leaders(self) -> bool:
        return _NO_LEADER not in self.leaders

    def by_leader(self, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions that have a leader, by leader."""
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in wanted:
            leader = self.leaders[tp.partition]
            if leader != _NO_LEADER:
                found[leader].append(tp)
        return found


def find_topic_leaders(client: ClusterClient, topic: str) -> TopicLeaders:
    """Request the leaders of a topic; BrokerError if it does not exist. Does not retry."""
    (found,) = client.metadata([topic]).topics
    if found.error_code not in (0, LEADER_NOT_AVAILABLE):
        raise client.broker_error("describing a topic", found.error_code, topic)
    leaders = {one.partition_index: one.leader_id for one in found.partitions}
    return TopicLeaders(
        topic,
        found.topic_id if found.topic_id is not None and found.topic_id.int else None,
        tuple(leaders.get(index, _NO_LEADER) for index in range(len(leaders))),
    )
