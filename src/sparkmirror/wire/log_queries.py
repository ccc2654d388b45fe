# SPDX-License-Identifier: Apache-2.0
"""Ask a partition's leader where its log begins and ends.

Ask a partition's leader where a leader epoch ended (OffsetForLeaderEpoch).

The leader answers with the largest epoch up to the requested one that its log holds, and with the
offset where that epoch ends. A reader whose position is behind that end has read records that the
log lost since. Brokers answer every client since 2.1; fetch answers of version 12 and later (2.7)
say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import BrokerConnection, OnFailure

_EARLIEST, _LATEST = -2, -1
_LIST_OFFSETS_VERSION = 7

_OFFSET_FOR_LEADER_EPOCH_VERSION = 4
_CONSUMER = -1  # as replica id


def request_log_bounds(
    cluster: Cluster,
    tp: TopicPartition,
    *,
    read_committed: bool,
    done: Callable[[int, int], None],
    failed: Callable[[int], None],
) -> None:
    """Call `done` with the first offset and the end, or `failed` with an error code."""
    leader = cluster.leaders.get(tp)
    if leader is None:
        failed(cluster.leader_error(tp))
        return
    try:
        connection = cluster.connection(leader.node)
    except UnreachableError:
        failed(error_codes.CONNECTION_LOST)
        return
    bounds: dict[int, int] = {}

    def ask(timestamp: int) -> None:
        topic = ListOffsetsRequest.ListOffsetsTopic
        message = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1 if read_committed else 0,
            topics=[
                topic(
                    name=tp.topic,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=tp.partition,
                            current_leader_epoch=-1,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        connection.request(
            message,
            lambda answer: answered(timestamp, answer),
            lambda _error: failed(error_codes.CONNECTION_LOST),
            newest=_LIST_OFFSETS_VERSION,
        )

    def answered(timestamp: int, answer: Any) -> None:
        one = answer.topics[0].partitions[0]
        if one.error_code:
            failed(one.error_code)
            return
        bounds[timestamp] = one.offset
        if len(bounds) == 2:  # noqa: PLR2004 - both ends
            done(bounds[_EARLIEST], bounds[_LATEST])
        else:
            ask(_LATEST)

    def begin() -> None:
        try:
            ask(_EARLIEST)
        except WireError:
            failed(error_codes.UNSUPPORTED_VERSION)

    connection.when_ready(begin, lambda _error: failed(error_codes.CONNECTION_LOST))


class LeaderEpochEnd(NamedTuple):
    """A leader's answer for one partition; epoch and offset are -1 if it knows no such epoch."""

    error: int
    leader_epoch: int
    end_offset: int


def request_epoch_end(
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
        cluster.report_error(error)
        failed(error_codes.CONNECTION_LOST)

    def answered(ends: dict[TopicPartition, LeaderEpochEnd]) -> None:
        end = ends.get(tp, LeaderEpochEnd(error_codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1))
        if end.error:
            failed(end.error)
        else:
            done(end.leader_epoch, end.end_offset)

    def send() -> None:
        try:
            request_epoch_ends(connection, {tp: (leader.leader_epoch, epoch)}, answered, lost)
        except WireError:
            failed(error_codes.UNSUPPORTED_VERSION)

    try:
        connection = cluster.connection(leader.node)
    except UnreachableError as error:
        lost(error)
        return
    connection.when_ready(send, lost)


def request_epoch_ends(
    connection: BrokerConnection,
    wanted: Mapping[TopicPartition, tuple[int, int]],
    answered: Callable[[dict[TopicPartition, LeaderEpochEnd]], None],
    lost: OnFailure,
) -> None:
    """Ask one leader about many partitions; WireError if the broker does not know the API.

    `wanted` gives the leader's epoch (-1: not known) and the epoch in question.
    """

    def read(answer: Any) -> None:
        answered(
            {
                TopicPartition(topic.topic, one.partition): LeaderEpochEnd(
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
    connection.request(message, read, lost, newest=_OFFSET_FOR_LEADER_EPOCH_VERSION)
