# SPDX-License-Identifier: Apache-2.0
"""Our hand-written fetch and produce messages against kafka-python's codecs."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.producer import ProduceRequest

from sparkmirror.errors import UndecodableResponseError
from sparkmirror.model import TopicPartition
from sparkmirror.wire.fetch_protocol import (
    IDS_VERSION,
    NAMES_VERSION,
    OLDEST_VERSION,
    parse_response,
)
from sparkmirror.wire.outgoing import AbortedTransaction
from sparkmirror.wire.produce_protocol import (
    PARTITION_BYTES,
    REQUEST_BYTES,
    VERSION,
    produce_request,
    uvarint,
)

TOPIC = FetchResponse.FetchableTopicResponse
PARTITION = TOPIC.PartitionData
ABORTED = PARTITION.AbortedTransaction
FETCH_VERSIONS = range(OLDEST_VERSION, IDS_VERSION + 1)
LOG_START, SESSIONS = 5, 7
IDS = [uuid.UUID(int=1), uuid.UUID(int=2**127 + 5)]


def partition(index: int, records: bytes | None, **changes: Any) -> Any:
    """A partition's part of a response, in kafka-python's words."""
    fields = {
        "partition_index": index,
        "error_code": 0,
        "high_watermark": 100 + index,
        "last_stable_offset": 90 + index,
        "log_start_offset": 10 + index,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": records,
    }
    return PARTITION(**{**fields, **changes})


def framed(version: int, topics: list[list[Any]], error: int = 0) -> memoryview:
    """A fetch response as it lies in a frame: correlation id, header tags, body."""
    named = [
        {"topic_id": IDS[index]} if version >= IDS_VERSION else {"topic": f"topic-{index}"}
        for index in range(len(topics))
    ]
    message = FetchResponse(
        throttle_time_ms=3,
        error_code=error,
        session_id=123_456,
        responses=[
            TOPIC(partitions=partitions, **name)
            for partitions, name in zip(topics, named, strict=True)
        ],
    )
    header = b"\x00\x00\x00\x09" + (b"\x00" if version >= NAMES_VERSION else b"")
    return memoryview(bytearray(header + bytes(message.encode(version=version))))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_mean_what_kafka_python_wrote(version: int) -> None:
    """Names or ids, several topics and partitions, records, null and empty records, errors."""
    large = bytes(range(256)) * 300
    frame = framed(
        version,
        [
            [partition(0, large), partition(300, None)],
            [
                partition(7, b""),
                partition(
                    8,
                    b"records",
                    error_code=6,
                    aborted_transactions=[
                        ABORTED(producer_id=9, first_offset=5),
                        ABORTED(producer_id=2**40, first_offset=2**41),
                    ],
                ),
            ],
        ],
    )

    response = parse_response(frame, version)

    names = IDS if version == IDS_VERSION else ["topic-0", "topic-1"]
    assert (response.error, response.session_id) == (0, 123_456 if version >= SESSIONS else 0)
    assert [(one.topic, one.partition, one.error) for one in response.partitions] == [
        (names[0], 0, 0),
        (names[0], 300, 0),
        (names[1], 7, 0),
        (names[1], 8, 6),
    ]
    assert [bytes(one.records) for one in response.partitions] == [large, b"", b"", b"records"]
    assert [one.aborted for one in response.partitions] == [
        (),
        (),
        (),
        (AbortedTransaction(9, 5), AbortedTransaction(2**40, 2**41)),
    ]
    first = response.partitions[0]
    assert (first.high_watermark, first.last_stable_offset) == (100, 90)
    assert first.log_start_offset == (10 if version >= LOG_START else -1)
    assert {one.diverging for one in response.partitions} == {None}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_records_are_views_into_the_frame(version: int) -> None:
    """Payload is never copied, and it can be patched where it lies."""
    frame = framed(version, [[partition(0, b"payload")]])

    records = parse_response(frame, version).partitions[0].records

    assert records.obj is frame.obj
    assert not records.readonly


@pytest.mark.parametrize("version", [version for version in FETCH_VERSIONS if version >= SESSIONS])
@pytest.mark.parametrize("error", [0, 70, 71])
def test_a_response_without_partitions_is_read(version: int, error: int) -> None:
    """An idle session, and one the broker has forgotten."""
    response = parse_response(framed(version, [], error), version)

    assert (response.error, response.partitions) == (error, [])


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_response_that_is_cut_off_is_refused(version: int) -> None:
    """Records that are shorter than announced are never handed on."""
    whole = framed(version, [[partition(0, b"payload"), partition(1, b"more")]])

    for size in range(len(whole) - (version >= NAMES_VERSION)):  # but for its last tags
        with pytest.raises(UndecodableResponseError):
            parse_response(memoryview(bytearray(whole[:size])), version)


def test_tags_of_newer_brokers_are_stepped_over() -> None:
    """Tagged fields at every level are skipped, whatever they hold."""
    tags = b"\x02" + b"\x00" + b"\x03abc" + b"\x85\x01" + b"\x81\x01" + b"z" * 129
    one = (
        struct.pack(">ihqqq", 4, 0, 10, 9, 8)
        + b"\x02" + struct.pack(">qq", 1, 2) + tags  # aborted
        + struct.pack(">i", -1)
        + b"\x04abc" + tags
    )  # fmt: skip
    body = (
        struct.pack(">i", 9) + tags  # header
        + struct.pack(">ihi", 0, 0, 77)
        + b"\x02" + b"\x06topic" + b"\x02" + one + tags
        + tags
    )  # fmt: skip

    (data,) = parse_response(memoryview(body), NAMES_VERSION).partitions

    assert (data.topic, data.partition, bytes(data.records)) == ("topic", 4, b"abc")
    assert data.aborted == (AbortedTransaction(1, 2),)


def test_produce_requests_decode_to_what_was_requested() -> None:
    """Several topics and partitions; every buffer in its place; nothing joined or copied."""
    parts = [
        (TopicPartition("orders", 0), memoryview(b"a" * 10)),
        (TopicPartition("payments", 3), memoryview(b"b" * 200)),
        (TopicPartition("orders", 70_000), memoryview(b"c" * 20_000)),
        (TopicPartition("größe", 1), memoryview(b"d")),
    ]

    header, body = produce_request(parts, client_id=b"a->b/task", acks=-1, timeout_ms=30_000)
    raw = header(42) + b"".join(body)

    assert struct.unpack_from(">i", raw) == (len(raw) - 4,)
    api_key, version, correlation, client = struct.unpack_from(">hhih", raw, 4)
    assert (api_key, version, correlation, client) == (0, VERSION, 42, 9)
    start = 4 + 10 + 9 + 1
    assert raw[14 : start - 1] == b"a->b/task"
    request = ProduceRequest.decode(raw[start:], version=VERSION)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 30_000)
    assert {
        (topic.name, one.index): bytes(one.records)
        for topic in request.topic_data
        for one in topic.partition_data
    } == {tuple(tp): bytes(view) for tp, view in parts}
    assert [id(part) for part in body if isinstance(part, memoryview)] == [
        id(parts[index][1]) for index in (0, 2, 1, 3)
    ]


def test_produce_requests_name_topics_by_id_when_all_ids_are_known() -> None:
    """Version 13 is the same but for the names."""
    parts = [
        (TopicPartition("orders", 0), memoryview(b"a" * 10)),
        (TopicPartition("payments", 3), memoryview(b"b" * 200)),
    ]
    ids = {"orders": uuid.UUID(int=7), "payments": uuid.UUID(int=8)}

    header, body = produce_request(
        parts, client_id=b"c", acks=-1, timeout_ms=1, version=13, topic_ids=ids
    )
    raw = header(1) + b"".join(body)

    assert struct.unpack_from(">i", raw) == (len(raw) - 4,)
    request = ProduceRequest.decode(raw[4 + 10 + 1 + 1 :], version=13)
    assert {
        (topic.topic_id, one.index): bytes(one.records)
        for topic in request.topic_data
        for one in topic.partition_data
    } == {(ids[tp.topic], tp.partition): bytes(view) for tp, view in parts}


@pytest.mark.parametrize("version", [3, 7, 8])
@pytest.mark.parametrize("transactional_id", [None, b"a-mm2-0"])
def test_old_produce_requests_are_kafka_pythons(
    version: int, transactional_id: bytes | None
) -> None:
    """Byte for byte, and no buffer without bytes, which nobody could send."""
    parts = [(TopicPartition("t", n), memoryview(b"x" * (n + 1))) for n in (0, 1)]
    header, body = produce_request(
        parts,
        client_id=b"c",
        acks=-1,
        timeout_ms=9,
        transactional_id=transactional_id,
        version=version,
    )
    data = ProduceRequest.TopicProduceData
    theirs = ProduceRequest(
        transactional_id=transactional_id and transactional_id.decode(),
        acks=-1,
        timeout_ms=9,
        topic_data=[
            data(
                name="t",
                partition_data=[
                    data.PartitionProduceData(index=tp.partition, records=bytes(view))
                    for tp, view in parts
                ],
            )
        ],
        version=version,
    )
    theirs.with_header(correlation_id=5, client_id="c")
    assert header(5) + b"".join(body) == theirs.encode(framed=True, header=True)
    assert all(len(buffer) for buffer in body)


@pytest.mark.parametrize("version", [VERSION, 7])
def test_the_overhead_of_a_request_is_not_underestimated(version: int) -> None:
    """Whoever keeps a request below a limit counts these bytes instead of making it."""
    parts = [
        (TopicPartition("t" * 249, n * 2**20), memoryview(bytes(2**21))) for n in range(1, 200)
    ]
    header, body = produce_request(
        parts,
        client_id=b"c" * 200,
        acks=-1,
        timeout_ms=9,
        transactional_id=b"i" * 200,
        version=version,
    )
    made = len(header(1)) + sum(map(len, body))
    counted = REQUEST_BYTES + 400 + len(parts) * (PARTITION_BYTES + 249 + 2**21)
    assert made <= counted


def test_the_header_can_be_made_again_with_another_correlation_id() -> None:
    """The connection gives the id, not the message."""
    header, _body = produce_request(
        [(TopicPartition("t", 0), memoryview(b"x"))], client_id=b"c", acks=1, timeout_ms=1
    )

    assert header(1)[8:12] == b"\x00\x00\x00\x01"
    assert header(2**31 - 1)[8:12] == b"\x7f\xff\xff\xff"


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**31, b"\x80" * 4 + b"\x08"),
    ],
)
def test_unsigned_varints(value: int, encoded: bytes) -> None:
    """Seven bits a byte, lowest first."""
    assert uvarint(value) == encoded
