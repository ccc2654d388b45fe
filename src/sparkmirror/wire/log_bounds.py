# SPDX-License-Identifier: Apache-2.0
"""Ask a partition's leader where its log begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster

_EARLIEST, _LATEST = -2, -1
_NEWEST_VERSION = 7


def ask_log_bounds(
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
        failed(error_codes.LOST_CONNECTION)
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
        connection.call(
            message,
            lambda answer: answered(timestamp, answer),
            lambda _error: failed(error_codes.LOST_CONNECTION),
            newest=_NEWEST_VERSION,
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

    connection.when_ready(begin, lambda _error: failed(error_codes.LOST_CONNECTION))
