# SPDX-License-Identifier: Apache-2.0
"""Reads a topic with librdkafka, by source and partition."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from confluent_kafka import Message

from chaos.observer import source_and_number
from chaos.verdict import Seen, Stream
from support.clients.librdkafka import Cluster, messages

Streams = dict[Stream, list[Seen]]


def read_streams(cluster: Cluster, topic: str, streams: Sequence[Stream]) -> Streams:
    """Return all committed records of a topic."""
    found: Streams = {stream: [] for stream in streams}
    for chunk in messages(cluster, {(topic, partition) for _, partition in streams}):
        for message in chunk:
            source, number = source_and_number(message)
            seen = Seen(message.offset(), number, _digest(message))
            found[source, message.partition()].append(seen)
    return found


def _digest(message: Message) -> int:
    """Hash everything that must not change."""
    parts = (message.key(), message.value(), message.headers(), message.timestamp())
    return crc32(repr(parts).encode())
