# SPDX-License-Identifier: Apache-2.0
"""The clock for leases and sessions: it also counts while the machine is suspended."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def steady_clock() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
