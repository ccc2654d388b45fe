# SPDX-License-Identifier: Apache-2.0
"""Ask a partition's leader where a leader epoch ended (OffsetForLeaderEpoch).

The leader answers with the largest epoch up to the requested one that its log holds, and with the
offset where that epoch ends. A reader whose position is behind that end has read records that the
log lost since. Brokers answer every client since 2.1; fetch answers of version 12 and later (2.7)
say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster

_NEWEST_VERSION = 4
_CONSUMER = -1  # as replica id


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

    def answered(answer: Any) -> None:
        one = answer.topics[0].partitions[0]
        if one.error_code:
            failed(one.error_code)
        else:
            done(one.leader_epoch, one.end_offset)

    def send() -> None:
        message = _request(tp, leader.leader_epoch, epoch)
        try:
            connection.call(message, answered, lost, newest=_NEWEST_VERSION)
        except WireError:
            failed(error_codes.UNSUPPORTED_VERSION)

    try:
        connection = cluster.connection(leader.node)
    except UnreachableError as error:
        lost(error)
        return
    connection.when_ready(send, lost)


def _request(tp: TopicPartition, current_epoch: int, epoch: int) -> OffsetForLeaderEpochRequest:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[
            topic(
                topic=tp.topic,
                partitions=[
                    topic.OffsetForLeaderPartition(
                        partition=tp.partition,
                        current_leader_epoch=current_epoch,
                        leader_epoch=epoch,
                    )
                ],
            )
        ],
    )
