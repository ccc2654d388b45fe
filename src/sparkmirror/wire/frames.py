# SPDX-License-Identifier: Apache-2.0
"""Cut a byte stream from a broker into frames (i32 length, then the body), without a socket.

The caller fills the buffer that `space()` offers and says how much came in with `received()`.
Small frames share one scratch buffer and are copied out of it; a large frame gets a buffer of its
own, so that its payload goes from the kernel to where it stays in one step.

Room is made for what a length announces, so whoever has not proved to be a broker yet may announce
little, and of what a broker announces only so much is believed before it comes.
"""

from __future__ import annotations

import struct

from sparkmirror.errors import WireError

SCRATCH_BYTES = 64 * 1024
MAX_FRAME_BYTES = 1 << 30
MAX_UNTRUSTED_FRAME_BYTES = 64 * 1024  # until `trust`: API versions and the steps of a login
MAX_PREALLOCATED_BYTES = 64 << 20  # more than a fetch asks for by default: such a frame never moves
_LENGTH = struct.Struct(">i")
_TLS_ALERT = 0x1503  # kind and version, where a length was expected


class TlsAlertError(WireError):
    """A listener answered a plaintext request with a TLS alert."""


class FrameReader:
    """The receiving half of a connection, as a pure state machine."""

    __slots__ = (
        "_filled",
        "_frame",
        "_frame_bytes",
        "_frame_filled",
        "_is_first",
        "_most",
        "_scratch",
        "_view",
    )

    def __init__(self) -> None:
        self._scratch = bytearray(SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._filled = 0
        self._frame: memoryview | None = None
        self._frame_bytes = 0  # of the whole frame; there may be room for a part of it only
        self._frame_filled = 0
        self._is_first = True
        self._most = MAX_UNTRUSTED_FRAME_BYTES

    def allow_large_frames(self) -> None:
        """It is a broker: let its frames be as large as fetch responses are."""
        self._most = MAX_FRAME_BYTES

    def writable_buffer(self) -> memoryview:
        """Where the next bytes from the socket belong."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._view[self._filled :]

    def feed(self, size: int) -> list[memoryview]:
        """Take note of `size` new bytes; the frames that are complete now."""
        if self._frame is not None:
            self._frame_filled += size
            if self._frame_filled < len(self._frame):
                return []
            if self._frame_filled < self._frame_bytes:
                self._frame = self._grow(self._frame)
                return []
            whole, self._frame = self._frame, None
            return [whole]
        self._filled += size
        return self._cut()

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        start, filled = 0, self._filled
        while filled - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._scratch, start)
            if self._is_first and length >> 16 == _TLS_ALERT:
                raise TlsAlertError("the listener speaks TLS")
            if not 0 < length <= self._most:
                raise WireError(f"a broker sent a frame of {length} bytes; is it a Kafka port?")
            self._is_first = False
            body = start + _LENGTH.size
            if body + length <= filled:
                frames.append(memoryview(bytearray(self._view[body : body + length])))
                start = body + length
            elif length > SCRATCH_BYTES // 2:
                self._frame_bytes, self._frame_filled = length, filled - body
                self._frame = self._grow(self._view[body:filled])
                start = filled
            else:
                break
        if start:
            left = filled - start
            self._view[:left] = bytes(self._view[start:filled])
            self._filled = left
        return frames

    def _grow(self, begun: memoryview) -> memoryview:
        """Room for the frame that has begun so; twice as much as came where that is not enough."""
        room = memoryview(
            bytearray(min(self._frame_bytes, max(MAX_PREALLOCATED_BYTES, 2 * len(begun))))
        )
        room[: len(begun)] = begun
        return room
