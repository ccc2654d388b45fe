# SPDX-License-Identifier: Apache-2.0
"""How long a member of a group may believe that it still has its place, by its own clock.

The coordinator counts from when it received something, we count from when we sent it: whenever we
doubt, we doubt earlier than it gives the place away. A session that has ended stays ended, so that
nobody who saw the end once is surprised by its return.

May be used by any thread.
"""

from __future__ import annotations

import threading

from sparkmirror.system.clock import Clock, steady_clock


class Session:
    """One place in the group, from the first assignment to its end."""

    def __init__(
        self, timeout_seconds: float, rebalance_seconds: float, clock: Clock = steady_clock
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._rebalance_seconds = rebalance_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._last_confirmed: float | None = (
            None  # when the last question was sent that was answered
        )
        self._last_stable: float | None = None  # the same, while no rebalance was going on
        self._join_by: float | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the place is certainly still ours."""
        with self._lock:
            return self._check_alive()

    @property
    def seconds_left(self) -> float:
        """Until doubt begins; infinite if there is nothing to lose."""
        with self._lock:
            ends = self._ends()
        return float("inf") if ends is None else max(0.0, ends - self._clock())

    @property
    def has_expired(self) -> bool:
        """Whether there was a place, and it may be somebody else's by now."""
        with self._lock:
            return self._last_confirmed is not None and not self._check_alive()

    def begin(self, sent_at: float) -> None:
        """The coordinator has given a place, asked for then; or confirmed the one that we have."""
        with self._lock:
            if self._last_confirmed is None or self._check_alive():
                self._last_confirmed = max(self._last_confirmed or sent_at, sent_at)
                self._last_stable = sent_at
                self._join_by = None

    def confirm(self, sent_at: float, *, rebalancing: bool) -> None:
        """The coordinator knows us, as of then; it may wait for us to join again."""
        with self._lock:
            if self._last_confirmed is None or self._last_stable is None or not self._check_alive():
                return
            self._last_confirmed = max(self._last_confirmed, sent_at)
            if not rebalancing:
                self._last_stable = max(self._last_stable, sent_at)
            elif self._join_by is None:
                self._join_by = self._last_stable + self._rebalance_seconds

    def start_rejoin(self) -> None:
        """We have asked to join again; now the coordinator waits for others."""
        with self._lock:
            if self._check_alive():
                self._join_by = float("inf")

    def end(self) -> None:
        """There is no place any more; the next `begin` is another one."""
        with self._lock:
            self._last_confirmed = self._last_stable = self._join_by = None

    def _check_alive(self) -> bool:
        ends = self._ends()
        if ends is None:
            return False
        if self._clock() < ends:
            return True
        self._last_confirmed = float("-inf")
        return False

    def _ends(self) -> float | None:
        if self._last_confirmed is None:
            return None
        ends = self._last_confirmed + self._timeout_seconds
        return ends if self._join_by is None else min(ends, self._join_by)
