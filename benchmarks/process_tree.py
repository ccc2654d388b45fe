# SPDX-License-Identifier: Apache-2.0
"""CPU and memory of a program and all its descendants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import psutil


class ProcessTree:
    """Sampled from time to time; CPU of exited processes stays counted."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._seen: dict[tuple[int, float], float] = {}
        self.peak_memory = 0
        self.elsewhere: Callable[[], Sequence[psutil.Process]] = tuple  # started by others for it

    @property
    def has_ended(self) -> bool:
        """Whether the program itself has exited."""
        try:
            return self._root.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def cpu_seconds(self) -> float:
        """Return user and system time of all processes so far."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self._seen[process.pid, process.create_time()] = times.user + times.system
        return sum(self._seen.values())

    def look_at_memory(self) -> None:
        """Sample the proportional set size: shared memory is counted once."""
        total = 0
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += process.memory_full_info().pss
        self.peak_memory = max(self.peak_memory, total)

    def _processes(self) -> list[psutil.Process]:
        try:
            own = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            own = []
        return [*own, *self.elsewhere()]
