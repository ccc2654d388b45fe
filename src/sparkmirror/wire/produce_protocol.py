# SPDX-License-Identifier: Apache-2.0
"""Produce requests as a list of buffers: the payload is never joined into a frame.

    frame       size i32
    header      api key i16 (0), version i16, correlation id i32, client id, tags
    body        transactional id or null, acks i16, timeout ms i32, topics[], tags
    topic       name (9) or 16-byte id (13), partitions[], tags
    partition   index i32, records (one record batch), tags

Version 9 is the first with varint lengths; brokers support it since 2.4. Version 13 names topics by
id, so a leader refuses records for a topic that was deleted. A Kafka-compatible service may support
version 7 at most: the same without tags, with i16 and i32 lengths.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping

from sparkmirror.model import TopicPartition

PRODUCE_KEY = 0
VERSION = 9
IDS_VERSION = 13
OLDEST_VERSION = 3  # the first with record batches of magic 2
# Upper bounds of a request's size without client id, transactional id, names and record batches.
REQUEST_BYTES = 48
PARTITION_BYTES = 32
_ACKS = struct.Struct(">hi")
_INDEX = struct.Struct(">i")
_HEADER = struct.Struct(">ihhi")
_SHORT = struct.Struct(">h")


def uvarint(value: int) -> bytes:
    if value < 0x80:  # noqa: PLR2004 - seven bits a byte
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Flexible:
    """Lengths are unsigned varints of length + 1; every structure ends with tags."""

    tags = b"\x00"
    no_name = b"\x00"

    @staticmethod
    def name(text: bytes) -> bytes:
        return uvarint(len(text) + 1) + text

    @staticmethod
    def count(items: int) -> bytes:
        return uvarint(items + 1)


class _Fixed:
    """Lengths are i16 or i32; there are no tags."""

    tags = b""
    no_name = _SHORT.pack(-1)

    @staticmethod
    def name(text: bytes) -> bytes:
        return _SHORT.pack(len(text)) + text

    @staticmethod
    def count(items: int) -> bytes:
        return _INDEX.pack(items)


def produce_request(
    parts: Iterable[tuple[TopicPartition, memoryview]],
    *,
    client_id: bytes,
    acks: int,
    timeout_ms: int,
    transactional_id: bytes | None = None,
    version: int = VERSION,
    topic_ids: Mapping[str, uuid.UUID] | None = None,
) -> tuple[Callable[[int], bytes], list[bytes | memoryview]]:
    """Return the body of a produce request, and a function from correlation id to header.

    Version 13 needs the ids of all topics in `topic_ids`.
    """
    form = _Flexible if version >= VERSION else _Fixed
    by_topic: dict[str, list[tuple[int, memoryview]]] = {}
    for tp, view in parts:
        by_topic.setdefault(tp.topic, []).append((tp.partition, view))
    body: list[bytes | memoryview] = []
    small = form.no_name if transactional_id is None else form.name(transactional_id)
    small += _ACKS.pack(acks, timeout_ms) + form.count(len(by_topic))
    size = 0
    for topic, partitions in by_topic.items():
        small += form.name(topic.encode()) if topic_ids is None else topic_ids[topic].bytes
        small += form.count(len(partitions))
        for index, view in partitions:
            small += _INDEX.pack(index) + form.count(len(view))
            body += (small, view)
            size += len(small) + len(view)
            small = form.tags
        small += form.tags
    small += form.tags
    if small:  # an empty buffer would never leave the send queue
        body.append(small)
        size += len(small)
    client = _SHORT.pack(len(client_id)) + client_id + form.tags

    def header(correlation_id: int) -> bytes:
        total = _HEADER.size - 4 + len(client) + size
        return _HEADER.pack(total, PRODUCE_KEY, version, correlation_id) + client

    return header, body
