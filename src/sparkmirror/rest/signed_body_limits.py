# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests between workers, which are read before anybody knows who sends them.

Their signature is over the body, so a stranger who invents one gets as far as that. Few of them are
read at a time and none for long; a newcomer takes the place of the one that has taken longest,
because a worker sends its body at once. So strangers keep neither workers nor people out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import anyio
from starlette.types import Message, Receive

from sparkmirror.rest.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_AT_A_TIME = 8


class SignedBodyReader:
    """Of one application; its event loop's."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._reading: dict[anyio.CancelScope, None] = {}  # in the order in which they came
        self._given_up = ThrottledLog(log)

    async def read(self, receive: Receive, client: str) -> Receive | None:
        """What gives the body, read already; None if it took too long or had to make room."""
        while len(self._reading) >= _AT_A_TIME:
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
            self._given_up.warn(
                f"A REST request from {client} that is signed as a worker's is given up: its body "
                "did not come."
            )
            return None
        return _replay(iter(messages), receive)

    async def _messages(self, receive: Receive) -> list[Message]:
        """Up to the end of the body; of one that is too large, enough to see that it is."""
        messages: list[Message] = []
        size = 0
        while size <= self._most_bytes:
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
