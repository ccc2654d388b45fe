# SPDX-License-Identifier: Apache-2.0
"""How long a member may assume that it is in its group, by the local clock.

The coordinator counts from when it received a request, this class from when it was sent: it expires
before the coordinator removes the member. An expired session stays expired, so a caller that has
seen the expiry never sees it alive again.

Thread-safe.
"""

from __future__ import annotations

import threading

from sparkmirror.system.clock import Clock, steady_clock


class Session:
    """One membership, from the first assignment to its end."""

    def __init__(
        self, timeout_seconds: float, rebalance_seconds: float, clock: Clock = steady_clock
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._rebalance_seconds = rebalance_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._last_confirmed: float | None = None  # send time of the last confirmed request
        self._last_stable: float | None = None  # the same, outside of rebalances
        self._join_by: float | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the membership is certainly valid."""
        with self._lock:
            return self._check_alive()

    @property
    def seconds_left(self) -> float:
        """Seconds until it may expire; infinite without a membership."""
        with self._lock:
            ends = self._ends()
        return float("inf") if ends is None else max(0.0, ends - self._clock())

    @property
    def has_expired(self) -> bool:
        """Whether there was a membership that may have expired."""
        with self._lock:
            return self._last_confirmed is not None and not self._check_alive()

    def begin(self, sent_at: float) -> None:
        """Start or confirm a membership that was requested at `sent_at`."""
        with self._lock:
            if self._last_confirmed is None or self._check_alive():
                self._last_confirmed = max(self._last_confirmed or sent_at, sent_at)
                self._last_stable = sent_at
                self._join_by = None

    def confirm(self, sent_at: float, *, rebalancing: bool) -> None:
        """Confirm the membership as of `sent_at`; `rebalancing` starts the deadline to rejoin."""
        with self._lock:
            if self._last_confirmed is None or self._last_stable is None or not self._check_alive():
                return
            self._last_confirmed = max(self._last_confirmed, sent_at)
            if not rebalancing:
                self._last_stable = max(self._last_stable, sent_at)
            elif self._join_by is None:
                self._join_by = self._last_stable + self._rebalance_seconds

    def start_rejoin(self) -> None:
        """A rejoin was sent: the coordinator now waits for other members."""
        with self._lock:
            if self._check_alive():
                self._join_by = float("inf")

    def end(self) -> None:
        """End the membership; the next `begin` starts another one."""
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
