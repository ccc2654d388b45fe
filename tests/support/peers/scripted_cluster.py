# SPDX-License-Identifier: Apache-2.0
"""A Kafka cluster of one broker in the test's thread: real protocol, real sockets, scripted logs.

The broker is driven by the event loop of the code under test, through socket pairs, so a test has
one thread and no waiting. It answers the requests of each connection in order; a fetch without
data waits in the loop's time. `ScriptedLog` holds what a partition contains.
"""

from __future__ import annotations

import selectors
import socket
import struct
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from sparkmirror.model import TopicPartition
from sparkmirror.wire.event_loop import EventLoop
from support.peers import scripted_group
from support.peers.scripted_log import ScriptedLog

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_PRODUCERS = 22, 23, 61
UNKNOWN_TOPIC, TIMED_OUT = 3, 7
NODE = 1
EARLIEST = -2
_REQUESTS = {
    one.API_KEY: one
    for one in (
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        ApiVersionsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        DescribeProducersRequest,
        *scripted_group.REQUESTS,
    )
}
_VERSIONS = {
    PRODUCE: (3, 9),
    FETCH: (4, 13),
    LIST_OFFSETS: (1, 7),
    METADATA: (0, 12),
    API_VERSIONS: (0, 3),
    INIT_PRODUCER_ID: (0, 4),
    OFFSET_FOR_LEADER_EPOCH: (2, 4),
    DESCRIBE_PRODUCERS: (0, 0),
}
_HEAD = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")
_IDS_VERSION = 13
_ports = iter(range(20_001, 10**9))


class DelayedResponse:
    """A response that is due after a delay, or when something is appended."""

    def __init__(self, seconds: float, answer: Callable[[], Any], *, ends_early: bool) -> None:
        self.seconds = seconds
        self.answer = answer
        self.ends_early = ends_early


