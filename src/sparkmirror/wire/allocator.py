# SPDX-License-Identifier: Apache-2.0
"""Give memory that Python has freed back to the system.

The C library keeps what receive buffers leave behind, in holes that later ones do not always fit:
without this a task that was full once stays at one and a half times its bound.
"""

from __future__ import annotations

import ctypes


def return_freed_memory() -> None:
    """Costs some milliseconds: for once a second, not for every buffer."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
