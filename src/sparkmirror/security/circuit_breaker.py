# SPDX-License-Identifier: Apache-2.0
"""Delays further logins after a refusal.

A wrong password sent ten times a second locks accounts and fills logs. After a refusal, callers get
the same error for a growing pause. Then one caller may try; the others get the error until that
attempt ends.

Keys are compared with `==`. A key that contains the credentials lets new credentials through at
once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
E = TypeVar("E")

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 30.0
_FORGOTTEN_SECONDS = 60.0  # after the last pause; a later refusal starts with the first pause
_TRIAL_SECONDS = 10.0  # a trial without a reported result ends after this time


@dataclass(slots=True)
class _Failure(Generic[K, E]):
    key: K
    error: E
    pause: float
    until: float
    is_on_trial: bool = False


class CircuitBreaker(Generic[K, E]):
    """Refusals by key; pauses double from 1 s to 30 s. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[_Failure[K, E]] = []

    def record_failure(
        self, key: K, error: E, now: float, longest: float = MAX_PAUSE_SECONDS
    ) -> None:
        """Record a refusal. Concurrent refusals count once."""
        with self._lock:
            self._known = [one for one in self._known if now < one.until + _FORGOTTEN_SECONDS]
            known = self._find(key)
            if known is None:
                pause = min(FIRST_PAUSE_SECONDS, longest)
            elif now >= known.until or known.is_on_trial:
                pause = min(max(2 * known.pause, FIRST_PAUSE_SECONDS), longest)
                self._known.remove(known)
            else:
                return
            self._known.append(_Failure(key, error, pause, now + pause))

    def current_error(self, key: K, now: float) -> E | None:
        """Return the last refusal during its pause, else None."""
        with self._lock:
            known = self._find(key)
            return None if known is None or now >= known.until else known.error

    def begin_trial(self, key: K, now: float) -> E | None:
        """Return as `current_error`. A caller that gets None tries and records the result."""
        with self._lock:
            known = self._find(key)
            if known is None:
                return None
            if now < known.until:
                return known.error
            known.until, known.is_on_trial = now + _TRIAL_SECONDS, True
            return None

    def cancel_trial(self, key: K, now: float) -> None:
        """End a trial without a result; the next caller may try."""
        with self._lock:
            known = self._find(key)
            if known is not None and known.is_on_trial:
                known.until, known.is_on_trial = now, False

    def record_success(self, key: K) -> None:
        with self._lock:
            self._known = [one for one in self._known if one.key != key]

    def _find(self, key: K) -> _Failure[K, E] | None:
        return next((one for one in self._known if one.key == key), None)
