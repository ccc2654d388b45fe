# SPDX-License-Identifier: Apache-2.0
"""One partition that the fetcher reads: its state, and who gets what was read.

Every partition has a listener, set once; every fetcher has one listener for changes of the logs.
Both are called from the loop's thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.memory import SharedBuffer
from sparkmirror.wire.metadata_cache import PartitionLeader
from sparkmirror.wire.outgoing import AbortedTransaction

if TYPE_CHECKING:  # a session has partitions, a partition knows its session
    from sparkmirror.wire.fetch_session import FetchSession

UNKNOWN_LEADER_EPOCH = -1


class FetchPartition:
    """Where reading one partition stands.

    Without a listener in the constructor, one is assigned before the partition is added.
    """

    __slots__ = (
        "backoff",
        "end_offset",
        "error",
        "high_watermark",
        "is_at_end",
        "is_position_validated",
        "last_leader_epoch",
        "leader",
        "listener",
        "log_start_offset",
        "position",
        "queued_bytes",
        "session",
        "stop_at",
        "topic_id",
        "tp",
    )

    listener: FetchListener

    def __init__(
        self,
        tp: TopicPartition,
        position: int,
        *,
        listener: FetchListener | None = None,
        stop_at: int | None = None,
        topic_id: uuid.UUID | None = None,
        last_epoch: int = UNKNOWN_LEADER_EPOCH,
    ) -> None:
        self.tp = tp
        if listener is not None:
            self.listener = listener
        self.position = position
        self.stop_at = stop_at
        self.topic_id = topic_id  # as planned: another id means a recreated topic
        # The newest leader epoch that was read, at the position or after it: the broker compares it
        # with its own history, so that a log that was truncated and grew again is noticed.
        self.last_leader_epoch = last_epoch
        self.end_offset = -1  # of the log as this flow may read it
        self.high_watermark = -1  # of the log as everybody may read it
        self.log_start_offset = -1
        self.is_at_end = False  # everything had been read when the last answer came
        self.is_position_validated = (
            False  # the leader's log holds what was read, if Fetch does not say so
        )
        self.queued_bytes = 0  # read and not yet acknowledged by the target
        self.leader: PartitionLeader | None = None
        self.session: FetchSession | None = None
        self.error = error_codes.NONE
        self.backoff = Backoff()

    @property
    def is_behind_open_transaction(self) -> bool:
        """Everything stable has been read, and more is there behind an open transaction."""
        return self.is_at_end and self.end_offset < self.high_watermark

    @property
    def is_finished(self) -> bool:
        """Nothing more is wanted from here."""
        return self.stop_at is not None and self.position >= self.stop_at


def leader_epoch(part: FetchPartition) -> int:
    """The epoch of the partition's leader, as metadata has it."""
    return part.leader.leader_epoch if part.leader else UNKNOWN_LEADER_EPOCH


class FetchListener(Protocol):
    """Takes what was read of a partition."""

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        buffer: SharedBuffer,
    ) -> int:
        """Take record batches, in order; returns the position after them.

        To keep one, pin the buffer. Raises CorruptRecordBatchError if the first is damaged.
        """

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:
        """The partition cannot be read now; the fetcher retries with growing pauses."""

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        """The partition can be read again after errors."""


class LogChangeListener(Protocol):
    """Decides how to continue when a log is not what it was."""

    def on_out_of_range(self, part: FetchPartition) -> None:
        """The position is outside the log; call `Fetcher.resume_at`, or never."""

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """The log was truncated and has grown again from there; call `resume_at`, or never."""

    def on_ended_early(self, part: FetchPartition) -> None:
        """Everything has been read, and the partition is to be read further than that."""
