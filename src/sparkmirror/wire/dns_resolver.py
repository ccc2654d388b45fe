# SPDX-License-Identifier: Apache-2.0
"""Resolve host names on background threads and cache the last addresses of each.

`socket.getaddrinfo` blocks while the DNS server does not respond, which can be longer than a task's
lease. If a lookup fails, the cached addresses remain valid.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

CACHED_AFTER_SECONDS = 1.0  # how long to wait for a lookup before using cached addresses
_MAX_THREADS = 4
_MAX_NAMES = 4_096

Addresses = list[Any]  # as `socket.getaddrinfo` returns them


class Resolution(NamedTuple):
    """The result of a lookup; with an error, the cached addresses, if any."""

    addresses: Addresses
    error: str = ""


class DnsResolver:
    """Shared by all connections of a process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], Addresses] = {}
        self._listeners: dict[tuple[str, int], list[Callable[[Resolution], None]]] = {}
        self._queue: deque[tuple[str, int]] = deque()
        self._threads = 0

    def cached(self, host: str, port: int) -> Addresses:
        """The addresses of the last successful lookup."""
        with self._lock:
            return [*self._known.get((host, port), ())]

    def resolve(self, host: str, port: int, answered: Callable[[Resolution], None]) -> None:
        """Start a lookup; calls `answered` on another thread.

        Concurrent calls for the same name share one lookup.
        """
        name = (host, port)
        with self._lock:
            if name in self._listeners:
                self._listeners[name].append(answered)
                return
            self._listeners[name] = [answered]
            self._queue.append(name)
            if self._threads == _MAX_THREADS:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="resolver", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                name = self._queue.popleft()
            answer = self._resolve(name)
            with self._lock:
                listeners = self._listeners.pop(name)
            for answered in listeners:
                answered(answer)

    def _resolve(self, name: tuple[str, int]) -> Resolution:
        try:
            places = socket.getaddrinfo(*name, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
            return Resolution(self.cached(*name), f"the host name does not resolve ({error})")
        with self._lock:
            self._known.pop(name, None)
            self._known[name] = [*places]
            while len(self._known) > _MAX_NAMES:
                self._known.pop(next(iter(self._known)))
        return Resolution([*places])


def numeric_addresses(host: str, port: int) -> Addresses:
    """Return the socket address of a numeric host, without a lookup; empty for a host name."""
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError):
        return []


RESOLVER = DnsResolver()
