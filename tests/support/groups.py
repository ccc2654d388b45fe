# SPDX-License-Identifier: Apache-2.0
"""Consumer groups as an independent client (librdkafka) makes and sees them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, TopicPartition

from support.waiting import eventually
from support.witness import PATIENCE_SECONDS, Cluster

NO_OFFSET = -1001


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
