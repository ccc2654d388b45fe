# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP as something to wait for.

A signal handler runs in the middle of whatever the main thread does, so it must not touch a lock
that the main thread may hold; threading.Event has one. A byte in a pipe has none.
"""

from __future__ import annotations

import os
import select
import signal


class StopSignal:
    """Takes the signals over; once asked for, the stop stays asked for.

    SIGHUP means two things: "read your file again" to a service, "your terminal is gone" to a
    command that somebody started there and did not protect with nohup. The second one is a stop.
    """

    def __init__(self, *, takes_hangup: bool = False) -> None:
        self._stop, self._stop_writer = _pipe()
        self._hangup, self._hangup_writer = _pipe()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)
        self._ends_with_terminal = False
        if takes_hangup:
            is_protected = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            self._ends_with_terminal = not is_protected and _has_terminal()
            signal.signal(signal.SIGHUP, self._hang_up)

    def _ask(self, *_: object) -> None:
        _write(self._stop_writer)

    def _hang_up(self, *_: object) -> None:
        is_stop = self._ends_with_terminal and not _has_terminal()
        _write(self._stop_writer if is_stop else self._hangup_writer)

    def wait(self, seconds: float) -> bool:
        """Whether a stop has been asked for, waiting for it that long; SIGHUP ends the wait."""
        select.select([self._stop, self._hangup], [], [], seconds)
        return bool(select.select([self._stop], [], [], 0)[0])

    def take_hangup(self) -> bool:
        """Whether SIGHUP came since the last time somebody asked."""
        came = False
        while select.select([self._hangup], [], [], 0)[0]:
            came = bool(os.read(self._hangup, 4096))
        return came


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    return reader, writer


def _write(writer: int) -> None:
    try:
        os.write(writer, b"!")
    except BlockingIOError:
        return  # asked for thousands of times already


def _has_terminal() -> bool:
    """Whether this process belongs to a terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
