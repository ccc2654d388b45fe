# SPDX-License-Identifier: Apache-2.0
"""Rate-limited log lines: the first at once, then one per minute with a count.

For events that clients cause, so that a client cannot fill the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_EVERY_SECONDS = 60.0


class ThrottledLog:
    """Lines of one kind. Thread-safe."""

    def __init__(
        self,
        log: logging.Logger,
        every_seconds: float = _EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._every_seconds = every_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._next: float | None = None
        self._suppressed = 0

    def warn(self, sentence: str) -> None:
        """Log a line or count it. It must not contain secrets."""
        with self._lock:
            now = self._clock()
            if self._next is not None and now < self._next:
                self._suppressed += 1
                return
            self._next = now + self._every_seconds
            suppressed, self._suppressed = self._suppressed, 0
        more = f" ({suppressed} more since the last such line.)" if suppressed else ""
        self._log.warning(f"{sentence}{more}")


def loggable(text: str) -> str:
    """Escape and shorten client input for a log line."""
    return ascii(text[:64])
