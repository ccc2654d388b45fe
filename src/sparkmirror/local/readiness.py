# SPDX-License-Identifier: Apache-2.0
"""Waits until brokers really serve: each answers, knows a controller and lists those expected."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from sparkmirror.errors import SetupError
from sparkmirror.local.probe import Membership

_START_SECONDS = 180.0
_POLL_SECONDS = 0.05


class Starting(Protocol):
    """What is asked of a broker that has just been launched."""

    cluster: str
    node_id: int

    @property
    def running(self) -> bool:
        """Whether its process is there."""

    def membership(self) -> Membership | None:
        """The brokers it sees, or None while it does not answer."""

    def failure(self, what: str) -> SetupError:
        """The error that says what became of it."""


def await_ready(
    brokers: Sequence[Starting],
    *,
    expected: frozenset[int],
    timeout_seconds: float = _START_SECONDS,
) -> None:
    """Return once all of them serve; a SetupError with the end of the log when one does not."""
    deadline = time.monotonic() + timeout_seconds
    for broker in brokers:
        while True:
            seen = broker.membership()
            if seen is not None and seen.has_controller and expected <= seen.node_ids:
                break
            if not broker.running:
                raise broker.failure("ended during its start")
            if time.monotonic() > deadline:
                raise broker.failure(f"was not ready after {timeout_seconds:.0f} s")
            time.sleep(_POLL_SECONDS)
