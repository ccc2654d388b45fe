# SPDX-License-Identifier: Apache-2.0
"""Requests on a connection of the data path, and what became of them."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence

from sparkmirror.errors import ConnectionLostError
from sparkmirror.security.error_hints import Refusal
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.event_loop import EventLoop
from support.waiting import PATIENCE_SECONDS


class Outcome:
    """What became of one request."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.failures: list[ConnectionLostError] = []

    @property
    def is_over(self) -> bool:
        """Whether it was answered or failed."""
        return bool(self.replies or self.failures)

    def send(self, connection: BrokerConnection, body: Sequence[bytes] = ()) -> None:
        """Ask for nothing in particular, once the connection is ready."""
        size = 8 + sum(map(len, body))

        def header(correlation_id: int) -> bytes:
            return struct.pack(">ihhi", size, 3, 0, correlation_id)

        connection.when_ready(
            lambda: connection.send_buffers(
                header, body, lambda frame: self.replies.append(bytes(frame)), self.failures.append
            ),
            self.failures.append,
        )


class RecordingOwner:
    """Owns a connection and keeps what it reports."""

    def __init__(self) -> None:
        self.ready = 0
        self.failed = 0
        self.refusals: list[Refusal] = []

    def on_connection_ready(self, connection: BrokerConnection) -> None:
        self.ready += 1
        connection.measure_round_trip()

    def on_connection_refused(self, _connection: BrokerConnection, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    def on_connection_failed(self, _connection: BrokerConnection) -> None:
        self.failed += 1


def run_until(loop: EventLoop, until: Callable[[], bool]) -> None:
    """Run the loop until something is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if until():
            return
        loop.run_once(0.01)
    raise AssertionError(f"it did not happen within {PATIENCE_SECONDS:g} s")
