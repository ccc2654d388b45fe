# SPDX-License-Identifier: Apache-2.0
"""How long to wait before asking a worker once more: quickly at first, then less and less often."""

from __future__ import annotations

from collections.abc import Iterator

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 2.0
_GROWTH = 1.5


def pauses() -> Iterator[float]:
    """Seconds, without an end."""
    seconds = FIRST_SECONDS
    while True:
        yield seconds
        seconds = min(seconds * _GROWTH, LONGEST_SECONDS)
