# SPDX-License-Identifier: Apache-2.0
"""Brokers under the control of a test.

`FakeCluster` replaces `wire.cluster.Cluster`: requests are queued until the test answers them, in
order per connection, or closes the connection. The test advances the clock of `FakeLoop`.
"""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.connection import Traffic
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import Timer
from sparkmirror.wire.metadata_cache import PartitionLeader

_PRODUCE_VERSION = 9
_FIRST_FLEXIBLE_FETCH = 12
_CLIENT_ID_AT = 12


class FakeLoop:
    """Timers fire when the test moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.now + seconds, callback)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass and run what is due."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _order, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.callback()
        self.now = end


class Request:
    """A request that waits for the test's answer."""

    def __init__(
        self,
        content: Any,
        reply: Callable[[Any], None],
        failure: Callable[[UnreachableError], None],
        version: int = 0,
    ) -> None:
        self.content = content
        self.version = version
        self._reply = reply
        self.fail = failure

    @property
    def batches(self) -> dict[TopicPartition, bytes]:
        """Of a produce request: the record batches as they were sent."""
        return {
            TopicPartition(topic.name, one.index): bytes(one.records)
            for topic in self.content.topic_data
            for one in topic.partition_data
        }

    @property
    def positions(self) -> dict[tuple[Any, int], int]:
        """The fetch offsets of a fetch request, by topic (name or id) and partition."""
        return {
            (
                topic.topic_id if self.version > _FIRST_FLEXIBLE_FETCH else topic.topic,
                one.partition,
            ): (one.fetch_offset)
            for topic in self.content.topics
            for one in topic.partitions
        }

    @property
    def most_of_a_partition(self) -> set[int]:
        """The maximum bytes per partition of a fetch request."""
        return {
            one.partition_max_bytes for topic in self.content.topics for one in topic.partitions
        }

    @property
    def forgotten(self) -> set[tuple[Any, int]]:
        """The partitions that a fetch request removes from its session."""
        return {
            (topic.topic_id if self.version > _FIRST_FLEXIBLE_FETCH else topic.topic, index)
            for topic in self.content.forgotten_topics_data
            for index in topic.partitions
        }

    def reply(self, message: Any) -> None:
        """Answer with a decoded message."""
        self._reply(message)

    def produced(self, results: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Answer a produce request: topic partition -> error code and base offset."""
        topic_class = ProduceResponse.TopicProduceResponse
        message = ProduceResponse(
            responses=[
                topic_class(
                    name=tp.topic,
                    partition_responses=[
                        topic_class.PartitionProduceResponse(
                            index=tp.partition,
                            error_code=code,
                            base_offset=base,
                            log_append_time_ms=-1,
                            log_start_offset=0,
                            record_errors=[],
                            error_message=None,
                        )
                    ],
                )
                for tp, (code, base) in results.items()
            ],
            throttle_time_ms=0,
        )
        self._reply(memoryview(b"\0\0\0\0\0" + bytes(message.encode(version=_PRODUCE_VERSION))))

    def fetched(
        self,
        *partitions: tuple[Any, Any],
        session_id: int = 1,
        error: int = 0,
    ) -> None:
        """Answer a fetch request: pairs of topic (name or id) and partition data."""
        topic_class = FetchResponse.FetchableTopicResponse
        field = "topic_id" if self.version > _FIRST_FLEXIBLE_FETCH else "topic"
        message = FetchResponse(
            throttle_time_ms=0,
            error_code=error,
            session_id=session_id,
            responses=[
                topic_class(partitions=[data], **{field: topic}) for topic, data in partitions
            ],
        )
        header = b"\0\0\0\0" if self.version < _FIRST_FLEXIBLE_FETCH else b"\0\0\0\0\0"
        raw = header + bytes(message.encode(version=self.version))
        self._reply(memoryview(bytearray(raw)))


def partition_data(
    index: int, records: bytes | bytearray | None = None, *, error: int = 0, end: int = 1_000
) -> Any:
    """One partition of a fetch response."""
    return FetchResponse.FetchableTopicResponse.PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=None if records is None else bytes(records),
    )


class FakeConnection:
    """Keeps requests in order until the test answers them."""

    def __init__(self, fetch_version: int) -> None:
        self.api_versions = {0: (3, 9), 1: (4, fetch_version)}
        self.address = Address("fake", 1)
        self.closed = False
        self.is_high_latency = False
        self.refused_keys: set[int] = set()  # of APIs that this broker does not know
        self.waiting: deque[Request] = deque()

    def when_ready(self, send: Callable[[], None], _failure: Callable[..., None]) -> None:
        send()

    def negotiated_version(self, api_key: int, newest: int) -> int:
        """As a broker that knows one range of versions."""
        low, high = self.api_versions.get(api_key, (0, -1))
        if high < low or newest < low:
            raise WireError("too old")
        return min(high, newest)

    def send_buffers(
        self,
        header: Callable[[int], bytes],
        body: list[Any],
        reply: Callable[[Any], None],
        failure: Callable[[UnreachableError], None],
    ) -> None:
        """A produce request; its bytes are read at this moment."""
        head = header(1)
        client_size = int.from_bytes(head[_CLIENT_ID_AT : _CLIENT_ID_AT + 2], "big")
        raw = (head + b"".join(body))[_CLIENT_ID_AT + 2 + client_size + 1 :]
        content = ProduceRequest.decode(raw, version=_PRODUCE_VERSION)
        self._keep(Request(content, reply, failure))

    def request(
        self,
        message: Any,
        reply: Callable[[Any], None],
        failure: Callable[..., None],
        *,
        newest: int,
    ) -> None:
        """Any other request with a decoded answer."""
        if message.API_KEY in self.refused_keys:
            raise WireError("not spoken here")
        self._keep(Request(message, reply, failure, newest))

    def request_raw(
        self,
        message: Any,
        reply: Callable[[Any], None],
        failure: Callable[..., None],
        *,
        newest: int,
    ) -> None:
        """A fetch request, as a broker of this version reads it; others as they are."""
        version = newest
        if isinstance(message, FetchRequest):
            version = self.negotiated_version(message.API_KEY, newest)
            message = FetchRequest.decode(message.encode(version=version), version=version)
        self._keep(Request(message, reply, failure, version))

    def _keep(self, request: Request) -> None:
        if self.closed:
            request.fail(UnreachableError("closed", cluster="fake"))
        else:
            self.waiting.append(request)

    def close(self, _reason: str) -> None:
        self.lose()

    def lose(self) -> None:
        """Break the connection: fail all pending requests in order."""
        self.closed = True
        waiting, self.waiting = self.waiting, deque()
        for request in waiting:
            request.fail(UnreachableError("lost", cluster="fake"))


class FakeCluster:
    """A cluster whose leaders and answers the test decides."""

    alias = "fake"

    def __init__(self, leaders: Mapping[TopicPartition, int], *, fetch_version: int = 12) -> None:
        self.leaders = {tp: PartitionLeader(node, 0) for tp, node in leaders.items()}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.topic_names: dict[uuid.UUID, str] = {}
        self.topic_errors: dict[str, int] = {}
        self.answered: set[str] = set()  # topics that it has said something about
        self.error: UnreachableError | None = None
        self.metadata_listeners: list[Callable[[], None]] = []
        self.wanted: set[str] = set()
        self.traffic = Traffic()
        self.refreshes = 0
        self.soonest = 60.0
        self.dead: set[int] = set()
        self.lanes = 99  # connections that a broker takes
        self._fetch_version = fetch_version
        self._connections: dict[tuple[int, int], FakeConnection] = {}

    def has_metadata(self, tp: TopicPartition) -> bool:
        """As the real cluster does it."""
        return tp in self.leaders or tp.topic in {*self.topic_errors, *self.answered}

    def track_topics(self, topics: Iterable[str]) -> None:
        """Metadata is there when the test says so."""
        self.wanted.update(topics)

    def refresh_metadata(self, after: float = 0.0, topics: object = None) -> None:
        """Count the requests, and record their delay."""
        del topics
        self.refreshes += 1
        self.soonest = min(self.soonest, after)

    def report_error(self, error: UnreachableError) -> None:
        """As the real cluster does it."""
        self.error = error
        self.refresh_metadata(after=1.0)

    def learn(self, leaders: Mapping[TopicPartition, int] | None = None) -> None:
        self.leaders.update({tp: PartitionLeader(node, 0) for tp, node in (leaders or {}).items()})
        for listener in self.metadata_listeners:
            listener()

    def connection(self, node: int, lane: int = 0) -> FakeConnection:
        """Return the connection to a broker; reopens a closed one."""
        if node in self.dead or lane >= self.lanes:
            raise UnreachableError("dead", cluster="fake")
        found = self._connections.get((node, lane))
        if found is None or found.closed:
            found = self._connections[node, lane] = FakeConnection(self._fetch_version)
        return found

    def next_node(self) -> int | None:
        """A broker that may be asked anything."""
        return 1

    def close(self) -> None: ...

    def leader_error(self, tp: TopicPartition) -> int:
        """Why a partition has no leader."""
        return self.topic_errors.get(tp.topic, error_codes.NO_LEADER)
