# SPDX-License-Identifier: Apache-2.0
"""Consumer groups as an independent client (librdkafka) makes and sees them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from support.clients.librdkafka import Cluster
from support.waiting import PATIENCE_SECONDS, eventually

NO_OFFSET = -1001
_CHUNK = 200
_LOOK_SECONDS = 0.2


def consumer(cluster: Cluster, group: str, **config: object) -> Consumer:
    """A member of a group that commits when it is told to."""
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    return Consumer(settings | {key.replace("_", "."): value for key, value in config.items()})


def commit(cluster: Cluster, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """What a group has processed, as if it had consumed and gone."""
    wanted = [TopicPartition(topic, n, offset) for n, offset in offsets.items()]
    with closing(consumer(cluster, group)) as one:
        eventually(
            lambda: one.commit(offsets=wanted, asynchronous=False),
            PATIENCE_SECONDS,
            f"offsets of {group}",
            not_yet=(KafkaException,),  # a young cluster is still finding coordinators
        )


def committed(cluster: Cluster, group: str, topic: str, partitions: int) -> dict[int, int]:
    """What a group has committed; `NO_OFFSET` where it has not."""
    wanted = [TopicPartition(topic, n) for n in range(partitions)]
    with closing(consumer(cluster, group)) as one:
        found = eventually(
            lambda: one.committed(wanted, PATIENCE_SECONDS),
            PATIENCE_SECONDS,
            f"offsets of {group}",
            not_yet=(KafkaException,),
        )
    return {tp.partition: tp.offset for tp in found}


def process(
    cluster: Cluster, group: str, topics: Sequence[str], count: int | None = None
) -> list[bytes]:
    """The keys of what a group's only member processes and commits, in that order.

    So many records, or all that there are between its position and the present ends.
    """
    keys: list[bytes] = []
    at_end: set[tuple[str, int]] = set()
    with closing(consumer(cluster, group, enable_partition_eof=True)) as member:
        member.subscribe(list(topics))
        deadline = time.monotonic() + PATIENCE_SECONDS

        def is_done() -> bool:
            if count is not None:
                return len(keys) == count
            return _has_all(member, topics) and at_end >= _assigned(member)

        while not is_done():
            assert time.monotonic() < deadline, f"{group} has processed {len(keys)} records"
            most = _CHUNK if count is None else count - len(keys)
            for message in member.consume(most, timeout=_LOOK_SECONDS):
                error, place = message.error(), (message.topic(), message.partition())
                if error is None:
                    keys.append(message.key())
                    at_end.discard(place)
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(place)
                else:
                    raise KafkaException(error)
        if keys:
            member.commit(asynchronous=False)
    return keys


def _assigned(member: Consumer) -> set[tuple[str, int]]:
    return {(tp.topic, tp.partition) for tp in member.assignment()}


def _has_all(member: Consumer, topics: Sequence[str]) -> bool:
    """Whether partitions of every topic have been assigned."""
    return {tp.topic for tp in member.assignment()} >= set(topics)
