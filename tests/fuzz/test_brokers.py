# SPDX-License-Identifier: Apache-2.0
"""What a broker sends, or whoever sits on its port: frames, answers, record batches."""

from __future__ import annotations

import socket
import struct
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeProducersResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse, ProduceResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import calc_crc32c

from sparkmirror.errors import CorruptRecordBatchError, UndecodableResponseError, WireError
from sparkmirror.kafka import log_records
from sparkmirror.task.corrupt_batches import offset_after_corrupt_batch
from sparkmirror.wire import codecs
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_protocol import (
    IDS_VERSION,
    NAMES_VERSION,
    OLDEST_VERSION,
    parse_response,
)
from sparkmirror.wire.frames import FrameReader
from sparkmirror.wire.merge import MAX_MERGED_BYTES, BatchMerger
from sparkmirror.wire.record_batch import split_batches, stamp
from sparkmirror.wire.records import decode_records, raw_records
from sparkmirror.wire.reframe import needs_reframe, reframe
from sparkmirror.wire.responses import decode_response
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.wire_requests import Outcome, run_until
from support.data.record_batches import CODECS, GZIP, encode, marker, numbered
from support.fuzzing import Parser, attempt, damaged, fuzzed, mutated

TESTS = Path(__file__).parent.parent
GOLDEN = TESTS / "unit/wire/golden"
CORRUPT = (CorruptRecordBatchError,)
UNREADABLE = (UndecodableResponseError,)
HEADER_BYTES = 61

# --- answers


def fetch_answer(version: int) -> bytes:
    """A fetch response with two partitions, one of them with record batches."""
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    partitions = [
        part(
            partition_index=index,
            error_code=0,
            high_watermark=9,
            last_stable_offset=9,
            log_start_offset=0,
            aborted_transactions=[part.AbortedTransaction(producer_id=5, first_offset=2)],
            preferred_read_replica=-1,
            records=records,
        )
        for index, records in enumerate([bytes(encode(numbered(0, 3))), None])
    ]
    named: dict[str, Any] = (
        {"topic": "t"} if version < IDS_VERSION else {"topic_id": uuid.UUID(int=7)}
    )
    message = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=77,
        responses=[topic(partitions=partitions, **named)],
    )
    return b"\x00\x00\x00\x01\x00" + bytes(message.encode(version=version))


def answer(version: int, message: Any) -> Parser:
    """A message of kafka-python's as a broker would send it."""
    kind = type(message)
    return Parser(
        f"{kind.__name__} {version}",
        lambda data: decode_response(kind, memoryview(data), version),
        UNREADABLE,
        (bytes(message.encode(version=version)),),
    )


def metadata() -> Any:
    """Two brokers, a topic with two partitions."""
    topic = MetadataResponse.MetadataResponseTopic
    part = topic.MetadataResponsePartition
    broker = MetadataResponse.MetadataResponseBroker
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[broker(node_id=n, host="h", port=9092, rack=None) for n in (1, 2)],
        cluster_id="id",
        controller_id=1,
        topics=[
            topic(
                error_code=0,
                name="t",
                topic_id=uuid.UUID(int=7),
                is_internal=False,
                partitions=[
                    part(
                        error_code=0,
                        partition_index=n,
                        leader_id=1,
                        leader_epoch=3,
                        replica_nodes=[1, 2],
                        isr_nodes=[1],
                        offline_replicas=[],
                    )
                    for n in (0, 1)
                ],
            )
        ],
    )


def produced() -> Any:
    """One partition accepted."""
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    return ProduceResponse(
        responses=[
            topic(
                name="t",
                partition_responses=[
                    part(
                        index=0,
                        error_code=0,
                        base_offset=5,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=None,
                    )
                ],
            )
        ],
        throttle_time_ms=0,
    )


VERSION_KEY = ApiVersionsResponse.ApiVersion
VERSIONS = ApiVersionsResponse(
    error_code=0, api_keys=[VERSION_KEY(api_key=k, min_version=0, max_version=12) for k in range(4)]
)
ANSWERS = [
    *(
        Parser(
            f"fetch response {version}",
            lambda data, v=version: parse_response(memoryview(bytearray(data)), v),
            UNREADABLE,
            (fetch_answer(version),),
            (b"", b"\x00\x00\x00\x01" + b"\xff" * 100_000, b"\x00\x00\x00\x01\x00"),
        )
        for version in (OLDEST_VERSION, 7, 11, NAMES_VERSION, IDS_VERSION)
    ),
    answer(0, VERSIONS),
    answer(12, metadata()),
    answer(9, produced()),
    answer(7, produced()),
    answer(
        4,
        InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=9, producer_epoch=0),
    ),
    answer(1, SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN", "SCRAM-SHA-256"])),
    answer(
        2,
        SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=b"v=abc", session_lifetime_ms=1000
        ),
    ),
    answer(7, ListOffsetsResponse(throttle_time_ms=0, topics=[])),
    answer(0, DescribeProducersResponse(throttle_time_ms=0, topics=[])),
]


