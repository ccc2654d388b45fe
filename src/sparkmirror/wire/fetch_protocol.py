# SPDX-License-Identifier: Apache-2.0
"""Fetch requests and responses: version 13 (topic ids), 12 (topic names), and 4 to 11.

The response is parsed by hand, so that record batches stay in the receive buffer:

    header      correlation id i32, tags
    body        throttle ms i32, error i16, session id i32, topics[]
    topic       name (12) or 16-byte id (13), partitions[], tags
    partition   index i32, error i16, high watermark i64, last stable offset i64,
                log start offset i64, aborted[] (producer id i64, first offset i64, tags) or null,
                preferred replica i32, records (length, bytes) or null, tags

Lengths of arrays, strings and records are unsigned varints, one more than the length (0: null).

Versions 4 to 11, for brokers before 2.7 and Kafka-compatible services, have no tags and therefore
no diverging epoch. Lengths are i32 (of names i16), -1 for null. Version 5 added the log start
offset, version 7 the error and the session id, version 11 the preferred replica.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest

from sparkmirror.errors import UndecodableResponseError
from sparkmirror.model import TopicPartition
from sparkmirror.wire.outgoing import AbortedTransaction
from sparkmirror.wire.responses import DECODE_ERRORS
from sparkmirror.wire.settings import FetchSettings

FETCH_KEY = 1
NAMES_VERSION = 12
IDS_VERSION = 13
OLDEST_VERSION = 4  # the first with record batches of magic 2
FINAL_SESSION_EPOCH = -1
_FIRST_WITH_SESSIONS, _FIRST_WITH_LOG_START, _FIRST_WITH_REPLICA = 7, 5, 11
_BODY = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_DIVERGING = struct.Struct(">iq")
_DIVERGING_TAG = 0
_ABORTED = struct.Struct(">qq")
_COUNT = struct.Struct(">i")
_NAME = struct.Struct(">h")
_BODY_BEFORE_SESSIONS = struct.Struct(">i")
_PARTITION_BEFORE_LOG_START = struct.Struct(">ihqq")
_EMPTY = memoryview(b"")
_MAX_SHIFT = 28  # lengths and tags have 32 bits


class PartitionData(NamedTuple):
    """One partition of a fetch response."""

    topic: str | uuid.UUID
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview
    diverging: tuple[int, int] | None = None  # the last common epoch and its end offset


class FetchResponse(NamedTuple):
    """A fetch response; the records are views into the frame."""

    error: int
    session_id: int
    partitions: list[PartitionData]


def fetch_request(
    version: int,
    settings: FetchSettings,
    *,
    max_wait_ms: int,
    max_bytes: int,
    max_partition_bytes: int,
    session: tuple[int, int],
    wanted: Mapping[TopicPartition, tuple[int, int, int]] = MappingProxyType({}),
    forgotten: Iterable[TopicPartition] = (),
    topic_ids: Mapping[str, uuid.UUID] = MappingProxyType({}),
) -> Any:
    """Build a fetch request for the partitions that changed.

    `wanted` has the offset, the leader epoch and the epoch of the last fetched batch.
    """

    def named(topic: str) -> dict[str, Any]:
        return {"topic_id": topic_ids[topic]} if version >= IDS_VERSION else {"topic": topic}

    topics: dict[str, list[Any]] = {}
    for tp, (offset, leader_epoch, last_epoch) in wanted.items():
        topics.setdefault(tp.topic, []).append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=-1,
                partition_max_bytes=max_partition_bytes,
            )
        )
    dropped: dict[str, list[int]] = {}
    for tp in forgotten:
        if version < IDS_VERSION or tp.topic in topic_ids:
            dropped.setdefault(tp.topic, []).append(tp.partition)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=1 if settings.reads_committed else 0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchRequest.FetchTopic(partitions=p, **named(t)) for t, p in topics.items()],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(partitions=p, **named(t)) for t, p in dropped.items()
        ],
        rack_id="",
    )


def parse_response(frame: memoryview, version: int) -> FetchResponse:
    """Parse a fetch response without copying payload; UndecodableResponseError if malformed."""
    try:
        return (_response if version >= NAMES_VERSION else _legacy_response)(frame, version)
    except DECODE_ERRORS as error:
        raise UndecodableResponseError(
            f"cannot decode a response of {len(frame)} bytes as Fetch version {version}"
        ) from error


def _response(frame: memoryview, version: int) -> FetchResponse:
    position = _skip_tags(frame, 4)
    _throttle, error, session_id = _BODY.unpack_from(frame, position)
    position += _BODY.size
    topics, position = _uvarint(frame, position)
    found: list[PartitionData] = []
    for _ in range(topics - 1):
        topic: str | uuid.UUID
        if version >= IDS_VERSION:
            topic = uuid.UUID(bytes=bytes(frame[position : position + 16]))
            position += 16
        else:
            size, position = _uvarint(frame, position)
            topic = bytes(frame[position : position + size - 1]).decode()
            position += size - 1
        partitions, position = _uvarint(frame, position)
        for _ in range(partitions - 1):
            one, position = _partition(frame, position, topic)
            found.append(one)
        position = _skip_tags(frame, position)
    return FetchResponse(error, session_id, found)


def _partition(
    frame: memoryview, position: int, topic: str | uuid.UUID
) -> tuple[PartitionData, int]:
    index, error, high, stable, log_start = _PARTITION.unpack_from(frame, position)
    position += _PARTITION.size
    count, position = _uvarint(frame, position)
    aborted: list[AbortedTransaction] = []
    for _ in range(count - 1):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(frame, position)))
        position = _skip_tags(frame, position + _ABORTED.size)
    position += 4  # preferred read replica
    size, position = _uvarint(frame, position)
    records = _EMPTY
    if size > 1:
        records = frame[position : position + size - 1]
        position += size - 1
    diverging, position = _diverging(frame, position)
    data = PartitionData(
        topic, index, error, high, stable, log_start, tuple(aborted), records, diverging
    )
    return data, position


def _diverging(frame: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    """Parse the tagged field 0 (epoch i32, end offset i64), if present."""
    diverging = None
    count, position = _uvarint(frame, position)
    for _ in range(count):
        tag, position = _uvarint(frame, position)
        size, position = _uvarint(frame, position)
        if tag == _DIVERGING_TAG:
            diverging = _DIVERGING.unpack_from(frame, position)
        position += size
    return diverging, position


def _legacy_response(frame: memoryview, version: int) -> FetchResponse:
    error = session_id = 0
    position = 4
    if version >= _FIRST_WITH_SESSIONS:
        _throttle, error, session_id = _BODY.unpack_from(frame, position)
        position += _BODY.size
    else:
        position += _BODY_BEFORE_SESSIONS.size
    topics, position = _length(frame, position, _COUNT)
    found: list[PartitionData] = []
    for _ in range(topics):
        size, position = _length(frame, position, _NAME)
        topic = bytes(frame[position : position + size]).decode()
        partitions, position = _length(frame, position + size, _COUNT)
        for _ in range(partitions):
            one, position = _legacy_partition(frame, position, topic, version)
            found.append(one)
    return FetchResponse(error, session_id, found)


def _legacy_partition(
    frame: memoryview, position: int, topic: str, version: int
) -> tuple[PartitionData, int]:
    log_start = -1
    if version >= _FIRST_WITH_LOG_START:
        index, error, high, stable, log_start = _PARTITION.unpack_from(frame, position)
        position += _PARTITION.size
    else:
        index, error, high, stable = _PARTITION_BEFORE_LOG_START.unpack_from(frame, position)
        position += _PARTITION_BEFORE_LOG_START.size
    count, position = _length(frame, position, _COUNT)
    aborted: list[AbortedTransaction] = []
    for _ in range(count):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(frame, position)))
        position += _ABORTED.size
    if version >= _FIRST_WITH_REPLICA:
        position += 4
    size, position = _length(frame, position, _COUNT)
    records = frame[position : position + size] if size else _EMPTY
    if len(records) < size:
        raise ValueError("records are longer than the response")
    data = PartitionData(topic, index, error, high, stable, log_start, tuple(aborted), records)
    return data, position + size


def _length(frame: memoryview, position: int, form: struct.Struct) -> tuple[int, int]:
    """Return a length (0 for null) and the position after it."""
    (length,) = form.unpack_from(frame, position)
    return max(length, 0), position + form.size


def _uvarint(frame: memoryview, position: int) -> tuple[int, int]:
    byte = frame[position]
    position += 1
    if byte < 0x80:  # noqa: PLR2004 - seven bits a byte
        return byte, position
    value, shift = byte & 0x7F, 7
    while shift <= _MAX_SHIFT:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - seven bits a byte
            return value, position
        shift += 7
    raise ValueError("a varint has more than five bytes")


def _skip_tags(frame: memoryview, position: int) -> int:
    count, position = _uvarint(frame, position)
    for _ in range(count):
        _tag, position = _uvarint(frame, position)
        size, position = _uvarint(frame, position)
        position += size
    return position
