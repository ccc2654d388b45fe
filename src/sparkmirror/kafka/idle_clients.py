# SPDX-License-Identifier: Apache-2.0
"""Closes the connections of clients that were not used for a while (`connections.max.idle.ms`).

A client has no thread of its own, so one daemon thread of the process looks after all of them.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol


class IdleClient(Protocol):
    """A client as the thread sees it."""

    def close_if_idle(self, now: float) -> float | None:
        """Close what has been idle for too long; when to call again, None if all is closed."""


class IdleClients:
    """Thread-safe. The thread runs while there are clients; it does not keep them alive."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: weakref.WeakKeyDictionary[IdleClient, float] = weakref.WeakKeyDictionary()
        self._is_running = False

    def add(self, client: IdleClient, due: float) -> None:
        """Look at a client at that time, and later on as its `close_if_idle` says."""
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
                ready = self._take_due(now)
            while ready:
                self._look_at(ready.pop())

    def _take_due(self, now: float) -> list[IdleClient]:
        ready = [client for client, due in self._due.items() if due <= now]
        for client in ready:
            del self._due[client]
        return ready

    def _look_at(self, client: IdleClient) -> None:
        due = client.close_if_idle(time.monotonic())
        if due is not None:
            with self._changed:
                self._due.setdefault(client, due)


IDLE_CLIENTS = IdleClients()  # of the process
