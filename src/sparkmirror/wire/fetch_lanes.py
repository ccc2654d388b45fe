# SPDX-License-Identifier: Apache-2.0
"""The fetch sessions of one fetcher: one per broker, or several lanes to a high-latency broker.

Also sets the size limits of a response, which depend on how many sessions share the memory. Owned
by the loop's thread.
"""

from __future__ import annotations

from sparkmirror.errors import UnreachableError
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetch_protocol import (
    FINAL_SESSION_EPOCH,
    NAMES_VERSION,
    fetch_request,
)
from sparkmirror.wire.fetch_session import FetchSession
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.settings import FetchSettings

SMALLEST_FETCH = 1 << 20
_MAX_PARTITION_BYTES = 4 << 20  # an epoch that ends waits until these bytes are written
_MAX_LANES = 8  # sessions with one high-latency broker


class FetchLanes:
    """Sessions by broker and lane."""

    def __init__(self, settings: FetchSettings, budget: MemoryBudget) -> None:
        self._settings = settings
        self._budget = budget
        self.sessions: dict[tuple[int, int], FetchSession] = {}  # by broker and lane
        self._single_only: set[int] = set()  # brokers that refused further connections

    def smallest(self, node: int) -> FetchSession:
        """Return the session of a broker with the fewest partitions; open one if there is none."""
        lanes = [one for one in self.sessions.values() if one.node == node]
        return min(lanes, key=lambda one: one.size) if lanes else self._open(node, 0)

    def _open(self, node: int, lane: int) -> FetchSession:
        session = self.sessions[node, lane] = FetchSession(node, lane)
        return session

    def is_single(self, session: FetchSession) -> bool:
        """Whether it is the only session with its broker."""
        return sum(1 for one in self.sessions.values() if one.node == session.node) == 1

    def split(self, session: FetchSession) -> bool:
        """Distribute the partitions of a high-latency broker over several sessions.

        Returns false if the memory allows one session only.
        """
        node = session.node
        others = sum(1 for one in self.sessions.values() if one.size and one.node != node)
        room = self._budget.limit // (4 * SMALLEST_FETCH) - others
        lanes = min(_MAX_LANES, len(session.partitions), room)
        if lanes <= 1 or node in self._single_only:
            return False
        free = [lane for lane in range(lanes + 1) if (node, lane) not in self.sessions]
        session.share_with([self._open(node, lane) for lane in free[: lanes - 1]])
        return True

    def remove(self, session: FetchSession) -> None:
        """Remove one of several lanes; if it never had a response, open no more to this broker."""
        self.sessions.pop((session.node, session.lane), None)
        if not session.has_responded:
            self._single_only.add(session.node)  # the broker may limit its connections

    def max_response_bytes(self) -> int:
        sessions = sum(1 for one in self.sessions.values() if one.size)
        share = self._budget.limit // (4 * max(1, sessions))
        return min(self._settings.fetch_max_bytes, max(SMALLEST_FETCH, share))

    def max_partition_bytes(self, session: FetchSession) -> int:
        """The limit of one partition in one response; a partition buffers at most twice as much."""
        fixed = self._settings.max_partition_fetch_bytes
        if fixed >= 0:
            return max(1, fixed)
        part = max(SMALLEST_FETCH, self.max_response_bytes() // max(1, session.busy))
        return min(part, _MAX_PARTITION_BYTES)

    def close(self, cluster: Cluster) -> None:
        """Close the sessions on the brokers."""
        for session in self.sessions.values():
            if session.id == 0:
                continue
            try:
                connection = cluster.connection(session.node, session.lane)
            except UnreachableError:
                continue
            if connection.api_versions:
                request = fetch_request(
                    NAMES_VERSION,
                    self._settings,
                    max_wait_ms=0,
                    max_bytes=0,
                    max_partition_bytes=0,
                    session=(session.id, FINAL_SESSION_EPOCH),
                )
                connection.request_raw(
                    request, lambda _f: None, lambda _e: None, newest=NAMES_VERSION
                )
