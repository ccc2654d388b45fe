# SPDX-License-Identifier: Apache-2.0
"""The client side of a fetch session (KIP-227).

The broker remembers the partitions of a session and their positions, so a request names only those
that changed. To pause a partition, a request removes it from the session; a later one adds it.
"""

from __future__ import annotations

from sparkmirror.model import TopicPartition
from sparkmirror.wire.fetch_partition import UNKNOWN_LEADER_EPOCH, FetchPartition


class FetchSession:
    """A fetch session with one broker; each lane to a broker has its own session."""

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
        self.has_late_adds = False  # partitions were added while a request was in flight
        self.empty_responses = 0
        self.busy = 1  # partitions with more to read, at the last count

    def reset(self) -> None:
        """Start a new session: the next request names every partition."""
        self.id = 0
        self.session_epoch = 0
        self.changed = dict(self.partitions)
        self.busy = len(self.partitions)
        self.forgotten.clear()

    @property
    def size(self) -> int:
        """The number of partitions, including those under backpressure."""
        return len(self.partitions) + len(self.backpressured)

    def count_busy(self) -> None:
        """Count the partitions with more to read; those under backpressure have."""
        reading = sum(1 for part in self.partitions.values() if not part.is_at_end)
        self.busy = reading + len(self.backpressured)

    def unvalidated(self) -> list[FetchPartition]:
        """The partitions to validate with OffsetForLeaderEpoch before the next fetch.

        A partition without a leader epoch needs no validation.
        """
        found = []
        for part in self.changed.values():
            if part.last_leader_epoch == UNKNOWN_LEADER_EPOCH:
                part.is_position_validated = True
            elif not part.is_position_validated:
                found.append(part)
        return found

    def move_to_end(self, part: FetchPartition) -> None:
        """Name a partition last, because a broker fills a sessionless response in request order."""
        if self.partitions.pop(part.tp, None) is not None:
            self.partitions[part.tp] = part

    def share_with(self, others: list[FetchSession]) -> None:
        """Distribute the partitions evenly over this session and others."""
        sessions = [self, *others]
        for number, part in enumerate([*self.partitions.values()]):
            session = sessions[number % len(sessions)]
            if session is not self:
                self.remove(part)
                part.session = session
                session.add(part)
        self.count_busy()

    def add(self, part: FetchPartition) -> None:
        """Add a partition with the next request."""
        self.partitions[part.tp] = part
        self.changed[part.tp] = part
        self.forgotten.pop(part.tp, None)

    def note_late_add(self) -> None:
        """Record that a partition was added while a request was in flight."""
        self.has_late_adds = True
        self.empty_responses = 0

    def remove(self, part: FetchPartition) -> None:
        """Remove a partition with the next request."""
        if self.partitions.pop(part.tp, None) is not None:
            self.changed.pop(part.tp, None)
            self.forgotten[part.tp] = part