class ScriptedCluster:
    """Topics by name, and the requests that were served."""

    def __init__(self, alias: str, topics: Iterable[str], partitions: int = 1) -> None:
        self.alias = alias
        self.address = ("127.0.0.1", next(_ports))  # only a name: nothing listens there
        self.logs: dict[TopicPartition, ScriptedLog] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.api_versions = dict(_VERSIONS)
        self.requests: Counter[int] = Counter()  # by API key
        self.refusals: dict[int, int] = {}  # the error code of every partition, by API key
        self.topic_refusals: dict[tuple[int, str], int] = {}  # the same for one topic
        self.after_request: Callable[[int, Any], None] = lambda _key, _request: None
        self._producer_ids = iter(range(1_000, 10**9))
        self._lines: list[_ServerConnection] = []
        self._loop: EventLoop | None = None
        self._group: scripted_group.ScriptedGroup | None = None
        for topic in topics:
            self.create(topic, partitions)

    # --- what tests do

    def create(self, topic: str, partitions: int = 1) -> None:
        """A topic without records; one that exists is deleted and created again."""
        self.topic_ids[topic] = uuid.uuid5(uuid.NAMESPACE_OID, f"{topic} {len(self.topic_ids)}")
        if TopicPartition(topic, 0) in self.logs:
            self.topic_ids[topic] = uuid.uuid5(self.topic_ids[topic], "again")
        for index in range(partitions):
            self.logs[TopicPartition(topic, index)] = ScriptedLog()

    def log(self, topic: str, partition: int = 0) -> ScriptedLog:
        """The log of a partition."""
        return self.logs[TopicPartition(topic, partition)]

    def switch_off(self, api_key: int) -> None:
        """Offer an API no longer."""
        del self.api_versions[api_key]

    def add_group(self, group: scripted_group.ScriptedGroup) -> None:
        """Be the coordinator of a group."""
        self._group = group
        self.api_versions |= scripted_group.VERSIONS

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    def attach(self, loop: EventLoop) -> None:
        """Serve with this loop from now on; connections of another one are gone."""
        self.drop_connections()
        self._loop = loop

    def drop_connections(self) -> None:
        """Close all connections; requests that were not read are lost."""
        for line in [*self._lines]:
            line.close()
        self._lines.clear()

    def land(self, most: int) -> None:
        """Process requests that a dead client left in its connections, without responses."""
        for line in [*self._lines]:
            most -= line.land(most)

    def connect(self) -> socket.socket:
        """The client's end of a new connection."""
        ours, theirs = socket.socketpair()
        for one in (ours, theirs):
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.accept(ours)
        return theirs

    def accept(self, sock: Any) -> None:
        """Serve a connection: a socket or a similar object with a non-blocking `recv`."""
        assert self._loop is not None
        self._lines.append(_ServerConnection(self, self._loop, sock))

    def wake(self) -> None:
        """Something was appended: fetches that wait for data are answered."""
        for line in [*self._lines]:
            line.end_wait()

    # --- requests

    def serve(self, api_key: int, request: Any, version: int) -> Any:
        """The answer to a request: a message, or when to ask for it."""
        self.requests[api_key] += 1
        if api_key in scripted_group.VERSIONS:
            assert self._group is not None
            answer = self._group.serve(api_key, request)
        else:
            answer = _SERVERS[api_key](self, request, version)
        self.after_request(api_key, request)
        return answer

    def _api_versions(self, _request: Any, _version: int) -> Any:
        key_class = ApiVersionsResponse.ApiVersion
        return ApiVersionsResponse(
            error_code=0,
            api_keys=[
                key_class(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.api_versions.items()
            ],
            throttle_time_ms=0,
        )

    def _metadata(self, request: Any, _version: int) -> Any:
        host, port = self.address
        topic_class = MetadataResponse.MetadataResponseTopic
        topics = []
        for name in [one.name for one in request.topics or ()]:
            partitions = [
                topic_class.MetadataResponsePartition(
                    error_code=0,
                    partition_index=tp.partition,
                    leader_id=NODE,
                    leader_epoch=log.leader_epoch,
                    replica_nodes=[NODE],
                    isr_nodes=[NODE],
                    offline_replicas=[],
                )
                for tp, log in self._partitions(name)
            ]
            refusal = self.topic_refusals.get((METADATA, name), 0)
            topics.append(
                topic_class(
                    error_code=refusal or (0 if partitions else UNKNOWN_TOPIC),
                    name=name,
                    topic_id=self.topic_ids.get(name, uuid.UUID(int=0)),
                    is_internal=False,
                    partitions=partitions,
                )
            )
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    node_id=NODE, host=host, port=port, rack=None
                )
            ],
            cluster_id=self.alias,
            controller_id=NODE,
            topics=topics,
        )

    def _partitions(self, topic: str) -> Iterable[tuple[TopicPartition, ScriptedLog]]:
        for index in count():
            tp = TopicPartition(topic, index)
            if tp not in self.logs:
                return
            yield tp, self.logs[tp]

    def _produce(self, request: Any, _version: int) -> Any:
        topic_class = ProduceResponse.TopicProduceResponse
        topics = []
        is_late = False
        for topic in request.topic_data:
            partitions = []
            for one in topic.partition_data:
                log = self.logs.get(TopicPartition(topic.name, one.index))
                code, base = UNKNOWN_TOPIC, -1
                if log is not None:
                    code, base = log.produce(bytes(one.records))
                    if not code and log.high_watermark < log.end and request.acks == -1:
                        is_late, code = True, TIMED_OUT
                partitions.append(
                    topic_class.PartitionProduceResponse(
                        index=one.index,
                        error_code=code,
                        base_offset=base,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=None,
                    )
                )
            topics.append(topic_class(name=topic.name, partition_responses=partitions))
        self.wake()
        answer = ProduceResponse(responses=topics, throttle_time_ms=0)
        if is_late:
            return DelayedResponse(request.timeout_ms / 1000, lambda: answer, ends_early=False)
        return answer

    def _fetch(self, request: Any, version: int) -> Any:
        answer, is_empty = self._fetched(request, version)
        if is_empty and request.max_wait_ms > 0 and request.session_epoch >= 0:
            return DelayedResponse(
                request.max_wait_ms / 1000,
                lambda: self._fetched(request, version)[0],
                ends_early=True,
            )
        return answer

    def _fetched(self, request: Any, version: int) -> tuple[Any, bool]:
        topic_class = FetchResponse.FetchableTopicResponse
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        responses = []
        is_empty = True
        for topic in request.topics or ():
            by_id = version >= _IDS_VERSION
            name = names.get(topic.topic_id, "") if by_id else topic.topic
            partitions = []
            for one in topic.partitions:
                log = self.logs.get(TopicPartition(name, one.partition))
                refusal = self.topic_refusals.get((FETCH, name), self.refusals.get(FETCH, 0))
                data, holds = _partition_data(one, log, refusal)
                is_empty = is_empty and not holds
                partitions.append(data)
            named = {"topic_id": topic.topic_id} if by_id else {"topic": name}
            responses.append(topic_class(partitions=partitions, **named))
        message = FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=responses)
        return message, is_empty

    def _list_offsets(self, request: Any, _version: int) -> Any:
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                log = self.logs.get(TopicPartition(topic.name, one.partition_index))
                refusal = self.topic_refusals.get((LIST_OFFSETS, topic.name), 0)
                offset = -1
                if log is not None and not refusal:
                    offset = log.start if one.timestamp == EARLIEST else log.high_watermark
                partitions.append(
                    topic_class.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=UNKNOWN_TOPIC if log is None else refusal,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=-1 if log is None else log.leader_epoch,
                    )
                )
            topics.append(topic_class(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def _offset_for_leader_epoch(self, request: Any, _version: int) -> Any:
        topic_class = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        topics = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                log = self.logs.get(TopicPartition(topic.topic, one.partition))
                error, found = UNKNOWN_TOPIC, (-1, -1)
                if log is not None:
                    error = log.check_leader_epoch(one.current_leader_epoch)
                    found = (-1, -1) if error else log.end_of_epoch(one.leader_epoch)
                partitions.append(
                    topic_class.EpochEndOffset(
                        error_code=error,
                        partition=one.partition,
                        leader_epoch=found[0],
                        end_offset=found[1],
                    )
                )
            topics.append(topic_class(topic=topic.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)

    def _init_producer_id(self, _request: Any, _version: int) -> Any:
        return InitProducerIdResponse(
            throttle_time_ms=0,
            error_code=0,
            producer_id=self.new_producer_id(),
            producer_epoch=0,
        )

    def _describe_producers(self, request: Any, _version: int) -> Any:
        topic_class = DescribeProducersResponse.TopicResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for index in topic.partition_indexes:
                log = self.logs.get(TopicPartition(topic.name, index))
                refusal = self.refusals.get(DESCRIBE_PRODUCERS, 0)
                partitions.append(_active_producers(index, log, refusal))
            topics.append(topic_class(name=topic.name, partitions=partitions))
        return DescribeProducersResponse(throttle_time_ms=0, topics=topics)


_SERVERS: dict[int, Callable[[ScriptedCluster, Any, int], Any]] = {
    API_VERSIONS: ScriptedCluster._api_versions,
    METADATA: ScriptedCluster._metadata,
    PRODUCE: ScriptedCluster._produce,
    FETCH: ScriptedCluster._fetch,
    LIST_OFFSETS: ScriptedCluster._list_offsets,
    OFFSET_FOR_LEADER_EPOCH: ScriptedCluster._offset_for_leader_epoch,
    INIT_PRODUCER_ID: ScriptedCluster._init_producer_id,
    DESCRIBE_PRODUCERS: ScriptedCluster._describe_producers,
}


def _partition_data(one: Any, log: ScriptedLog | None, refusal: int) -> tuple[Any, bool]:
    """One partition of a fetch response, and whether it is worth an answer at once."""
    data_class = FetchResponse.FetchableTopicResponse.PartitionData
    if log is None or refusal:
        data = data_class(
            partition_index=one.partition,
            error_code=refusal or UNKNOWN_TOPIC,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=None,
        )
        return data, True
    answer = log.read(
        one.fetch_offset,
        one.partition_max_bytes,
        one.current_leader_epoch,
        getattr(one, "last_fetched_epoch", -1),
    )
    is_sound = not answer.error
    data = data_class(
        partition_index=one.partition,
        error_code=answer.error,
        high_watermark=log.high_watermark if is_sound else -1,
        last_stable_offset=log.high_watermark if is_sound else -1,
        log_start_offset=log.start if is_sound else -1,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=answer.records,
    )
    if answer.diverging is not None:
        data.diverging_epoch = data_class.EpochEndOffset(
            epoch=answer.diverging[0], end_offset=answer.diverging[1]
        )
    return data, bool(answer.error or answer.records or answer.diverging)


def _active_producers(index: int, log: ScriptedLog | None, refusal: int) -> Any:
    part_class = DescribeProducersResponse.TopicResponse.PartitionResponse
    return part_class(
        partition_index=index,
        error_code=UNKNOWN_TOPIC if log is None else refusal,
        error_message=None,
        active_producers=[
            part_class.ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=0,
                coordinator_epoch=-1,
                current_txn_start_offset=-1,
            )
            for producer_id, entry in (log.producers.items() if log is not None else ())
        ],
    )


_Waiting = tuple[int, int, int, DelayedResponse]  # API key, version, correlation id, the answer


class _ServerConnection:
    """One connection, seen from the broker."""

    def __init__(self, cluster: ScriptedCluster, loop: EventLoop, sock: Any) -> None:
        self._cluster = cluster
        self._loop = loop
        self._socket = sock
        self._received = bytearray()
        self._frames: deque[bytes] = deque()
        self._waiting: _Waiting | None = None
        self._is_closed = False
        loop.watch(sock, selectors.EVENT_READ, self)

    def on_ready(self, _events: int) -> None:
        """Take in what the client sent, and serve it."""
        if self._is_closed:
            return
        if not self._receive():
            self.close()
            return
        self._serve()

    def _receive(self) -> bool:
        """Split received bytes into requests; False: the client has closed the connection."""
        is_open = True
        try:
            while data := self._socket.recv(1 << 20):
                self._received += data
            is_open = False
        except BlockingIOError:
            pass
        except OSError:
            is_open = False
        while len(self._received) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received)
            if len(self._received) < _SIZE.size + size:
                break
            self._frames.append(bytes(self._received[_SIZE.size : _SIZE.size + size]))
            del self._received[: _SIZE.size + size]
        return is_open

    def _serve(self) -> None:
        while self._frames and self._waiting is None and not self._is_closed:
            key, version, correlation, request = _parse(self._frames.popleft())
            answer = self._cluster.serve(key, request, version)
            if isinstance(answer, DelayedResponse):
                self._waiting = (key, version, correlation, answer)
                self._answer_after(answer.seconds)
            else:
                self._send(answer, version, correlation)

    def end_wait(self) -> None:
        """Answer a fetch that waits for data."""
        if self._waiting is not None and self._waiting[3].ends_early:
            self._answer_after(0.0)

    def _answer_after(self, seconds: float) -> None:
        waiting = self._waiting
        assert waiting is not None
        self._loop.call_later(seconds, lambda: self._answer_late(waiting))

    def _answer_late(self, waiting: _Waiting) -> None:
        if self._waiting is not waiting or self._is_closed:
            return
        self._waiting = None
        _key, version, correlation, later = waiting
        self._send(later.answer(), version, correlation)
        self._serve()

    def _send(self, message: Any, version: int, correlation: int) -> None:
        body = bytes(message.encode(version=version))
        is_flexible = type(message).flexible_version_q(version) and message.API_KEY != API_VERSIONS
        tags = b"\0" if is_flexible else b""
        frame = _SIZE.pack(4 + len(tags) + len(body)) + _SIZE.pack(correlation) + tags + body
        with suppress(BrokenPipeError, ConnectionResetError):  # the client has hung up
            self._socket.sendall(frame)

    def land(self, most: int) -> int:
        """Process requests that a dead client left in its connections, without responses."""
        if self._is_closed:
            return 0
        self._receive()
        served = 0
        while self._frames and served < most:
            key, version, _correlation, request = _parse(self._frames.popleft())
            self._cluster.serve(key, request, version)
            served += 1
        return served

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.unwatch(self._socket)
            self._socket.close()


def _parse(frame: bytes) -> tuple[int, int, int, Any]:
    """API key, version, correlation id and the decoded request."""
    key, version, correlation = _HEAD.unpack_from(frame)
    request_class = _REQUESTS[key]
    at = _HEAD.size
    (size,) = struct.unpack_from(">h", frame, at)
    at += 2 + max(size, 0)
    if request_class.flexible_version_q(version):
        at += 1  # no tags
    return key, version, correlation, request_class.decode(frame[at:], version=version)
