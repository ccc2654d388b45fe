# SPDX-License-Identifier: Apache-2.0
"""Turns SIGINT, SIGTERM and SIGHUP into something to wait for.

A signal handler interrupts the main thread anywhere, so it must not use a lock that the main
thread may hold. threading.Event has such a lock; a byte written to a pipe needs none.
"""

from __future__ import annotations

import os
import select
import signal


class ProcessSignals:
    """Handles the stop and reload signals; a requested stop stays requested.

    What SIGHUP means is decided once, at start. With a controlling terminal and without nohup it
    stops the process, because the terminal is gone. Otherwise it reloads files, if the command has
    any (`reloads`). Without such files nohup ignores it; else it stops the process. The handler
    cannot decide: /dev/tty can still be opened for a moment after the terminal was closed.
    """

    def __init__(self, *, reloads: bool = False) -> None:
        self._stop, self._stop_writer = _pipe()
        self._reload, self._reload_writer = _pipe()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request_stop)
        has_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        if reloads and (has_nohup or not _has_terminal()):
            signal.signal(signal.SIGHUP, self._request_reload)
        elif not has_nohup:
            signal.signal(signal.SIGHUP, self._request_stop)

    def _request_stop(self, *_: object) -> None:
        _write(self._stop_writer)

    def _request_reload(self, *_: object) -> None:
        _write(self._reload_writer)

    def wait(self, seconds: float) -> bool:
        """Wait for a stop. Returns whether one is requested; a reload request ends the wait."""
        select.select([self._stop, self._reload], [], [], seconds)
        return bool(select.select([self._stop], [], [], 0)[0])

    def consume_reload_request(self) -> bool:
        """Return whether a reload was requested since the last call."""
        is_requested = False
        while select.select([self._reload], [], [], 0)[0]:
            is_requested = bool(os.read(self._reload, 4096))
        return is_requested


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    return reader, writer


def _write(writer: int) -> None:
    try:
        os.write(writer, b"!")
    except BlockingIOError:
        return  # the pipe is full of requests already


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
