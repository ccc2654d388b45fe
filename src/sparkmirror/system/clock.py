# SPDX-License-Identifier: Apache-2.0
"""The clock for leases and sessions. It also runs while the machine is suspended."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def steady_clock() -> float:
    """Return seconds, including suspended time where the system has such a clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
