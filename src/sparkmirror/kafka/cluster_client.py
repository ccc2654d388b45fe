# SPDX-License-Identifier: Apache-2.0
"""One connected kafka-python client that carries any protocol message, and keeps at it.

kafka-python's ready-made methods raise on the first bad topic or drop error codes, so the control
plane sends its own messages. A `ClusterClient` belongs to one thread.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from sparkmirror.errors import AuthenticationError, BrokerError, UnreachableError
from sparkmirror.kafka.clients import Connection, open_client
from sparkmirror.kafka.failures import cluster_error, code_error, no_answer
from sparkmirror.kafka.raw_answers import RawAnswer, RawRequest
from sparkmirror.kafka.requests import metadata_request
from sparkmirror.model import TopicPartition

T = TypeVar("T")

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
# What a partition answers while its leader is being elected or has just moved.
LEADER_CODES = frozenset({5, 6, 9, 74, 75, 78})
PAUSE_SECONDS = 0.2
# kafka-python stops at five on a connection, of which one may be its own.
_UNDER_WAY = 4
_THROTTLE_LOOK_SECONDS = 0.01


class _RequestClient(KafkaAdminClient):  # type: ignore[misc] # kafka-python has no types
    def ask(self, request: object, node_id: int | None, timeout_seconds: float | None) -> Any:
        timeout_ms = None if timeout_seconds is None else round(timeout_seconds * 1000)
        return self._manager.run(self._manager.send, request, node_id, timeout_ms)

    def ask_all(self, requests: Sequence[object], node_id: int | None) -> list[Any]:
        return list(self._manager.run(self._pipeline, requests, node_id))

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

    def __init__(self, connection: Connection, stop: threading.Event | None = None) -> None:
        """Once `stop` is set, nothing is tried a second time."""
        self.connection = connection
        self._stop = stop or threading.Event()
        self._client: _RequestClient | None = None
        self._is_outdated = False

    def renew(self, connection: Connection) -> None:
        """Connect anew, in another way, at the next question; any thread may say so."""
        self.connection = connection
        self._is_outdated = True

    def close(self) -> None:
        """Closes the connections; a later question would open them again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def ask(
        self, request: object, node_id: int | None = None, timeout_seconds: float | None = None
    ) -> Any:
        """The answer of one broker, of any one if none is named; raises KafkaError."""
        return self._opened().ask(request, node_id, timeout_seconds)

    def ask_all(self, requests: Sequence[object], node_id: int | None = None) -> list[Any]:
        """One broker's answers to many requests, of which some are under way at any time."""
        return self._opened().ask_all(requests, node_id)

    def ask_raw(self, request: object, node_id: int | None = None) -> RawAnswer:
        """The same, not decoded yet."""
        answer: RawAnswer = self.ask(RawRequest(request), node_id)
        return answer

    def metadata(self, names: Sequence[str] | None) -> Any:
        """Brokers, controller and the named topics: None means all, an empty list none."""
        return self.ask(metadata_request(names))

    def order(self, make_request: Callable[[], object]) -> Any:
        """The controller's answer."""
        controller = self.metadata([]).controller_id
        if controller < 0:
            raise no_answer(self.connection, "finding the controller", "there is none just now")
        return self.ask(make_request(), controller)

    def leaders(
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

    def persist(self, doing: str, step: Callable[[], T]) -> T:
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

    def error(
        self, doing: str, code: int, topic: str | None, message: str | None = None
    ) -> BrokerError:
        """A broker's error code, about one topic if one is named."""
        return code_error(self.connection, doing, code, message, topic)

    def _opened(self) -> _RequestClient:
        if self._is_outdated:
            self._is_outdated = False
            self.close()
        if self._client is None:
            self._client = open_client(_RequestClient, self.connection)
        return self._client
