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

from sparkmirror.wire.dns_resolver import (
    CACHED_AFTER_SECONDS,
    RESOLVER,
    Addresses,
    DnsResolver,
    Resolution,
    numeric_addresses,
)


async def resolve(
    net: Any, host: str, port: int, timeout_at: float | None, resolver: DnsResolver = RESOLVER
) -> list[str]:
    """Numeric addresses of a host, best first; KafkaConnectionError if there are none in time."""
    numeric = numeric_addresses(host, port)
    if numeric:
        return _hosts(numeric)
    answers: list[Resolution] = []
    known = resolver.cached(host, port)
    patience_ends = time.monotonic() + CACHED_AFTER_SECONDS
    until = min(timeout_at or patience_ends, patience_ends) if known else timeout_at
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)

    def answered(answer: Resolution) -> None:
        answers.append(answer)
        sender.close()

    resolver.resolve(host, port, answered)
    with receiver, suppress(KafkaTimeoutError):
        await net.wait_read(receiver, timeout_at=until)
    if answers:
        known = answers[0].addresses
    if not known:
        reason = answers[0].error if answers else "its name was not resolved in time"
        raise KafkaConnectionError(f"{host}:{port}: {reason}")
    return _hosts(known)


def resolve_blocking(
    host: str, port: int, seconds: float, resolver: DnsResolver = RESOLVER
) -> list[str]:
    """Numeric addresses of a host, best first; blocks. OSError if there are none in time."""
    places = numeric_addresses(host, port)
    if not places:
        places, trouble = resolver.resolve_blocking(host, port, seconds)
        if not places:
            raise OSError(trouble)
    return _hosts(places)


def _hosts(places: Addresses) -> list[str]:
    return [*dict.fromkeys(str(place[4][0]) for place in places)]
