# SPDX-License-Identifier: Apache-2.0
"""How much payload a task holds.

A slice of a receive buffer pins all of it, so whole buffers are counted, from the moment they
are asked for until the last record batch in them is acknowledged.
"""

from __future__ import annotations


class Budget:
    """The bound, and what is held or asked for under it."""

    __slots__ = ("held", "limit", "peak")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.peak = 0

    @property
    def available(self) -> int:
        """Bytes that may still be asked for."""
        return self.limit - self.held

    def take(self, size: int) -> None:
        """Count bytes as held."""
        self.held += size
        self.peak = max(self.peak, self.held)

    def give_back(self, size: int) -> None:
        """Count bytes as free again."""
        self.held -= size


class Buffer:
    """One receive buffer, shared by the record batches cut out of it."""

    __slots__ = ("_budget", "_size", "_users", "_was_used")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget = budget
        self._size = size
        self._users = 0
        self._was_used = False
        budget.take(size)

    def retain(self) -> None:
        """One more record batch lies in here."""
        self._users += 1
        self._was_used = True

    def release(self) -> None:
        """One record batch is done with; the last one frees the buffer."""
        self._users -= 1
        if self._users == 0:
            self._budget.give_back(self._size)

    def settle(self) -> None:
        """Free a buffer in which nothing was worth keeping."""
        if not self._was_used:
            self._budget.give_back(self._size)
