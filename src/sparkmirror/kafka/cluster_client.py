# SPDX-License-Identifier: Apache-2.0
"""Blocking requests to one cluster, with retries and messages for users; where topics are.

What holds connections is closed at the end of a `with` block.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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
# What a partition answers while its leader is being elected or has just moved.
LEADER_CODES = frozenset({5, 6, 9, 74, 75, 78})
PAUSE_SECONDS = 0.2

_NO_LEADER = -1


class ClusterClient:
    """Connects when a request needs it, and again after a failure.

    For one thread at a time; `close`, `interrupt` and `update_connection` are for any thread.
    Requests raise ConnectionLostError or UnsupportedVersionError; within `retry` these become
    errors for users.
    """

    def __init__(
        self,
        connection: ConnectionSettings,
        stop: threading.Event | None = None,
        *,
        make_loop: Callable[[], EventLoop] = EventLoop,
    ) -> None:
        """Once `stop` is set, nothing is tried a second time."""
        self.connection = connection
        self._stop = stop or threading.Event()
        self._make_loop = make_loop
        self._lock = threading.Lock()  # held while a request runs
        self._loop: EventLoop | None = None
        self._session: BrokerSession | None = None
        self._is_outdated = False
        self._is_aborted = False  # the request that runs is to fail
        self._interrupted = threading.Event()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other settings: connect again with the next request."""
        self.connection = connection
        self._is_outdated = True

    def close(self) -> None:
        """Close the connections; a request that runs fails, a later one opens them again."""
        if self._lock.acquire(blocking=False):
            try:
                self._close_session()
            finally:
                self._lock.release()
        else:
            self._is_aborted = True
            self._wake()

    def interrupt(self) -> None:
        """Make the request that runs and every later one fail at once."""
        self._interrupted.set()
        self._wake()

    def pause(self, seconds: float) -> None:
        """Wait; `interrupt` ends it early."""
        self._interrupted.wait(seconds)

    def close_if_idle(self, now: float) -> float | None:
        """Close connections that are idle for too long; called by `IdleClients`."""
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
        """The response of one broker; of any broker if none is named."""
        return self._run([Send(request, node_id)], timeout_seconds)[0]

    def send_raw(self, request: Request, node_id: int | None = None) -> RawResponse:
        """The same, not decoded yet."""
        found: RawResponse = self._run([Send(request, node_id, is_raw=True)])[0]
        return found

    def send_all(
        self, requests: Sequence[Request], node_id: int | None = None, *, lanes: int = 1
    ) -> list[Any]:
        """One broker's responses to many requests, on several connections if `lanes` says so."""
        return self._run([Send(one, node_id, at % lanes) for at, one in enumerate(requests)])

    def send_to_each(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        """The responses of several brokers at once, by node."""
        found = self._run([Send(request, node) for node, request in requests.items()])
        return dict(zip(requests, found, strict=True))

    def metadata(self, names: Sequence[str] | None) -> Any:
        """Brokers, controller and the named topics: None means all, an empty list none."""
        (answer,) = self._run([Send(metadata_request(names))])
        with self._lock:
            if self._session is not None:
                self._session.brokers.learn(answer.brokers)
        return answer

    def send_to_controller(self, request: Request) -> Any:
        """The controller's response."""
        controller = self.metadata([]).controller_id
        if controller < 0:
            raise unreachable_error(
                self.connection, "finding the controller", "there is none just now"
            )
        return self.send(request, controller)

    def addresses(self) -> dict[int, Address]:
        """The advertised addresses of the brokers, by node."""
        with self._lock:
            return dict(self._opened().brokers.addresses)

    def api_versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        """The oldest and newest version of each API that a broker supports."""
        with self._lock:
            return dict(self._opened().api_versions(node_id))

    def partitions_by_leader(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, int]]:
        """The partitions by leader, and error codes for those that have none."""
        missing = set(topic_partitions)
        answer = self.metadata(sorted({tp.topic for tp in missing}))
        leaders: dict[int, list[TopicPartition]] = defaultdict(list)
        failed: dict[TopicPartition, int] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
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
        """Run a step, again from its beginning while brokers that it needs do not answer.

        A broker that has just died is still listed for some seconds, so a cluster counts as
        unreachable only when nothing worked for its connect timeout.
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

    def failure(self, doing: str, error: RequestError) -> ClusterError:
        """The error for users that says what a failed request means."""
        session = self._session
        addresses = {} if session is None else session.brokers.addresses
        return cluster_error(self.connection, doing, error, ", ".join(map(str, addresses.values())))

    def broker_error(
        self, doing: str, code: int, topic: str | None, message: str | None = None
    ) -> BrokerError:
        """A broker's error code, about one topic if one is named."""
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
    """A context manager by its `close`."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; a later question may open them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """What a broker said about one topic; good until somebody answers that it is not so."""

    topic: str
    topic_id: uuid.UUID | None  # brokers before Kafka 2.8 have none
    leaders: tuple[int, ...]  # of each partition; -1 where there is none just now

    @property
    def partitions(self) -> list[TopicPartition]:
        """All of them."""
        return [TopicPartition(self.topic, index) for index in range(len(self.leaders))]

    @property
    def has_all_leaders(self) -> bool:
        """Whether every partition has a leader."""
        return _NO_LEADER not in self.leaders

    def by_leader(self, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Those of the partitions that have a leader, by it."""
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in wanted:
            leader = self.leaders[tp.partition]
            if leader != _NO_LEADER:
                found[leader].append(tp)
        return found


def find_topic_leaders(client: ClusterClient, topic: str) -> TopicLeaders:
    """Ask any broker; BrokerError if there is no such topic, else as `ClusterClient.send`."""
    (found,) = client.metadata([topic]).topics
    if found.error_code not in (0, LEADER_NOT_AVAILABLE):
        raise client.broker_error("describing a topic", found.error_code, topic)
    leaders = {one.partition_index: one.leader_id for one in found.partitions}
    return TopicLeaders(
        topic,
        found.topic_id if found.topic_id is not None and found.topic_id.int else None,
        tuple(leaders.get(index, _NO_LEADER) for index in range(len(leaders))),
    )
