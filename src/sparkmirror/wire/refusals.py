# SPDX-License-Identifier: Apache-2.0
"""Which brokers do not let us in, or are not whom we expect; they are not asked again at once.

A wrong password that is sent ten times a second locks accounts and fills the brokers' logs.
Owned by the loop's thread.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkmirror.errors import UnreachableError
from sparkmirror.wire.dialer import Address

_FIRST, _LONGEST = 1.0, 30.0
_FORGOTTEN = 60.0  # what is refused so long after the last time is a new story


class _Refusal(NamedTuple):
    error: UnreachableError
    pause: float
    until: float


class Refusals:
    """Of one cluster, by address; pauses double from a second to half a minute."""

    def __init__(self) -> None:
        self._known: dict[Address, _Refusal] = {}

    def note(self, address: Address, error: UnreachableError, now: float) -> None:
        """A broker has refused us; several connections may find that out at once."""
        known = self._known.get(address)
        pause = _FIRST
        if known is not None:
            if now < known.until:
                return
            if now < known.until + _FORGOTTEN:
                pause = min(known.pause * 2, _LONGEST)
        self._known[address] = _Refusal(error, pause, now + pause)

    def check(self, address: Address, now: float) -> None:
        """Raise the last refusal once more if it is too early to ask again."""
        known = self._known.get(address)
        if known is not None and now < known.until:
            raise known.error
