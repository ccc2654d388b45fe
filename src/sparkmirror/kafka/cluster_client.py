# SPDX-License-Identifier: Apache-2.0
"""One connected kafka-python client that carries any protocol message, and keeps at it.

kafka-python's ready-made methods raise on the first bad topic or drop error codes, so the control
plane sends its own messages. A `ClusterClient` belongs to one thread.

What holds connections is closed at the end of a `with` block.

Where a topic is: its id, which a topic created anew does not share, and who leads what.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from sparkmirror.errors import AuthenticationError, BrokerError, UnreachableError
from sparkmirror.kafka.clients import open_client
from sparkmirror.kafka.error_mapping import broker_error, cluster_error, unreachable_error
from sparkmirror.kafka.raw_responses import RawRequest, RawResponse
from sparkmirror.kafka.request import Request
from sparkmirror.kafka.topic_requests import metadata_request
from sparkmirror.model import TopicPartition
from sparkmirror.wire.settings import ConnectionSettings

T = TypeVar("T")

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
# What a partition answers while its leader is being elected or has just moved.
LEADER_CODES = frozenset({5, 6, 9, 74, 75, 78})
PAUSE_SECONDS = 0.2
# kafka-python stops at five on a connection, of which one may be its own.
_UNDER_WAY = 4
_THROTTLE_LOOK_SECONDS = 0.01

_NO_LEADER = -1


class _AdminTransport(KafkaAdminClient):  # type: ignore[misc] # kafka-python has no types
    def ask(
        self, request: Request, node_id: int | None, timeout_seconds: float | None, *, is_raw: bool
    ) -> Any:
        timeout_ms = None if timeout_seconds is None else round(timeout_seconds * 1000)
        message = self._in_range(request)
        if is_raw:
            message = RawRequest(message)
        return self._manager.run(self._manager.send, message, node_id, timeout_ms)

    def ask_all(self, requests: Sequence[Request], node_id: int | None) -> list[Any]:
        messages = [self._in_range(one) for one in requests]
        return list(self._manager.run(self._pipeline, messages, node_id))

    def _in_range(self, request: Request) -> Any:
        known = self._manager.broker_version_data
        request.message.API_VERSION = known.api_version(
            request.message, min_version=request.oldest, max_version=request.newest
        )
        return request.message

    async def _pipeline(self, requests: Sequence[object], node_id: int | None) -> list[Any]:
        node = self._manager.least_loaded_node() if node_id is None else node_id
        line = await self._manager.get_connection(node)
        sent: list[Any] = []
        for request in requests:
            if len(sent) >= _UNDER_WAY:
                await sent[-_UNDER_WAY]
            # A broker with a quota asks for a pause; kafka-python refuses to send meanwhile.
            while line.paused and line.connected:
                await self._net.sleep(_THROTTLE_LOOK_SECONDS)
            sent.append(line.send_request(request))
        return [await answer for answer in sent]

    def advertised(self) -> str:
        return ", ".join(f"{b.host}:{b.port}" for b in self._manager.cluster.brokers())


class ClusterClient:
    """Connects at the first question; a lost connection is opened anew."""

    def __init__(self, connection: ConnectionSettings, stop: threading.Event | None = None) -> None:
        """Once `stop` is set, nothing is tried a second time."""
        self.connection = connection
        self._stop = stop or threading.Event()
        self._client: _AdminTransport | None = None
        self._is_outdated = False

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Connect anew, in another way, at the next question; any thread may say so."""
        self.connection = connection
        self._is_outdated = True

    def close(self) -> None:
        """Closes the connections; a later question would open them again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def send(
        self, request: Request, node_id: int | None = None, timeout_seconds: float | None = None
    ) -> Any:
        """The answer of one broker, of any one if none is named; raises KafkaError."""
        return self._connected().ask(request, node_id, timeout_seconds, is_raw=False)

    def send_all(self, requests: Sequence[Request], node_id: int | None = None) -> list[Any]:
        """One broker's answers to many requests, of which some are under way at any time."""
        return self._connected().ask_all(requests, node_id)

    def send_raw(self, request: Request, node_id: int | None = None) -> RawResponse:
        """The same, not decoded yet."""
        answer: RawResponse = self._connected().ask(request, node_id, None, is_raw=True)
        return answer

    def metadata(self, names: Sequence[str] | None) -> Any:
        """Brokers, controller and the named topics: None means all, an empty list none."""
        return self.send(metadata_request(names))

    def send_to_controller(self, request: Request) -> Any:
        """The controller's answer."""
        controller = self.metadata([]).controller_id
        if controller < 0:
            raise unreachable_error(
                self.connection, "finding the controller", "there is none just now"
            )
        return self.send(request, controller)

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
        """Does a step, again from its beginning while brokers that it needs do not answer.

        A broker that has just died is still listed for some seconds, so a cluster counts as
        unreachable only when nothing worked for its connect timeout.
        """
        deadline = time.monotonic() + self.connection.connect_timeout_seconds
        while True:
            try:
                return step()
            except KafkaError as error:
                advertised = self._client.advertised() if self._client else ""
                failure = cluster_error(self.connection, doing, error, advertised)
                if isinstance(failure, (UnreachableError, AuthenticationError)):
                    self.close()
                if not isinstance(failure, UnreachableError):
                    raise failure from error
                is_last = time.monotonic() + PAUSE_SECONDS >= deadline
                if is_last or self._stop.wait(PAUSE_SECONDS):
                    raise failure from error

    def broker_error(
        self, doing: str, code: int, topic: str | None, message: str | None = None
    ) -> BrokerError:
        """A broker's error code, about one topic if one is named."""
        return broker_error(self.connection, doing, code, message, topic)

    def _connected(self) -> _AdminTransport:
        if self._is_outdated:
            self._is_outdated = False
            self.close()
        if self._client is None:
            self._client = open_client(_AdminTransport, self.connection)
        return self._client


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
    """Ask any broker; BrokerError if we have no such topic, KafkaError if nobody answers."""
    (found,) = client.metadata([topic]).topics
    if found.error_code not in (0, LEADER_NOT_AVAILABLE):
        raise client.broker_error("describing a topic", found.error_code, topic)
    leaders = {one.partition_index: one.leader_id for one in found.partitions}
    return TopicLeaders(
        topic,
        found.topic_id if found.topic_id is not None and found.topic_id.int else None,
        tuple(leaders.get(index, _NO_LEADER) for index in range(len(leaders))),
    )
