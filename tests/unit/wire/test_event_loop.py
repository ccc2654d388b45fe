# SPDX-License-Identifier: Apache-2.0
"""What other threads may ask of a loop."""

from __future__ import annotations

import threading
import time

from sparkmirror.wire.event_loop import EventLoop

UNWOKEN_SECONDS = 120.0  # what a turn takes that no call ends


def test_calls_of_other_threads_are_made_on_the_loops_own() -> None:
    """Soon, in order, and also those that are requested by one of them."""
    loop, made = EventLoop(), []

    def call(number: int) -> None:
        made.append((number, threading.current_thread()))
        if number == 2:
            loop.call_soon_threadsafe(lambda: call(3))

    def ask() -> None:
        loop.call_soon_threadsafe(lambda: call(1))
        loop.call_soon_threadsafe(lambda: call(2))

    other = threading.Timer(0.05, ask)
    other.start()
    began = time.monotonic()
    while len(made) < 3 and time.monotonic() - began < UNWOKEN_SECONDS:
        loop.run_once(UNWOKEN_SECONDS)
    other.join()
    loop.close()

    assert made == [(number, threading.current_thread()) for number in (1, 2, 3)]
    assert time.monotonic() - began < UNWOKEN_SECONDS / 2, "the call woke the loop"


def test_a_call_to_a_loop_that_is_closed_is_dropped() -> None:
    """A thread that has taken too long does not fail for it."""
    loop, made = EventLoop(), []
    loop.close()

    loop.call_soon_threadsafe(lambda: made.append(1))

    assert not made
