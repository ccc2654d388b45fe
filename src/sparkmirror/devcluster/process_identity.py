# SPDX-License-Identifier: Apache-2.0
"""Identifies processes by pid *and* start time.

A pid that was reused by another program is never signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
_POLL_SECONDS = 0.05
# In /proc/<pid>/stat, counted from the field after the command's closing parenthesis.
_STATE_FIELD = 0
_START_FIELD = 19


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process; `started` is an opaque value for comparison."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the identity of a running process, or None."""
        started = _start_of(pid)
        return cls(pid, started) if started else None

    @property
    def alive(self) -> bool:
        """Whether this process, not another one with its pid, is running."""
        return _start_of(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Send a signal unless the process has exited."""
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                # It exited between the two calls.
                return


def stop_processes(processes: Iterable[ProcessIdentity], *, timeout_seconds: float) -> None:
    """Send SIGTERM to all, wait, then SIGKILL those that still run."""
    remaining = list(processes)
    for process in remaining:
        # A suspended process would not handle SIGTERM.
        process.send(signal.SIGCONT)
        process.send(signal.SIGTERM)
    remaining = _await_end(remaining, timeout_seconds)
    for process in remaining:
        process.send(signal.SIGKILL)
    _await_end(remaining, timeout_seconds)


def _await_end(processes: list[ProcessIdentity], timeout_seconds: float) -> list[ProcessIdentity]:
    deadline = time.monotonic() + timeout_seconds
    remaining = [process for process in processes if process.alive]
    while remaining and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        remaining = [process for process in remaining if process.alive]
    return remaining


def _start_of(pid: int) -> str:
    """Return the start time in the system's unit; empty if there is no such process."""
    if (_PROC / "self" / "stat").exists():
        try:
            text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
        fields = text.rpartition(")")[2].split()
        return "" if fields[_STATE_FIELD] in "ZX" else fields[_START_FIELD]
    answer = subprocess.run(
        ["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()
