# SPDX-License-Identifier: Apache-2.0
"""An event loop for sockets and timers on one thread.

asyncio costs several times as much per event here, and one copy per write.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

Callback = Callable[[], None]


class Timer:
    """A scheduled call that can be cancelled."""

    __slots__ = ("callback", "cancelled", "due")

    def __init__(self, due: float, callback: Callback) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class SocketHandler(Protocol):
    """Handles the events of one socket."""

    def on_ready(self, events: int) -> None:
        """Handle selectors.EVENT_READ and EVENT_WRITE."""


class HasFileno(Protocol):
    """A socket, or an object that wraps one."""

    def fileno(self) -> int:
        """The file descriptor; negative once it is closed."""
        ...


class EventLoop:
    """Owned by the thread that calls `run_once`; see the methods for exceptions."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._calls: deque[Callback] = deque()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, None)

    def watch(self, sock: HasFileno, events: int, handler: SocketHandler) -> None:
        """Register a socket, or change the events to wait for."""
        if sock.fileno() in self._selector.get_map():
            self._selector.modify(sock, events, handler)
        else:
            self._selector.register(sock, events, handler)

    def unwatch(self, sock: HasFileno) -> None:
        if sock.fileno() >= 0 and sock.fileno() in self._selector.get_map():
            self._selector.unregister(sock)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(time.monotonic() + seconds, callback)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        return timer

    def call_soon_threadsafe(self, callback: Callback) -> None:
        """Run the callback on the loop's thread. Thread-safe."""
        self._calls.append(callback)
        self.wake()

    def wake(self) -> None:
        """Make a blocked `run_once` return. Thread-safe."""
        try:
            self._wake_sender.send(b"\0")
        except OSError:
            return  # a wake-up is already pending, or the loop is closed

    def run_once(self, longest: float) -> None:
        """Wait for events for at most `longest` seconds, and handle them."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        wait = longest
        if self._timers:
            wait = max(0.0, min(wait, self._timers[0][0] - time.monotonic()))
        for key, events in self._selector.select(wait):
            handler: SocketHandler | None = key.data
            if handler is None:
                self._wake_receiver.recv(4096)
            else:
                handler.on_ready(events)
        while self._calls:
            self._calls.popleft()()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.callback()

    def close(self) -> None:
        self._selector.close()
        self._wake_receiver.close()
        self._wake_sender.close()
