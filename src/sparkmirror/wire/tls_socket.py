# SPDX-License-Identifier: Apache-2.0
"""A TCP socket inside of TLS, with the few methods of a socket that a connection uses.

OpenSSL hands out one record (16 KiB at most) at a time and holds what it has decrypted where no
selector sees it; so `recv_into` goes on until the space is full or nothing is left. Brokers send
record by record, and being woken for each of them costs an eighth of a task's CPU: while much of a
large frame is missing the kernel waits for more of it. What is sent costs a system call per record:
small neighbours are joined into one, large buffers are not copied. A send that found no room must
be repeated with the same bytes, of which OpenSSL has encrypted some.
"""

from __future__ import annotations

import selectors
import socket
import ssl
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import client_context
from sparkmirror.wire.frames import SCRATCH_BYTES

RECORD_BYTES = 16 * 1024
_MOST_AWAITED_BYTES = 256 * 1024
_LATER = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_context = lru_cache(maxsize=64)(client_context)  # reading the trust store takes a while


class TlsSocket:
    """Owned by the loop's thread. Sessions are not resumed: certificates are looked at each time.

    `host` is the broker's name as it is advertised; its certificate must be made out to it,
    without the dot that may end it.
    ValueError if TLS cannot be set up.
    """

    __slots__ = ("_enough", "_socket", "_unsent")

    def __init__(self, sock: socket.socket, settings: TlsSettings, host: str) -> None:
        self._socket = _context(settings).wrap_socket(
            sock, do_handshake_on_connect=False, server_hostname=host.rstrip(".")
        )
        self._enough = 1
        self._unsent: tuple[Any, int] | None = None  # to be sent again, and of how many buffers

    def fileno(self) -> int:
        """The descriptor, for a selector."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close it; nothing is lost by not saying good-bye, as every frame says its length."""
        self._socket.close()

    def do_handshake(self) -> int:
        """Go on with the handshake; the events to wait for, 0 at its end."""
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            return selectors.EVENT_WRITE
        return 0

    def sendmsg(self, buffers: Sequence[Any]) -> int:
        """Send what there is room for; BlockingIOError if there is none."""
        total = at = 0
        while at < len(buffers):
            piece, count = self._unsent or _piece(buffers, at)
            try:
                sent = self._socket.send(piece)
            except _LATER:
                self._unsent = (piece, count)
                if total:
                    return total
                raise BlockingIOError from None
            self._unsent = None
            total += sent
            if sent < len(piece):
                return total
            at += count
        return total

    def recv_into(self, space: memoryview) -> int:
        """Fill the space with what there is; BlockingIOError if there is nothing, 0 at the end.

        A space that is larger than what small frames share is one that will be filled.
        """
        filled, room = 0, len(space)
        try:
            while filled < room:
                size = self._socket.recv_into(space[filled:])
                if not size:
                    break
                filled += size
        except _LATER:
            self._set_low_water_mark(room - filled if room > SCRATCH_BYTES else 0)
            if not filled:
                raise BlockingIOError from None
        return filled

    def _set_low_water_mark(self, missing: int) -> None:
        """Be woken when there is something worth it; more is to come than that, whatever happens.

        OpenSSL may have taken a record already of which the end is missing.
        """
        enough = max(1, min(missing - 2 * RECORD_BYTES, _MOST_AWAITED_BYTES))
        if enough != self._enough:
            self._enough = enough
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, enough)

    def peer_error(self) -> OSError | None:
        """What the peer said before it hung up; a write finds only that it has."""
        try:
            self._socket.recv(1)
        except OSError as error:
            return error
        return None


def _piece(buffers: Sequence[Any], at: int) -> tuple[Any, int]:
    """What is sent next, and of how many buffers it is made."""
    end, size = at, 0
    while end < len(buffers) and size + len(buffers[end]) <= RECORD_BYTES:
        size += len(buffers[end])
        end += 1
    if end <= at + 1:
        return buffers[at], 1
    return b"".join(buffers[at:end]), end - at
