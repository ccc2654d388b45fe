# SPDX-License-Identifier: Apache-2.0
"""A clock that only the test moves, so that no pause of the machine decides what happens."""

from __future__ import annotations

import time

import pytest

WIRE = tuple(
    f"sparkmirror.wire.{name}"
    for name in ("event_loop", "connection", "sasl_authenticator", "brokers")
)


class ManualClock:
    """Replaces the `time` module in the given modules. Thread-safe; one thread advances it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
        self._now = float(int(time.monotonic()))  # sums and differences of whole seconds are exact
        for module in modules:
            monkeypatch.setattr(f"{module}.time", self)

    def monotonic(self) -> float:
        """The current time in seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Sleep in real time; the clock does not move."""
        time.sleep(seconds)

    def advance(self, seconds: float) -> None:
        self._now += seconds
