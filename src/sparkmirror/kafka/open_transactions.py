# SPDX-License-Identifier: Apache-2.0
"""Why the rest of a topic cannot be read: whose transaction is open, or that nobody answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafka.errors import KafkaError

from sparkmirror.errors import ClusterError, OpenTransactionError, UnreachableError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.requests import producers_request
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import TopicPartition

_NONE_OPEN = -1


class OpenTransaction(NamedTuple):
    """A transaction that has not ended, in one partition."""

    tp: TopicPartition
    producer_id: int
    first_offset: int


def held_up(
    client: ClusterClient, partitions: Sequence[TopicPartition], seconds: float
) -> ClusterError:
    """The error that says why these partitions of a topic were not read on for so long."""
    alias = client.connection.alias
    try:
        found = open_transactions(client, partitions)
        first = min(found, key=lambda one: one.first_offset, default=None)
    except (ClusterError, KafkaError):  # not everybody may ask, and old brokers cannot tell
        first = None
    if first is None:
        return UnreachableError(
            f"Cluster '{alias}' has not delivered more of topic '{partitions[0].topic}' for "
            f"{seconds:g} s; {len(partitions)} partitions are not read to their end. Check that "
            f"its brokers are up and that every partition has a leader.",
            cluster=alias,
        )
    return OpenTransactionError(
        f"{first.tp} on cluster '{alias}' could not be read to its end for {seconds:g} s: "
        f"{_whose(client, first.producer_id)} has had a transaction open since offset "
        f"{first.first_offset}, and what follows can be read only when that ends. Let its holder "
        f"go on, wait for its transaction.timeout.ms, or abort it with kafka-transactions.sh.",
        cluster=alias,
    )


def open_transactions(
    client: ClusterClient, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """What their leaders know of; needs Kafka 2.8."""
    found: list[OpenTransaction] = []
    leaders, _ = client.leaders(partitions)
    for leader, some in leaders.items():
        for topic in client.ask(producers_request(some), leader).topics:
            for one in topic.partitions:
                found += [
                    OpenTransaction(
                        TopicPartition(topic.name, one.partition_index),
                        producer.producer_id,
                        producer.current_txn_start_offset,
                    )
                    for producer in one.active_producers
                    if producer.current_txn_start_offset > _NONE_OPEN
                ]
    return found


def _whose(client: ClusterClient, producer_id: int) -> str:
    try:
        name = TransactionalIds(client.connection, client).names().get(producer_id)
    except ClusterError:  # not everybody may list them
        name = None
    known = "" if name is None else f"transactional id '{name}', "
    return f"{known}producer id {producer_id}"
