# SPDX-License-Identifier: Apache-2.0
"""One credential source for all connections of a process with the same settings.

A process has many connections, and the server that issues tokens, tickets or keys is asked once for
all of them. Settings change when a secret changes; unused sources are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST = 64


class SourceCache(Generic[K, V]):
    """By settings, which are compared and need no hash; any thread may ask."""

    def __init__(self, make: Callable[[K], V]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._known: list[tuple[K, V]] = []

    def get(self, settings: K) -> V:
        """The one for these settings, made if there is none."""
        with self._lock:
            for place, (known, found) in enumerate(self._known):
                if known == settings:
                    self._known.append(self._known.pop(place))
                    return found
            made = self._make(settings)
            self._known.append((settings, made))
            del self._known[:-_MOST]
            return made
