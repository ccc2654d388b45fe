# SPDX-License-Identifier: Apache-2.0
"""Split a byte stream from a broker into frames (i32 length, then the body), without I/O.

The caller reads into `writable_buffer()` and reports the number of bytes with `feed()`. Small
frames share one scratch buffer and are copied out of it. A large frame has its own buffer, so its
payload is copied once, by the kernel.

The length field decides how much memory is allocated. Until the connection is ready, only small
frames are allowed. Later, at most MAX_PREALLOCATED_BYTES are allocated before the bytes arrive.
"""

from __future__ import annotations

import struct

from sparkmirror.errors import WireError

SCRATCH_BYTES = 64 * 1024
MAX_FRAME_BYTES = 1 << 30
MAX_UNTRUSTED_FRAME_BYTES = 64 * 1024  # until `allow_large_frames`: ApiVersions and SASL
MAX_PREALLOCATED_BYTES = 64 << 20  # above the default fetch size: such a frame is never copied
_LENGTH = struct.Struct(">i")
_TLS_ALERT = 0x1503  # TLS content type and version, in place of a length


class TlsAlertError(WireError):
    """A listener answered a plaintext request with a TLS alert."""


class FrameReader:
    """The receiving side of a connection, as a pure state machine."""

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
        self._frame_bytes = 0  # of the whole frame; the buffer may be smaller
        self._frame_filled = 0
        self._is_first = True
        self._most = MAX_UNTRUSTED_FRAME_BYTES

    def allow_large_frames(self) -> None:
        """Allow frames up to MAX_FRAME_BYTES, once the connection is ready."""
        self._most = MAX_FRAME_BYTES

    def writable_buffer(self) -> memoryview:
        """The buffer for the next bytes from the socket."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._view[self._filled :]

    def feed(self, size: int) -> list[memoryview]:
        """Process `size` new bytes in the buffer; returns the frames that are now complete."""
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
        return self._split()

    def _split(self) -> list[memoryview]:
        frames: list[memoryview] = []
        start, filled = 0, self._filled
        while filled - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._scratch, start)
            if self._is_first and length >> 16 == _TLS_ALERT:
                raise TlsAlertError("the listener speaks TLS")
            if not 0 < length <= self._most:
                raise WireError(
                    f"the peer sent a frame length of {length}; check that this is a Kafka listener"
                )
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

    def _grow(self, received: memoryview) -> memoryview:
        """Copy the bytes so far into a larger buffer: the frame's size, or twice the bytes."""
        size = min(self._frame_bytes, max(MAX_PREALLOCATED_BYTES, 2 * len(received)))
        buffer = memoryview(bytearray(size))
        buffer[: len(received)] = received
        return buffer
