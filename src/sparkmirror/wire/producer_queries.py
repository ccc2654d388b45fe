# SPDX-License-Identifier: Apache-2.0
"""Requests about producers: DescribeProducers and InitProducerId.

A leader keeps the epoch and last sequence of every recent producer of a partition, even after the
records are deleted. Brokers support DescribeProducers since 2.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import InitProducerIdRequest

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster

_DESCRIBE_PRODUCERS_VERSION = 0
_INIT_PRODUCER_ID_VERSION = 4


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A leader's state of one producer of one partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    transaction_start: int = -1  # the first offset of its open transaction


@dataclass(slots=True)
class ProducerDescriptions:
    """The results by partition."""

    found: dict[TopicPartition, tuple[ActiveProducer, ...]] = field(default_factory=dict)
    failed: dict[TopicPartition, int] = field(default_factory=dict)  # error codes


def describe_producers(
    cluster: Cluster, wanted: Iterable[TopicPartition], done: Callable[[ProducerDescriptions], None]
) -> None:
    """Call `done` once, with a result or an error code for every partition."""
    states = ProducerDescriptions()
    by_node: dict[int, list[TopicPartition]] = {}
    for tp in wanted:
        leader = cluster.leaders.get(tp)
        if leader is None:
            states.failed[tp] = cluster.leader_error(tp)
        else:
            by_node.setdefault(leader.node, []).append(tp)
    left = set(by_node)

    def finish(node: int) -> None:
        left.discard(node)
        if not left:
            done(states)

    if not by_node:
        done(states)
    for node, some in by_node.items():
        _describe_from(cluster, node, some, states, partial(finish, node))


def _describe_from(
    cluster: Cluster,
    node: int,
    some: list[TopicPartition],
    states: ProducerDescriptions,
    finish: Callable[[], None],
) -> None:
    def failed(code: int) -> None:
        states.failed.update(dict.fromkeys(some, code))
        finish()

    def answered(answer: Any) -> None:
        for topic in answer.topics:
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    states.failed[tp] = one.error_code
                else:
                    states.found[tp] = tuple(_active(p) for p in one.active_producers)
        finish()

    _send(cluster, node, _request(some), _DESCRIBE_PRODUCERS_VERSION, answered, failed)


def _active(producer: Any) -> ActiveProducer:
    return ActiveProducer(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.current_txn_start_offset,
    )


def _request(some: Iterable[TopicPartition]) -> DescribeProducersRequest:
    topics: dict[str, list[int]] = {}
    for tp in some:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    )


def request_producer_id(
    cluster: Cluster, done: Callable[[int, int], None], failed: Callable[[int], None]
) -> None:
    """Call `done` with producer id and epoch, or `failed` with an error code, once.

    Each call uses the next broker.
    """

    def answered(answer: Any) -> None:
        if answer.error_code:
            failed(answer.error_code)
        else:
            done(answer.producer_id, answer.producer_epoch)

    node = cluster.next_node()
    if node is None:
        cluster.refresh_metadata()
        failed(error_codes.CONNECTION_LOST)
        return
    message = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout_ms=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    _send(cluster, node, message, _INIT_PRODUCER_ID_VERSION, answered, failed)


def _send(
    cluster: Cluster,
    node: int,
    message: Any,
    newest: int,
    answered: Callable[[Any], None],
    failed: Callable[[int], None],
) -> None:
    def lost(error: UnreachableError) -> None:
        cluster.report_error(error)
        failed(error_codes.CONNECTION_LOST)

    def send() -> None:
        try:
            connection.request(message, answered, lost, newest=newest)
        except WireError:
            failed(error_codes.UNSUPPORTED_VERSION)

    try:
        connection = cluster.connection(node)
    except UnreachableError as error:
        lost(error)
        return
    connection.when_ready(send, lost)
