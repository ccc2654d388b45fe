# SPDX-License-Identifier: Apache-2.0
"""Exponential backoff with jitter; retries never stop."""

from __future__ import annotations

import random

_FIRST, _LONGEST = 0.1, 5.0
_FIRST_SLOW, _LONGEST_SLOW = 5.0, 60.0


class Backoff:
    """Doubles the pause from 0.1 to 5 seconds, or from 5 to 60 seconds when slow."""

    __slots__ = ("_pause",)

    def __init__(self) -> None:
        self._pause = 0.0

    def next_pause(self, *, slow: bool = False) -> float:
        """Return the seconds until the next attempt, with 20 % jitter."""
        first, longest = (_FIRST_SLOW, _LONGEST_SLOW) if slow else (_FIRST, _LONGEST)
        self._pause = min(max(self._pause * 2, first), longest)
        return self._pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing

    @property
    def has_failed(self) -> bool:
        """Whether something failed since the last reset."""
        return self._pause > 0

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self._pause = 0.0
