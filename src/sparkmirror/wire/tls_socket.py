# SPDX-License-Identifier: Apache-2.0
"""A TLS socket with the few socket methods that a connection uses.

Reading: OpenSSL returns one TLS record (16 KiB at most) at a time and buffers decrypted bytes. A
selector does not see these, so `recv_into` reads until the buffer is full or nothing is left. A
wake-up per record costs an eighth of a task's CPU, so SO_RCVLOWAT delays them in a large frame.

Writing: each TLS record costs a system call, so small adjacent buffers are joined; large buffers
are not copied. A send that would block must be repeated with the same bytes, because OpenSSL has
already encrypted some of them.
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
_MAX_LOW_WATER_MARK = 256 * 1024
_WOULD_BLOCK = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_context = lru_cache(maxsize=64)(client_context)  # reading the trust store is slow


class TlsSocket:
    """Owned by the loop's thread. Does not resume sessions, so it verifies every certificate.

    The certificate must match `host`, the broker's advertised name, without a trailing dot.
    Raises ValueError if TLS cannot be set up.
    """

    __slots__ = ("_low_water_mark", "_socket", "_unsent")

    def __init__(self, sock: socket.socket, settings: TlsSettings, host: str) -> None:
        self._socket = _context(settings).wrap_socket(
            sock, do_handshake_on_connect=False, server_hostname=host.rstrip(".")
        )
        self._low_water_mark = 1
        self._unsent: tuple[Any, int] | None = None  # bytes to repeat, and their buffer count

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Close without close_notify; every Kafka frame has a length, so none is needed."""
        self._socket.close()

    def do_handshake(self) -> int:
        """Continue the handshake; returns the selector events to wait for, 0 at its end."""
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            return selectors.EVENT_WRITE
        return 0

    def sendmsg(self, buffers: Sequence[Any]) -> int:
        """Send as much as possible; BlockingIOError if the socket's buffer is full."""
        total = at = 0
        while at < len(buffers):
            piece, count = self._unsent or _piece(buffers, at)
            try:
                sent = self._socket.send(piece)
            except _WOULD_BLOCK:
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
        """Fill the buffer with available bytes; BlockingIOError if there are none, 0 at EOF.

        A buffer larger than SCRATCH_BYTES belongs to one large frame, which fills it.
        """
        filled, room = 0, len(space)
        try:
            while filled < room:
                size = self._socket.recv_into(space[filled:])
                if not size:
                    break
                filled += size
        except _WOULD_BLOCK:
            self._set_low_water_mark(room - filled if room > SCRATCH_BYTES else 0)
            if not filled:
                raise BlockingIOError from None
        return filled

    def _set_low_water_mark(self, missing: int) -> None:
        """Delay wake-ups until many of the missing bytes have arrived.

        Two records less than missing, because OpenSSL may have read a part of a record already.
        """
        mark = max(1, min(missing - 2 * RECORD_BYTES, _MAX_LOW_WATER_MARK))
        if mark != self._low_water_mark:
            self._low_water_mark = mark
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)

    def peer_error(self) -> OSError | None:
        """The TLS alert that the peer sent before it closed; a write only reports the close."""
        try:
            self._socket.recv(1)
        except OSError as error:
            return error
        return None


def _piece(buffers: Sequence[Any], at: int) -> tuple[Any, int]:
    """The bytes to send next, and the number of buffers in them."""
    end, size = at, 0
    while end < len(buffers) and size + len(buffers[end]) <= RECORD_BYTES:
        size += len(buffers[end])
        end += 1
    if end <= at + 1:
        return buffers[at], 1
    return b"".join(buffers[at:end]), end - at
