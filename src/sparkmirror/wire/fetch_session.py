# SPDX-License-Identifier: Apache-2.0
"""A fetch session with a broker (KIP-227), as the fetcher keeps it.

A broker keeps the partitions of a session and their positions; a request names only those that
changed, and a partition that should not be answered for a while is forgotten and joined again.
"""

from __future__ import annotations

from sparkmirror.model import TopicPartition
from sparkmirror.wire.fetch_partition import UNKNOWN_LEADER_EPOCH, FetchPartition


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
