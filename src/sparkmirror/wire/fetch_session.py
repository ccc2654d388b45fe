# SPDX-License-Identifier: Apache-2.0
"""What the fetcher remembers: a partition that is read, and a fetch session with a broker.

A broker keeps the partitions of a session and their positions; a request names only those that
changed, and a partition that should not be answered for a while is forgotten and joined again.
"""

from __future__ import annotations

import uuid

from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.metadata_cache import PartitionLeader

UNKNOWN_LEADER_EPOCH = -1


class FetchPartition:
    """Where reading one partition stands."""

    __slots__ = (
        "backoff",
        "end_offset",
        "error",
        "high_watermark",
        "is_at_end",
        "is_position_validated",
        "last_leader_epoch",
        "leader",
        "log_start_offset",
        "position",
        "queued_bytes",
        "session",
        "stop_at",
        "topic_id",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        position: int,
        *,
        stop_at: int | None = None,
        topic_id: uuid.UUID | None = None,
        last_epoch: int = UNKNOWN_LEADER_EPOCH,
    ) -> None:
        self.tp = tp
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


class FetchSession:
    """A fetch session with one broker; further lanes are further sessions with the same one."""

    __slots__ = (
        "backpressured",
        "busy",
        "changed",
        "empty_responses",
        "forgotten",
        "has_late_adds",
        "has_responded",
        "id",
        "in_flight",
        "lane",
        "node",
        "partitions",
        "session_epoch",
    )

    def __init__(self, node: int, lane: int) -> None:
        self.node = node
        self.lane = lane
        self.id = 0
        self.session_epoch = 0
        self.partitions: dict[TopicPartition, FetchPartition] = {}
        self.changed: dict[TopicPartition, FetchPartition] = {}
        self.forgotten: dict[TopicPartition, FetchPartition] = {}
        self.backpressured: set[TopicPartition] = set()
        self.in_flight = False
        self.has_responded = False
        self.has_late_adds = False  # partitions joined while a request was waiting for data
        self.empty_responses = 0
        self.busy = 1  # members that have more to read, when last counted

    def reset(self) -> None:
        """Name every partition again in the next request."""
        self.id = 0
        self.session_epoch = 0
        self.changed = dict(self.partitions)
        self.busy = len(self.partitions)
        self.forgotten.clear()

    @property
    def size(self) -> int:
        """How many partitions it is answerable for."""
        return len(self.partitions) + len(self.backpressured)

    def count_busy(self) -> None:
        """Look at all of them: which have more to read; those held back certainly have."""
        reading = sum(1 for part in self.partitions.values() if not part.is_at_end)
        self.busy = reading + len(self.backpressured)

    def unvalidated(self) -> list[FetchPartition]:
        """Those whose last epoch is to be compared with the leader's log before reading on.

        One without an epoch has nothing to compare: what it reads is this leader's log.
        """
        found = []
        for part in self.changed.values():
            if part.last_leader_epoch == UNKNOWN_LEADER_EPOCH:
                part.is_position_validated = True
            elif not part.is_position_validated:
                found.append(part)
        return found

    def move_to_end(self, part: FetchPartition) -> None:
        """Name a partition last: without a session, a broker fills its answer in this order."""
        if self.partitions.pop(part.tp, None) is not None:
            self.partitions[part.tp] = part

    def share_with(self, others: list[FetchSession]) -> None:
        """Keep an equal share of the partitions, and give the rest to others."""
        everybody = [self, *others]
        for number, part in enumerate([*self.partitions.values()]):
            heir = everybody[number % len(everybody)]
            if heir is not self:
                self.remove(part)
                part.session = heir
                heir.add(part)
        self.count_busy()

    def add(self, part: FetchPartition) -> None:
        """Name a partition in the next request."""
        self.partitions[part.tp] = part
        self.changed[part.tp] = part
        self.forgotten.pop(part.tp, None)

    def note_late_add(self) -> None:
        """A partition joined too late for the request that waits; others may follow."""
        self.has_late_adds = True
        self.empty_responses = 0

    def remove(self, part: FetchPartition) -> None:
        """Let the broker forget a partition with the next request."""
        if self.partitions.pop(part.tp, None) is not None:
            self.changed.pop(part.tp, None)
            self.forgotten[part.tp] = part
