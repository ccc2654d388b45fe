# SPDX-License-Identifier: Apache-2.0
"""A peer on the port of a broker that violates the protocol.

Sends the given responses, one per request; afterwards it sends single bytes, or nothing.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from sparkmirror.wire.dialing import Address

Answer = Callable[[int], bytes]  # of the request's correlation id

_PATIENCE_SECONDS = 10.0
_DROP_SECONDS = 0.02


def framed(body: bytes, announced: int | None = None) -> Answer:
    """Return a response with the right correlation id; `announced` replaces its length."""

    def answer(correlation_id: int) -> bytes:
        length = 4 + len(body) if announced is None else announced
        return struct.pack(">ii", length, correlation_id) + body

    return answer


class HostileBroker:
    """Serves any number of connections, each in a thread, until the block ends."""

    def __init__(self, answers: Sequence[Answer], *, drips: bool = False) -> None:
        self._answers = answers
        self._drips = drips
        self._is_over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept, name="hostile-peer")]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(_PATIENCE_SECONDS)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _where = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(peer,), name="hostile-peer")
                self._threads.append(thread)
                thread.start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, suppress(OSError, EOFError):
            peer.settimeout(_DROP_SECONDS)
            for answer in self._answers:
                frame = self._exactly(peer, struct.unpack(">i", self._exactly(peer, 4))[0])
                peer.sendall(answer(struct.unpack_from(">i", frame, 4)[0]))
            while not self._is_over.wait(_DROP_SECONDS):
                if self._drips:
                    peer.sendall(b"\0")
                elif self._is_gone(peer):
                    return

    def _is_gone(self, peer: socket.socket) -> bool:
        try:
            return not peer.recv(65_536)
        except TimeoutError:
            return False

    def _exactly(self, peer: socket.socket, size: int) -> bytes:
        got = bytearray()
        while len(got) < size and not self._is_over.is_set():
            try:
                some = peer.recv(size - len(got))
            except TimeoutError:
                continue
            if not some:
                raise EOFError
            got += some
        if len(got) < size:
            raise EOFError
        return bytes(got)
