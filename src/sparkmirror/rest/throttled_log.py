# SPDX-License-Identifier: Apache-2.0
"""Log lines about what strangers try: the first at once, then one a minute with their number.

Whoever can reach the port decides how often such a thing happens; not how much is logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_EVERY_SECONDS = 60.0


class ThrottledLog:
    """Of one kind; any thread."""

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
        self._untold = 0

    def warn(self, sentence: str) -> None:
        """One more; `sentence` says what, and holds no secret."""
        with self._lock:
            now = self._clock()
            if self._next is not None and now < self._next:
                self._untold += 1
                return
            self._next = now + self._every_seconds
            untold, self._untold = self._untold, 0
        more = f" ({untold} more of this kind since the last such line.)" if untold else ""
        self._log.warning(f"{sentence}{more}")


def loggable(text: str) -> str:
    """What a stranger has sent, fit for a log: on one line, and short."""
    return ascii(text[:64])
