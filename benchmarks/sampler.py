# SPDX-License-Identifier: Apache-2.0
"""A CPU profiler: samples the current line a thousand times per CPU-second.

Signal handlers of Python run after a call into C returns. So each sample is weighted with the CPU
time since the previous one: long calls count in full, for the line that made them.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

_EVERY_SECONDS = 0.001


class Sampler:
    """Samples the main thread between `start` and `save`."""

    def __init__(self) -> None:
        self._lines: defaultdict[tuple[str, str, int], float] = defaultdict(float)
        self._last = 0.0
        self._times = os.times()

    def start(self) -> None:
        self._times, self._last = os.times(), time.process_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, _EVERY_SECONDS, _EVERY_SECONDS)

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        now = time.process_time()
        if frame is not None:
            code = frame.f_code
            where = (code.co_filename, code.co_qualname, frame.f_lineno)
            self._lines[where] += now - self._last
        self._last = now

    def save(self, file: Path) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        now = os.times()
        found = {
            "user": now.user - self._times.user,
            "system": now.system - self._times.system,
            "lines": sorted(
                ([*where, seconds] for where, seconds in self._lines.items()),
                key=lambda one: one[-1],
                reverse=True,
            ),
        }
        file.write_text(json.dumps(found), encoding="utf-8")
