# SPDX-License-Identifier: Apache-2.0
"""The same frames come out however the bytes come in."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.wire import frames as frames_module
from sparkmirror.wire.frames import (
    MAX_FRAME_BYTES,
    MAX_PREALLOCATED_BYTES,
    MAX_UNTRUSTED_FRAME_BYTES,
    SCRATCH_BYTES,
    FrameReader,
)

BODIES = [
    b"a",
    b"b" * 100,
    b"c" * (SCRATCH_BYTES // 2),
    b"d" * (SCRATCH_BYTES // 2 + 1),
    b"e" * SCRATCH_BYTES,
    b"f" * (3 * SCRATCH_BYTES + 7),
    b"g",
]


def trusting() -> FrameReader:
    """For frames of any size."""
    reader = FrameReader()
    reader.allow_large_frames()
    return reader


def framed(bodies: Iterable[bytes]) -> bytes:
    """The bytes as a broker sends them."""
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(reader: FrameReader, stream: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Hand over pieces of the given sizes, as far as the reader offers room; then the rest."""
    frames: list[bytes] = []
    at = 0
    wanted = iter(sizes)
    while at < len(stream):
        space = reader.writable_buffer()
        assert len(space) > 0, "the reader has no room and would never go on"
        size = min(next(wanted, len(stream)), len(space), len(stream) - at)
        space[:size] = stream[at : at + size]
        frames += [bytes(frame) for frame in reader.feed(size)]
        at += size
    return frames


def test_one_piece_and_one_byte_pieces_give_the_same_frames() -> None:
    """Frames smaller and larger than the scratch buffer, in order."""
    stream = framed(BODIES)

    assert feed(trusting(), stream, []) == BODIES
    assert feed(trusting(), stream, [1] * len(stream)) == BODIES


@settings(max_examples=60)
@given(
    lengths=st.lists(
        st.one_of(st.integers(1, 300), st.integers(SCRATCH_BYTES // 2 - 3, SCRATCH_BYTES * 2)),
        min_size=1,
        max_size=8,
    ),
    sizes=st.lists(st.integers(1, SCRATCH_BYTES * 2), max_size=30),
)
def test_any_cut_gives_the_same_frames(lengths: list[int], sizes: list[int]) -> None:
    """Random frames in random pieces."""
    bodies = [bytes((index + 1,)) * length for index, length in enumerate(lengths)]

    assert feed(trusting(), framed(bodies), sizes) == bodies


def test_a_frame_is_independent_of_what_comes_later() -> None:
    """Frames cut out of the shared scratch buffer are not overwritten by the next ones."""
    reader = FrameReader()
    space = reader.writable_buffer()
    first = framed([b"first"])
    space[: len(first)] = first
    (frame,) = reader.feed(len(first))

    feed(reader, framed([b"other"]), [])

    assert bytes(frame) == b"first"


def test_frames_can_be_patched_in_place() -> None:
    """Record batches are rewritten where they were received."""
    reader = trusting()
    for body in (b"small", b"x" * SCRATCH_BYTES):
        stream = framed([body])
        at = 0
        frames: list[memoryview] = []
        while not frames:
            space = reader.writable_buffer()
            size = min(len(space), len(stream) - at)
            space[:size] = stream[at : at + size]
            frames = reader.feed(size)
            at += size
        frames[0][0] = 0
        assert frames[0][0] == 0


@pytest.mark.parametrize("length", [0, -1, -(2**31), MAX_FRAME_BYTES + 1, 0x48545450])
def test_a_length_that_makes_no_sense_is_refused(length: int) -> None:
    """Something else than Kafka listens there (the last one is an HTTP server's first word)."""
    with pytest.raises(WireError, match="is a Kafka listener"):
        feed(FrameReader(), struct.pack(">i", length) + b"x" * 10, [])


def test_large_frames_are_rejected_before_authentication() -> None:
    """A few bytes of a stranger must not set a gigabyte aside; a broker's may."""
    announced = struct.pack(">i", MAX_UNTRUSTED_FRAME_BYTES + 1)
    with pytest.raises(WireError, match="is a Kafka listener"):
        feed(FrameReader(), announced, [])
    assert feed(trusting(), announced, []) == []
    assert feed(FrameReader(), framed([b"x" * MAX_UNTRUSTED_FRAME_BYTES]), []) == [
        b"x" * MAX_UNTRUSTED_FRAME_BYTES
    ]


def test_of_a_large_frame_room_is_made_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same frame comes out, and frames behind it."""
    monkeypatch.setattr(frames_module, "MAX_PREALLOCATED_BYTES", SCRATCH_BYTES)
    large = bytes(range(256)) * 4_000
    for sizes in ([], [1, 70_000, 3, 200_000], [SCRATCH_BYTES + 4, SCRATCH_BYTES]):
        assert feed(trusting(), framed([large, b"behind"]), sizes) == [large, b"behind"]


def test_a_gigabyte_that_is_only_announced_takes_no_gigabyte() -> None:
    """Whoever passes for a broker and sends four bytes must not fill the machine."""
    reader = trusting()
    tracemalloc.start()
    try:
        feed(reader, struct.pack(">i", MAX_FRAME_BYTES) + b"x" * 10, [])
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_PREALLOCATED_BYTES + (1 << 20)


def test_nonsense_behind_a_good_frame_is_refused() -> None:
    """The stream is checked at every frame, not only the first."""
    with pytest.raises(WireError):
        feed(FrameReader(), framed([b"fine"]) + struct.pack(">i", -5), [])
