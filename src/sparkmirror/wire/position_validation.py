# SPDX-License-Identifier: Apache-2.0
"""Detect log truncation with OffsetForLeaderEpoch (KIP-320).

Needed for brokers before Kafka 2.7 (Fetch < 12), which do not report a diverging epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparkmirror.errors import WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.connection import BrokerConnection, OnFailure
from sparkmirror.wire.fetch_partition import UNKNOWN_LEADER_EPOCH, FetchPartition, leader_epoch
from sparkmirror.wire.fetch_session import FetchSession
from sparkmirror.wire.log_queries import LeaderEpochEnd, request_epoch_ends

EpochEnds = Iterator[tuple[FetchPartition, LeaderEpochEnd | None]]


def request_validation(
    connection: BrokerConnection,
    session: FetchSession,
    done: Callable[[EpochEnds], None],
    failed: OnFailure,
) -> bool:
    """Request the end offsets of the last leader epochs of a session's partitions.

    Calls `done` with the partitions whose position did not change since. Returns false if there is
    nothing to validate, or the broker does not support the request.
    """
    parts = [(part, part.position, part.last_leader_epoch) for part in session.unvalidated()]
    if not parts:
        return False

    def answered(ends: dict[TopicPartition, LeaderEpochEnd]) -> None:
        done(
            (part, ends.get(part.tp))
            for part, *requested in parts
            if part.session is session and [part.position, part.last_leader_epoch] == requested
        )

    epochs = {part.tp: (leader_epoch(part), last) for part, _position, last in parts}
    try:
        request_epoch_ends(connection, epochs, answered, failed)
    except WireError:
        for part, *_requested in parts:
            part.is_position_validated = True
        return False
    return True


def is_diverged(part: FetchPartition, end: LeaderEpochEnd) -> bool:
    """Whether the log was truncated below the position; brokers before 2.0 omit the epoch."""
    return (
        UNKNOWN_LEADER_EPOCH < end.leader_epoch < part.last_leader_epoch
        or end.end_offset < part.position
    )


def validation_error(end: LeaderEpochEnd) -> int:
    """The error code that Fetch version 12 would return for this epoch end."""
    if end.error:
        return end.error
    return error_codes.OFFSET_OUT_OF_RANGE if end.end_offset < 0 else error_codes.NONE
