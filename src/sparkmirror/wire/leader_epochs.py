# SPDX-License-Identifier: Apache-2.0
"""Ask a partition's leader where a leader epoch ended (OffsetForLeaderEpoch).

The leader answers with the largest epoch up to the requested one that its log holds, and with the
offset where that epoch ends. A reader whose position is behind that end has read records that the
log lost since. Brokers answer every client since 2.1; fetch answers of version 12 and later (2.7)
say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import Connection, Failure

_NEWEST_VERSION = 4
_CONSUMER = -1  # as replica id


class EpochEnd(NamedTuple):
    """A leader's answer for one partition; epoch and offset are -1 if it knows no such epoch."""

    error: int
    leader_epoch: int
    end_offset: int


def ask_epoch_end(
    cluster: Cluster,
    tp: TopicPartition,
    epoch: int,
    *,
    done: Callable[[int, int], None],
    failed: Callable[[int], None],
) -> None:
    """Call `done` with leader epoch and end offset, or `failed` with an error code, once.

    Both are -1 if the leader's log begins after the requested epoch. The leader's own epoch goes
    with the request, so that a broker that leads no more refuses it.
    """
    leader = cluster.leaders.get(tp)
    if leader is None:
        failed(cluster.leader_error(tp))
        return

    def lost(error: UnreachableError) -> None:
        cluster.complain(error)
        failed(error_codes.LOST_CONNECTION)

    def answered(ends: dict[TopicPartition, EpochEnd]) -> None:
        end = ends.get(tp, EpochEnd(error_codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1))
        if end.error:
            failed(end.error)
        else:
            done(end.leader_epoch, end.end_offset)

    def send() -> None:
        try:
            ask_epoch_ends(connection, {tp: (leader.leader_epoch, epoch)}, answered, lost)
        except WireError:
            failed(error_codes.UNSUPPORTED_VERSION)

    try:
        connection = cluster.connection(leader.node)
    except UnreachableError as error:
        lost(error)
        return
    connection.when_ready(send, lost)


def ask_epoch_ends(
    connection: Connection,
    wanted: Mapping[TopicPartition, tuple[int, int]],
    answered: Callable[[dict[TopicPartition, EpochEnd]], None],
    lost: Failure,
) -> None:
    """Ask one leader about many partitions; WireError if the broker does not know the API.

    `wanted` gives the leader's epoch (-1: not known) and the epoch in question.
    """

    def read(answer: Any) -> None:
        answered(
            {
                TopicPartition(topic.topic, one.partition): EpochEnd(
                    one.error_code, one.leader_epoch, one.end_offset
                )
                for topic in answer.topics
                for one in topic.partitions
            }
        )

    topic_class = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics: dict[str, list[Any]] = {}
    for tp, (current_epoch, epoch) in wanted.items():
        topics.setdefault(tp.topic, []).append(
            topic_class.OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=current_epoch, leader_epoch=epoch
            )
        )
    message = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[topic_class(topic=name, partitions=parts) for name, parts in topics.items()],
    )
    connection.call(message, read, lost, newest=_NEWEST_VERSION)
