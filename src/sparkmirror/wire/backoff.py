# SPDX-License-Identifier: Apache-2.0
"""Growing pauses: a broken partition costs little and is never given up."""

from __future__ import annotations

import random

_FIRST, _LONGEST = 0.1, 5.0
_FIRST_SLOW, _LONGEST_SLOW = 5.0, 60.0


class Backoff:
    """Doubles from a tenth of a second to five, or from five seconds to a minute when slow."""

    __slots__ = ("_pause",)

    def __init__(self) -> None:
        self._pause = 0.0

    def next_pause(self, *, slow: bool = False) -> float:
        """The pause before the next attempt, a fifth more or less than planned."""
        first, longest = (_FIRST_SLOW, _LONGEST_SLOW) if slow else (_FIRST, _LONGEST)
        self._pause = min(max(self._pause * 2, first), longest)
        return self._pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing

    @property
    def has_failed(self) -> bool:
        """Whether something failed since the last reset."""
        return self._pause > 0

    def reset(self) -> None:
        """Something worked: begin with short pauses again."""
        self._pause = 0.0