@pytest.mark.parametrize("parser", ANSWERS, ids=str)
@given(data=st.data())
@fuzzed()
def test_an_answer_is_read_or_unreadable(parser: Parser, data: st.DataObject) -> None:
    """Never another exception: it would end the task, where a new connection helps."""
    attempt(parser.parse, data.draw(damaged(parser.seeds)), parser.promised)


@pytest.mark.parametrize("parser", ANSWERS, ids=str)
def test_what_did_harm_does_no_more(parser: Parser) -> None:
    """Nothing at all, half of an answer, a number of twenty thousand bytes."""
    seed = parser.seeds[0]
    for data in (b"", seed[: len(seed) // 2], b"\xff" * 20_000, *parser.found):
        attempt(parser.parse, data, parser.promised)


# --- record batches


def sealed(data: bytes) -> bytes:
    """With lengths and CRCs made right again: damage that a broker or a producer meant."""
    if len(data) < HEADER_BYTES:
        return data
    out = bytearray(data)
    struct.pack_into(">i", out, 8, len(out) - 12)
    out[16] = 2
    struct.pack_into(">I", out, 17, calc_crc32c(out[21:]))
    return bytes(out)


def old_messages(magic: int, codec: int, *sizes: int) -> bytes:
    """Messages in a format without record batches, also inside of one another."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=4_096)
    for offset, size in enumerate(sizes):
        builder.append(offset, timestamp=1_000, key=b"k", value=b"v" * size)
    return bytes(builder.build())


BATCHES = [
    *(bytes(encode(numbered(0, 6), codec=codec)) for codec in CODECS),
    *(bytes(encode(numbered(5, 1), codec=codec)) for codec in (0, 3)),
    bytes(encode(numbered(0, 4), attributes=0x08, max_timestamp=2**62)),
    bytes(encode([*numbered(0, 2), *numbered(7, 2)])),
    bytes(marker(3, 9, commits=False)),
]
# Message sets of brokers before 0.11, which a topic that was never rewritten still has.
OLD = [
    old_messages(magic, codec, *sizes)
    for magic in (0, 1)
    for codec in (0, GZIP)
    for sizes in [(30, 90), (1,), (1, 90), (90, 1)]
]
# A body that says again and again that it begins at its beginning, two thousand million times.
BACKWARDS = bytearray(encode(numbered(0, 1)))
struct.pack_into(">i", BACKWARDS, 23, 2**31 - 2)
struct.pack_into(">i", BACKWARDS, 57, 2**31 - 1)
BACKWARDS[HEADER_BYTES] = 1  # a length of -1


def through(data: bytes) -> None:
    """Every way that a task and a reader of internal topics have with a fetched partition."""
    for batch in split_batches(memoryview(bytearray(data))):
        batch.verify()
        if batch.is_control:
            batch.is_abort_marker()
            continue
        for _frame in raw_records(batch.view, batch.base_offset):
            pass
        decode_records(batch.view)
        for start in (0, batch.base_offset + 2):
            if needs_reframe(batch, start):
                found = reframe(batch, start)
                if found is not None:
                    assert sum(run.length for run in found.runs) == found.records
                    assert len(decode_records(found.view)) == found.records
            joint = BatchMerger(MAX_MERGED_BYTES)
            if joint.append(batch, start) and joint.batches:
                assert len(decode_records(joint.seal())) == joint.count
        stamp(batch.view, 7, 0, 3)


@given(data=st.data())
@fuzzed(5)
def test_a_record_batch_is_copied_or_corrupt(data: st.DataObject) -> None:
    """Nothing that is passed on is other than its header says; nothing else is raised."""
    one = data.draw(mutated([*BATCHES, *OLD]))
    attempt(through, sealed(one) if data.draw(st.booleans()) else one, CORRUPT)


@given(data=st.data())
@fuzzed(2)
def test_records_of_internal_topics_are_read_or_corrupt(data: st.DataObject) -> None:
    """The control plane's reader of the same."""
    one = sealed(data.draw(mutated(BATCHES)))
    attempt(lambda raw: log_records.decode_records(memoryview(raw), 0, 0, [(9, 0)]), one, CORRUPT)


@pytest.mark.parametrize("messages", OLD, ids=range(len(OLD)))
def test_messages_of_old_formats_are_refused_by_their_name(messages: bytes) -> None:
    """Also those that are shorter than a record batch's header, which nobody would read on from."""
    with pytest.raises(CorruptRecordBatchError, match="message format"):
        through(messages)


@pytest.mark.parametrize("harm", [sealed(bytes(BACKWARDS))], ids=["backwards"])
def test_a_record_batch_that_did_harm_does_no_more(harm: bytes) -> None:
    """A few bytes that were read for ever."""
    attempt(through, harm, CORRUPT)
    attempt(lambda raw: log_records.decode_records(memoryview(raw), 0, 0, []), harm, CORRUPT)


@given(data=st.data(), end=st.integers(-5, 2**63 - 1))
@fuzzed()
def test_the_position_after_a_corrupt_batch_is_beyond_it(data: st.DataObject, end: int) -> None:
    """Never back, never beyond the end of the log."""
    one = data.draw(mutated([BATCHES[0] + BATCHES[5]]))
    found = attempt(lambda raw: offset_after_corrupt_batch(memoryview(raw), 0, end), one, ())
    assert found is None or 0 < found <= end


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
@fuzzed()
def test_nothing_is_unpacked_beyond_the_bound(codec: int, data: st.DataObject) -> None:
    """Whatever compressed bytes claim to be."""
    seeds = [codecs.compress(codec, b"words, words " * 20), codecs.compress(codec, bytes(400_000))]
    one = data.draw(mutated(seeds))
    most = 100_000
    found = attempt(
        lambda raw: codecs.decompress_within(codec, memoryview(raw), most), one, CORRUPT
    )
    assert found is None or len(found) <= most


def test_a_bomb_of_many_members_is_one_bomb() -> None:
    """Gzip allows several in a row; the bound counts all of them or only the first is read."""
    packed = codecs.compress(GZIP, bytes(60_000)) * 10
    found = codecs.decompress_within(GZIP, memoryview(packed), 100_000)
    assert found is None or len(found) <= 100_000


# --- the connection


def fed(data: bytes) -> None:
    """Bytes as a socket gives them."""
    reader = FrameReader()
    rest = memoryview(data)
    while rest:
        space = reader.writable_buffer()
        assert len(space), "no room to go on"
        size = min(len(space), len(rest))
        space[:size] = rest[:size]
        reader.feed(size)
        rest = rest[size:]


@given(data=st.data())
@fuzzed()
def test_a_stream_is_cut_or_refused(data: st.DataObject) -> None:
    """Announced lengths are not believed before the bytes come."""
    body = fetch_answer(NAMES_VERSION)
    stream = (struct.pack(">i", len(body)) + body) * 3
    attempt(fed, data.draw(damaged([stream, b"HTTP/1.1 400 Bad Request\r\n\r\n"])), (WireError,))


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """A port that says what it is told to."""
    with Peer() as made:
        yield made


class Peer:
    """Answers every connection with the same bytes, then waits for it to end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.says = b""
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            try:
                found, _where = self._listener.accept()
            except OSError:
                return
            with found:
                found.settimeout(2)
                try:
                    found.sendall(self.says)
                    found.shutdown(socket.SHUT_WR)
                    while found.recv(65_536):
                        pass
                except OSError:
                    continue


def framed(*bodies: bytes) -> bytes:
    """As brokers send them."""
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


WELCOME = framed(
    struct.pack(">i", 1) + bytes(VERSIONS.encode(version=0)),
    struct.pack(">i", 2) + bytes(VERSIONS.encode(version=0)),
    struct.pack(">i", 3) + b"\x00" + bytes(metadata().encode(version=12)),
)


NEGATIVE = ApiVersionsResponse(
    error_code=0, api_keys=[VERSION_KEY(api_key=3, min_version=-1, max_version=-1)]
)


def exchanged(peer: Peer) -> None:
    """A request on its own connection: an answer or a failure, and not both."""
    loop, outcome = EventLoop(), Outcome()
    try:
        connection = BrokerConnection(
            loop, ConnectionSettings("b", (), "test", 2.0, 2.0), peer.address
        )
        connection.when_ready(
            lambda: connection.request(
                MetadataRequest(topics=None),
                outcome.replies.append,
                outcome.failures.append,
                newest=12,
            ),
            outcome.failures.append,
        )
        run_until(loop, lambda: outcome.is_over)
        connection.close("the test is over")
        assert len(outcome.replies) + len(outcome.failures) == 1
    finally:
        loop.close()


@given(data=st.data())
@fuzzed(0.7)
def test_a_request_ends_once_whatever_comes_back(peer: Peer, data: st.DataObject) -> None:
    """With an answer or as lost; the loop continues."""
    peer.says = data.draw(
        damaged([WELCOME, framed(struct.pack(">i", 1) + bytes(VERSIONS.encode(version=0)))])
    )
    exchanged(peer)


def test_a_version_below_nothing_is_none(peer: Peer) -> None:
    """It ended the loop, and the task with it."""
    peer.says = framed(struct.pack(">i", 1) + bytes(NEGATIVE.encode(version=0)))
    exchanged(peer)
