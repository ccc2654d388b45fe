# SPDX-License-Identifier: Apache-2.0
"""The fetch state of one partition, and the listeners of the fetcher.

Each partition has one listener; each fetcher has one listener for log changes. The fetcher calls
both on the loop's thread.
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
    """The fetch state of one partition.

    The caller sets `listener` before it adds the partition to the fetcher.
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
        "moves",
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
        # The leader epoch of the last batch that was read. The broker compares it with its own
        # history, to detect that the log was truncated and has grown again.
        self.last_leader_epoch = last_epoch
        self.end_offset = -1  # last stable offset or high watermark, by isolation level
        self.high_watermark = -1
        self.log_start_offset = -1
        self.is_at_end = False  # at the time of the last response
        self.is_position_validated = False  # by OffsetForLeaderEpoch, for Fetch below version 12
        self.queued_bytes = 0  # fetched, and not yet acknowledged by the target
        self.leader: PartitionLeader | None = None
        self.session: FetchSession | None = None
        self.moves = 0  # how often the caller has paused it or set its position
        self.error = error_codes.NONE
        self.backoff = Backoff()

    @property
    def is_behind_open_transaction(self) -> bool:
        """The position is at the last stable offset, which is below the high watermark."""
        return self.is_at_end and self.end_offset < self.high_watermark

    @property
    def is_finished(self) -> bool:
        return self.stop_at is not None and self.position >= self.stop_at


def leader_epoch(part: FetchPartition) -> int:
    """The leader epoch of the partition, from the metadata."""
    return part.leader.leader_epoch if part.leader else UNKNOWN_LEADER_EPOCH


class FetchListener(Protocol):
    """Receives the record batches and errors of one partition."""

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        buffer: SharedBuffer,
    ) -> int:
        """Handle record batches, in order; returns the position after them.

        To keep a batch, retain the buffer. Raises CorruptRecordBatchError if the first is corrupt.
        """

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:
        """Handle a fetch error; the fetcher retries with backoff."""

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        """Handle the first successful fetch after errors."""


class LogChangeListener(Protocol):
    """Decides how to continue after a log was truncated."""

    def on_out_of_range(self, part: FetchPartition) -> None:
        """Handle a position outside the log; `Fetcher.resume_at` continues the partition."""

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """Handle a log that differs from `end_offset` on; `resume_at` continues the partition."""

    def on_ended_early(self, part: FetchPartition) -> None:
        """Handle a log that ends before the partition's `stop_at`."""
