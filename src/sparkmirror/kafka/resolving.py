# SPDX-License-Identifier: Apache-2.0
"""Names of brokers for kafka-python's clients, resolved beside their loops.

kafka-python calls `socket.getaddrinfo` on the thread that also sends heartbeats. Here a thread of
the resolver does, and while it fails or hangs the last addresses of the name are used.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from sparkmirror.wire.resolver import (
    PATIENCE_SECONDS,
    RESOLVER,
    Answer,
    Places,
    Resolver,
    numeric_places,
)


async def resolve(
    net: Any, host: str, port: int, timeout_at: float | None, resolver: Resolver = RESOLVER
) -> list[str]:
    """Numeric addresses of a host, best first; KafkaConnectionError if there are none in time."""
    numeric = numeric_places(host, port)
    if numeric:
        return _hosts(numeric)
    answers: list[Answer] = []
    known = resolver.known(host, port)
    patience_ends = time.monotonic() + PATIENCE_SECONDS
    until = min(timeout_at or patience_ends, patience_ends) if known else timeout_at
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)

    def answered(answer: Answer) -> None:
        answers.append(answer)
        sender.close()

    resolver.look_up(host, port, answered)
    with receiver, suppress(KafkaTimeoutError):
        await net.wait_read(receiver, timeout_at=until)
    if answers:
        known = answers[0].places
    if not known:
        reason = answers[0].trouble if answers else "its name was not resolved in time"
        raise KafkaConnectionError(f"{host}:{port}: {reason}")
    return _hosts(known)


def wait_for_hosts(
    host: str, port: int, seconds: float, resolver: Resolver = RESOLVER
) -> list[str]:
    """Numeric addresses of a host, best first; blocks. OSError if there are none in time."""
    places = numeric_places(host, port)
    if not places:
        places, trouble = resolver.wait(host, port, seconds)
        if not places:
            raise OSError(trouble)
    return _hosts(places)


def _hosts(places: Places) -> list[str]:
    return [*dict.fromkeys(str(place[4][0]) for place in places)]
