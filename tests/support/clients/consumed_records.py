# SPDX-License-Identifier: Apache-2.0
"""All that a consumer can tell about a record, read by librdkafka, for many topics at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    IsolationLevel,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from support.clients.librdkafka import (
    Cluster,
    Place,
    admin,
    messages,
)
from support.waiting import PATIENCE_SECONDS

CREATE_TIME, APPEND_TIME = TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME
Headers = tuple[tuple[str, bytes | None], ...]


class ConsumedRecord(NamedTuple):
    """One record, its offset left out."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_type: int
    timestamp_ms: int


def consumed(message: Message) -> ConsumedRecord:
    return ConsumedRecord(
        message.key(), message.value(), tuple(message.headers() or ()), *message.timestamp()
    )


def partitions_of(partitions: Mapping[str, int]) -> list[Place]:
    """Every topic partition of topics with these numbers of partitions."""
    return [(topic, index) for topic, count in partitions.items() for index in range(count)]


def read_partitions(cluster: Cluster, wanted: Iterable[Place]) -> dict[Place, list[ConsumedRecord]]:
    """All committed records of topic partitions, in order each."""
    found: dict[Place, list[ConsumedRecord]] = {place: [] for place in wanted}
    for chunk in messages(cluster, found):
        for message in chunk:
            found[message.topic(), message.partition()].append(consumed(message))
    return found


def ends(cluster: Cluster, wanted: Iterable[Place]) -> dict[Place, int]:
    """The end offset of every topic partition, open transactions included."""
    client = admin(cluster)
    answers = client.list_offsets(
        {TopicPartition(topic, index): OffsetSpec.latest() for topic, index in wanted},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=PATIENCE_SECONDS,
    )
    return {
        (tp.topic, tp.partition): future.result(PATIENCE_SECONDS).offset
        for tp, future in answers.items()
    }


def difference(original: list[ConsumedRecord], copy: list[ConsumedRecord]) -> str:
    """The first difference in a line; empty if there is none."""
    for index, (one, other) in enumerate(zip(original, copy, strict=False)):
        for name, mine, theirs in zip(ConsumedRecord._fields, one, other, strict=True):
            if mine != theirs:
                return f"record {index}: {name} is {_short(theirs)}, should be {_short(mine)}"
    if len(original) != len(copy):
        return f"{len(copy)} records, should be {len(original)}"
    return ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:60]}... ({len(text)} characters)"
