# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM as something to wait for.

A signal handler runs in the middle of whatever the main thread does, so it must not touch a lock
that the main thread may hold; threading.Event has one. A byte in a pipe has none.
"""

from __future__ import annotations

import os
import select
import signal


class StopSignal:
    """Takes the two signals over; once asked for, the stop stays asked for."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            return  # asked for thousands of times already

    def wait(self, seconds: float) -> bool:
        """Whether a stop has been asked for, waiting for it that long."""
        return bool(select.select([self._reader], [], [], seconds)[0])
