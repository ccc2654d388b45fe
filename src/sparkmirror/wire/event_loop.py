# SPDX-License-Identifier: Apache-2.0
"""A task's event loop: sockets and timers on one thread, nothing else.

asyncio costs several times as much per event on this path, and needs a copy per write.
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
    """A call in the future that can be taken back."""

    __slots__ = ("callback", "cancelled", "due")

    def __init__(self, due: float, callback: Callback) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Forget the call."""
        self.cancelled = True


class SocketHandler(Protocol):
    """What reacts when its socket is ready."""

    def on_ready(self, events: int) -> None:
        """Handle selectors.EVENT_READ and EVENT_WRITE."""


class HasFileno(Protocol):
    """A socket, or what stands for one."""

    def fileno(self) -> int:
        """Its descriptor; negative once it is closed."""
        ...


class EventLoop:
    """Owned by the thread that calls `turn`; `wake` and `call` are for any other one, too."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._calls: deque[Callback] = deque()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, None)

    def watch(self, sock: HasFileno, events: int, watcher: SocketHandler) -> None:
        """Begin or change what is waited for on a socket."""
        if sock.fileno() in self._selector.get_map():
            self._selector.modify(sock, events, watcher)
        else:
            self._selector.register(sock, events, watcher)

    def unwatch(self, sock: HasFileno) -> None:
        """Stop waiting for a socket."""
        if sock.fileno() >= 0 and sock.fileno() in self._selector.get_map():
            self._selector.unregister(sock)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        """Run the callback after a delay."""
        timer = Timer(time.monotonic() + seconds, callback)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        return timer

    def call_soon_threadsafe(self, callback: Callback) -> None:
        """Run the callback on the loop's thread, soon; safe from any thread."""
        self._calls.append(callback)
        self.wake()

    def wake(self) -> None:
        """Make a waiting `turn` return; safe from any thread."""
        try:
            self._wake_sender.send(b"\0")
        except OSError:
            return  # it is full of wake-ups already, or closed

    def run_once(self, longest: float) -> None:
        """Wait for something to happen, at most `longest` seconds, and handle it."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        wait = longest
        if self._timers:
            wait = max(0.0, min(wait, self._timers[0][0] - time.monotonic()))
        for key, events in self._selector.select(wait):
            watcher: SocketHandler | None = key.data
            if watcher is None:
                self._wake_receiver.recv(4096)
            else:
                watcher.on_ready(events)
        while self._calls:
            self._calls.popleft()()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.callback()

    def close(self) -> None:
        """Let go of the selector and the wake-up pair."""
        self._selector.close()
        self._wake_receiver.close()
        self._wake_sender.close()
