# SPDX-License-Identifier: Apache-2.0
"""How much memory the record batches in a task take.

A slice of a receive buffer pins all of it, so whole buffers are counted, from the moment they
are asked for until the last record batch in them is acknowledged. What Python needs to know of a
record batch is counted too: of tiny ones it is most.

What Python's memory costs: freed memory that is kept, and searches for garbage.

The C library keeps what receive buffers leave behind, in holes that later ones do not always fit:
without `return_freed_memory` a task that was full once stays at one and a half times its bound.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

BATCH_OVERHEAD_BYTES = 1_000  # of Python's for one record batch, about


class MemoryBudget:
    """The bound, and what is held or asked for under it."""

    __slots__ = ("_peak", "held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._peak = 0

    @property
    def available(self) -> int:
        """Bytes that may still be asked for."""
        return self.limit - self.held

    def reserve(self, size: int) -> None:
        """Count bytes as held."""
        self.held += size
        self._peak = max(self._peak, self.held)

    def reset_peak(self) -> int:
        """The most that was held since this was last asked."""
        peak, self._peak = self._peak, self.held
        return peak

    def release(self, size: int) -> None:
        """Count bytes as free again."""
        self.held -= size


class SharedBuffer:
    """One receive buffer, shared by the record batches cut out of it.

    Whoever makes it is its first user, until it is settled.
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
        """Whether copying what is still wanted frees more than it takes."""
        return self._used <= self._size // 2

    def retain(self, size: int) -> None:
        """One more user, of so many bytes."""
        self._users += 1
        self._used += size
        self._budget.reserve(BATCH_OVERHEAD_BYTES)

    def release(self, size: int) -> None:
        """One user is done with its bytes; the last one frees the buffer."""
        self._users -= 1
        self._used -= size
        self._budget.release(
            BATCH_OVERHEAD_BYTES if self._users else self._size + BATCH_OVERHEAD_BYTES
        )

    def release_owner(self) -> None:
        """Its maker is done with all of it."""
        self.release(self._size)


def return_freed_memory() -> None:
    """Costs some milliseconds: for once a second, not for every buffer."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Make many objects that stay; with 50,000 partitions the searches cost most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
