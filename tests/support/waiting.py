# SPDX-License-Identifier: Apache-2.0
"""Waiting for something to become true, with a failure that says what was awaited and seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# A limit that only a fault exceeds, not a slow machine; the ordinary wait takes a few seconds.
PATIENCE_SECONDS = 180.0
_PAUSE_SECONDS = 0.1


def eventually(
    check: Callable[[], T],
    timeout: float,
    what: str,
    *,
    not_yet: tuple[type[Exception], ...] = (AssertionError,),
    pause_seconds: float = _PAUSE_SECONDS,
) -> T:
    """Call `check` until it answers something true, and return that.

    An exception among `not_yet` counts as "no"; any other one is a real failure and comes through.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            answer = check()
        except not_yet as error:
            last = f"{type(error).__name__}: {error}"
        else:
            if answer:
                return answer
            last = repr(answer)
        if time.monotonic() > deadline:
            raise AssertionError(f"Not within {timeout:g} s: {what}; the last answer was {last}")
        time.sleep(pause_seconds)
