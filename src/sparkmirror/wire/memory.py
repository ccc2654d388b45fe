# SPDX-License-Identifier: Apache-2.0
"""The memory budget of a task's record batches.

A slice of a receive buffer keeps all of it alive, so the budget counts whole buffers: from the
request until the last record batch in the buffer is acknowledged. It also counts the Python objects
of a record batch, which are most of a tiny one.

glibc keeps freed receive buffers in fragments that later buffers may not fit. Without
`return_freed_memory`, a task that was full once stays at 1.5 times its limit.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

BATCH_OVERHEAD_BYTES = 1_000  # approximate size of the Python objects of one record batch


class MemoryBudget:
    """The limit, and the bytes that are held or requested."""

    __slots__ = ("_peak", "held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._peak = 0

    @property
    def available(self) -> int:
        return self.limit - self.held

    def reserve(self, size: int) -> None:
        self.held += size
        self._peak = max(self._peak, self.held)

    def reset_peak(self) -> int:
        """Return the peak since the last call."""
        peak, self._peak = self._peak, self.held
        return peak

    def release(self, size: int) -> None:
        self.held -= size


class SharedBuffer:
    """Reference count of one receive buffer, shared by the record batches in it.

    The creator holds the first reference, until `release_owner`.
    """

    __slots__ = ("_budget", "_size", "_used", "_users")

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self._users = 1
        self._used = size
        self._size = size
        budget.reserve(size + BATCH_OVERHEAD_BYTES)

    @property
    def is_sparse(self) -> bool:
        """Whether at most half of the buffer is still in use, so that copying it out pays."""
        return self._used <= self._size // 2

    def retain(self, size: int) -> None:
        """Add a reference to `size` bytes of the buffer."""
        self._users += 1
        self._used += size
        self._budget.reserve(BATCH_OVERHEAD_BYTES)

    def release(self, size: int) -> None:
        """Drop a reference to `size` bytes; the last one frees the buffer."""
        self._users -= 1
        self._used -= size
        self._budget.release(
            BATCH_OVERHEAD_BYTES if self._users else self._size + BATCH_OVERHEAD_BYTES
        )

    def release_owner(self) -> None:
        """Drop the creator's reference."""
        self.release(self._size)


def return_freed_memory() -> None:
    """Return freed memory to the system. Takes some milliseconds: call once a second at most."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection while many long-lived objects are created.

    With 50,000 partitions, collections would take most of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
