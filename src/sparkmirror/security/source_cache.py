# SPDX-License-Identifier: Apache-2.0
"""One credential source for all connections of a process with the same settings.

A process has many connections; the server that issues tokens, tickets or keys gets one request for
all of them. A changed secret means other settings. The least recently used sources are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MAX_SOURCES = 64


class SourceCache(Generic[K, V]):
    """Sources by settings, which are compared with `==` and need no hash. Thread-safe."""

    def __init__(self, create: Callable[[K], V]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._known: list[tuple[K, V]] = []

    def get(self, settings: K) -> V:
        """Return the source for these settings; creates it if needed."""
        with self._lock:
            for at, (known, source) in enumerate(self._known):
                if known == settings:
                    self._known.append(self._known.pop(at))
                    return source
            source = self._create(settings)
            self._known.append((settings, source))
            del self._known[:-_MAX_SOURCES]
            return source
