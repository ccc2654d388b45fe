# SPDX-License-Identifier: Apache-2.0
"""Produce requests, version 9, as a list of buffers: the payload is never joined into a frame.

    frame       size i32
    header      api key i16 (0), version i16, correlation id i32, client id, tags
    body        transactional id or null, acks i16, timeout ms i32, topics[], tags
    topic       name, partitions[], tags
    partition   index i32, records (one record batch), tags

Version 9 is the first with varint lengths and known to every broker since 2.4.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from sparkmirror.model import TopicPartition

PRODUCE_KEY = 0
VERSION = 9
_ACKS = struct.Struct(">hi")
_INDEX = struct.Struct(">i")
_HEADER = struct.Struct(">ihhi")
_NO_TAGS = b"\x00"


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:  # noqa: PLR2004 - seven bits a byte
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def produce_request(
    parts: Iterable[tuple[TopicPartition, memoryview]],
    *,
    client_id: bytes,
    acks: int,
    timeout_ms: int,
    transactional_id: bytes | None = None,
) -> tuple[Callable[[int], bytes], list[bytes | memoryview]]:
    """The frame header (given a correlation id) and the body of a produce request."""
    by_topic: dict[str, list[tuple[int, memoryview]]] = {}
    for tp, view in parts:
        by_topic.setdefault(tp.topic, []).append((tp.partition, view))
    body: list[bytes | memoryview] = []
    small = b"\x00"
    if transactional_id is not None:
        small = uvarint(len(transactional_id) + 1) + transactional_id
    small += _ACKS.pack(acks, timeout_ms) + uvarint(len(by_topic) + 1)
    size = 0
    for topic, partitions in by_topic.items():
        name = topic.encode()
        small += uvarint(len(name) + 1) + name + uvarint(len(partitions) + 1)
        for index, view in partitions:
            small += _INDEX.pack(index) + uvarint(len(view) + 1)
            body += (small, view)
            size += len(small) + len(view)
            small = _NO_TAGS
        small += _NO_TAGS
    small += _NO_TAGS
    body.append(small)
    size += len(small)
    client = struct.pack(">h", len(client_id)) + client_id + _NO_TAGS

    def header(correlation_id: int) -> bytes:
        total = _HEADER.size - 4 + len(client) + size
        return _HEADER.pack(total, PRODUCE_KEY, VERSION, correlation_id) + client

    return header, body
