# SPDX-License-Identifier: Apache-2.0
"""Give memory that Python has freed back to the system.

The C library keeps what receive buffers leave behind, in holes that later ones do not always fit:
without this a task that was full once stays at one and a half times its bound.
"""

from __future__ import annotations

import ctypes

try:
    _trim = ctypes.CDLL(None).malloc_trim
except (OSError, AttributeError):  # another C library than glibc
    _trim = None


def return_freed_memory() -> None:
    """Costs some milliseconds: for once a second, not for every buffer."""
    if _trim is not None:
        _trim(0)
