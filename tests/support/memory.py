# SPDX-License-Identifier: Apache-2.0
"""How much memory a process has had at most while a test did something to it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil

_PAUSE_SECONDS = 0.05
MIB = 1 << 20


class MemoryWatch:
    """Samples the resident memory of a process, which must not end meanwhile."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
        self.first = self.last = self.peak = self._resident()

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
        first, last, peak = (size / MIB for size in (self.first, self.last, self.peak))
        return f"{first:.0f} MiB before, at most {peak:.0f} MiB, {last:.0f} MiB after"

    def _resident(self) -> int:
        return int(self._process.memory_info().rss)

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            self.last = self._resident()
            self.peak = max(self.peak, self.last)
