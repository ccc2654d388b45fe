# SPDX-License-Identifier: Apache-2.0
"""Where the log continues behind a damaged record batch."""

from __future__ import annotations

import struct

from sparkmirror.task.corrupt_batches import offset_after_corrupt_batch
from support.data.record_batches import encode, numbered

END = 1_000


def damaged(first: int, count: int) -> bytearray:
    """A record batch with a flipped byte in its records."""
    batch = encode(numbered(first, count))
    batch[-3] ^= 0xFF
    return batch


def test_the_next_valid_batch_gives_the_position() -> None:
    """Even if the damaged header claims something else."""
    batch = damaged(10, 5)
    struct.pack_into(">i", batch, 23, 700)
    records = memoryview(batch + encode(numbered(15, 2)))
    assert offset_after_corrupt_batch(records, 10, END) == 15


def test_without_a_next_batch_the_header_counts_within_the_log() -> None:
    """It is all there is; the broker's end of the log is the limit."""
    assert offset_after_corrupt_batch(memoryview(damaged(10, 5)), 10, END) == 15
    assert offset_after_corrupt_batch(memoryview(damaged(10, 5)), 10, 14) is None


def test_a_corrupt_next_batch_gives_no_position() -> None:
    """Then the first one's own header must do, and after it the neighbour's turn comes."""
    records = memoryview(damaged(10, 5) + damaged(15, 2))
    assert offset_after_corrupt_batch(records, 10, END) == 15


def test_what_cannot_be_told_is_not_guessed() -> None:
    """Cut off, a nonsensical length, an end before the beginning."""
    batch = damaged(10, 5)
    assert offset_after_corrupt_batch(memoryview(batch)[:40], 10, END) is None
    assert offset_after_corrupt_batch(memoryview(batch)[:-1], 10, END) is None
    struct.pack_into(">i", batch, 8, 3)
    assert offset_after_corrupt_batch(memoryview(batch), 10, END) is None
    backwards = damaged(10, 5)
    struct.pack_into(">i", backwards, 23, -20)
    assert offset_after_corrupt_batch(memoryview(backwards), 10, END) is None
