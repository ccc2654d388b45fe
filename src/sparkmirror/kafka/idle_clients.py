# SPDX-License-Identifier: Apache-2.0
"""Close the connections of idle clients (`connections.max.idle.ms`).

Clients have no threads, so one daemon thread of the process checks all of them.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol


class IdleClient(Protocol):
    """A client with connections that can become idle."""

    def close_if_idle(self, now: float) -> float | None:
        """Close idle connections; returns when to call again, None if all are closed."""


class IdleClients:
    """Thread-safe. The thread runs while there are clients and only has weak references."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: weakref.WeakKeyDictionary[IdleClient, float] = weakref.WeakKeyDictionary()
        self._is_running = False

    def add(self, client: IdleClient, due: float) -> None:
        """Check a client at that time, then whenever its `close_if_idle` returns a time."""
        with self._changed:
            self._due[client] = due
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="idle-clients", daemon=True).start()
            self._changed.notify()

    def remove(self, client: IdleClient) -> None:
        with self._changed:
            self._due.pop(client, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._due:
                    self._is_running = False
                    return
                now = time.monotonic()
                soonest = min(self._due.values(), default=now)
                if soonest > now:
                    self._changed.wait(soonest - now)
                    continue
                ready = self._pop_due(now)
            while ready:
                self._check(ready.pop())

    def _pop_due(self, now: float) -> list[IdleClient]:
        ready = [client for client, due in self._due.items() if due <= now]
        for client in ready:
            del self._due[client]
        return ready

    def _check(self, client: IdleClient) -> None:
        due = client.close_if_idle(time.monotonic())
        if due is not None:
            with self._changed:
                self._due.setdefault(client, due)


IDLE_CLIENTS = IdleClients()  # of the process
