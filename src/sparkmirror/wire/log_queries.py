# SPDX-License-Identifier: Apache-2.0
"""Requests about one partition: log start and end (ListOffsets), OffsetForLeaderEpoch, metadata.

OffsetForLeaderEpoch returns the largest epoch up to the requested one in the leader's log, and its
end offset. A consumer with a position above that end has read records that the log has lost since.
Brokers serve it to every client since 2.1; Fetch from version 12 on (2.7) reports the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import BrokerConnection, OnFailure

_EARLIEST, _LATEST = -2, -1
_LIST_OFFSETS_VERSION = 7
_METADATA_VERSION = 12
_OFFSET_FOR_LEADER_EPOCH_VERSION = 4
_CONSUMER = -1  # replica id of a consumer


def request_log_bounds(
    cluster: Cluster,
    tp: TopicPartition,
    *,
    read_committed: bool,
    done: Callable[[int, int], None],
    failed: Callable[[int], None],
) -> None:
    """Call `done` with log start and end offset, or `failed` with an error code, once."""
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

    def send(timestamp: int) -> None:
        topic = ListOffsetsRequest.ListOffsetsTopic
        message = ListOffsetsRequest(
            replica_id=_CONSUMER,
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
            send(_LATEST)

    def start() -> None:
        try:
            send(_EARLIEST)
        except WireError:
            failed(error_codes.UNSUPPORTED_VERSION)

    connection.when_ready(start, lambda _error: failed(error_codes.CONNECTION_LOST))


def request_topic_error(
    cluster: Cluster,
    topic: str,
    *,
    done: Callable[[int], None],
    failed: Callable[[int], None],
) -> None:
    """Call `done` with the error code of a topic's metadata, or `failed` with another one, once.

    Unlike the metadata of `cluster`, the result is never older than the request.
    """
    node = cluster.next_node()
    try:
        connection = None if node is None else cluster.connection(node)
    except UnreachableError:
        connection = None
    if connection is None:
        failed(error_codes.CONNECTION_LOST)
        return
    message = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(topic_id=None, name=topic)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    connection.when_ready(
        lambda: connection.request(
            message,
            lambda answer: done(answer.topics[0].error_code),
            lambda _error: failed(error_codes.CONNECTION_LOST),
            newest=_METADATA_VERSION,
        ),
        lambda _error: failed(error_codes.CONNECTION_LOST),
    )


class LeaderEpochEnd(NamedTuple):
    """A leader's result for one partition; epoch and offset are -1 if it has no such epoch."""

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

    Both are -1 if the leader's log starts after the requested epoch. The request has the current
    leader epoch, so that a former leader refuses it.
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
    """Send one request for many partitions of a leader; WireError if it lacks the API.

    `wanted` has the current leader epoch (-1: unknown) and the requested epoch.
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
