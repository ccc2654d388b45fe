# SPDX-License-Identifier: Apache-2.0
"""What Python's memory costs: freed memory that is kept, and searches for garbage.

The C library keeps what receive buffers leave behind, in holes that later ones do not always fit:
without `return_freed_memory` a task that was full once stays at one and a half times its bound.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
