# SPDX-License-Identifier: Apache-2.0
"""Limits for bodies of requests between workers, which are read before they are authenticated.

The signature covers the body, so an unauthenticated client can make the server read one. Few bodies
are read at a time, each within a timeout. At the limit the oldest read is cancelled, because a
worker sends its body at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import anyio
from starlette.types import Message, Receive

from sparkmirror.rest.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_MAX_CONCURRENT = 8


class SignedBodyReader:
    """One for each application; belongs to its event loop."""

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._reading: dict[anyio.CancelScope, None] = {}  # oldest first
        self._dropped = ThrottledLog(log)

    async def read(self, receive: Receive, client: str) -> Receive | None:
        """Return a function that replays the body; None on a timeout or when cancelled."""
        while len(self._reading) >= _MAX_CONCURRENT:
            oldest = next(iter(self._reading))
            del self._reading[oldest]
            oldest.cancel()
        messages: list[Message] | None = None
        with anyio.move_on_after(self._seconds) as scope:
            self._reading[scope] = None
            try:
                messages = await self._messages(receive)
            finally:
                self._reading.pop(scope, None)
        if messages is None:
            self._dropped.warn(
                f"A signed REST request from {client} was dropped: its body did not arrive in time."
            )
            return None
        return _replay(iter(messages), receive)

    async def _messages(self, receive: Receive) -> list[Message]:
        """Read to the end of the body, or just beyond the size limit."""
        messages: list[Message] = []
        size = 0
        while size <= self._max_bytes:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if message["type"] != "http.request" or not message.get("more_body", False):
                break
        return messages


def _replay(messages: Iterator[Message], receive: Receive) -> Receive:
    async def receiving() -> Message:
        for message in messages:
            return message
        return await receive()

    return receiving
