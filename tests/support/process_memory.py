# SPDX-License-Identifier: Apache-2.0
"""How much memory a process has had at most while a test did something to it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil

_PAUSE_SECONDS = 0.05
MIB = 1 << 20


def resident(process: psutil.Process) -> int:
    return int(process.memory_info().rss)


class MemoryWatch:
    """Samples the resident memory of a process, which must not end meanwhile."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
        self.last = self.peak = resident(process)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def __str__(self) -> str:
        return f"at most {self.peak / MIB:.0f} MiB, {self.last / MIB:.0f} MiB afterwards"

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            self.last = resident(self._process)
            self.peak = max(self.peak, self.last)
