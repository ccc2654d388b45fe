# SPDX-License-Identifier: Apache-2.0
"""Rewrite record batches that cannot be sent unchanged.

Reasons: a broker accepts only batches without offset holes; the start position lies inside a batch;
the target's size limit is lower; tiny batches are merged; or the user wants another codec. Rewrites
the start of each frame (length, attributes, timestamp delta, offset delta); key, value and headers
stay opaque bytes.

In a LogAppendTime batch the records keep the create time and only the header has the append time. A
consumer of the source sees the append time, so every rewritten record gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from sparkmirror.wire import codecs
from sparkmirror.wire.record_batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    RecordBatch,
    encode_batch,
    encode_varint,
)
from sparkmirror.wire.records import RecordSpan, decompressed_records, locate_records, wrap_int64

# The most bytes that a rewritten record grows by: length 1, timestamp 9, offset 4.
MAX_GROWTH = 14
_OLDEST = -1 << 63


class OffsetRun(NamedTuple):
    """Consecutive source offsets that became consecutive target offsets."""

    first: int
    length: int


class ReframedBatch(NamedTuple):
    """A rewritten record batch, and its source offsets."""

    view: memoryview
    records: int
    runs: tuple[OffsetRun, ...]


class _Varints(dict[int, bytes]):
    """Encoded varints; frequent values are precomputed."""

    def __missing__(self, value: int) -> bytes:
        return encode_varint(wrap_int64(value))


_VARINTS = _Varints((value, encode_varint(value)) for value in range(-1 << 10, 1 << 13))


class BatchRewriter:
    """Builds a record batch from records of other batches."""

    __slots__ = ("base_timestamp", "codec", "count", "max_timestamp", "parts")

    def __init__(self, codec: int) -> None:
        self.codec = codec
        self.count = 0
        self.base_timestamp = 0
        self.max_timestamp = 0
        self.parts: list[bytes] = []

    def add(
        self, batch: RecordBatch, data: bytes, found: Iterable[RecordSpan], start: int
    ) -> list[OffsetRun]:
        """Add the records at or after offset `start`; returns their source offsets.

        `data` are the batch's decompressed records, `found` the positions of the records to add.
        Adds nothing if they are corrupt.
        """
        base_timestamp, base_offset = batch.base_timestamp, batch.base_offset
        append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
        if not self.count:
            self.base_timestamp = base_timestamp if append_time is None else append_time
        shift = base_timestamp - self.base_timestamp
        stamp = b"" if append_time is None else _VARINTS[append_time - self.base_timestamp]
        is_restamped = bool(stamp or shift)
        lowest, expected = start - base_offset, -1
        newest, number = _OLDEST, self.count
        parts: list[bytes] = []
        firsts: list[int] = []  # starts of the runs; `ends` has the end of the previous run
        ends: list[int] = []
        varints = _VARINTS
        for at, offset_at, rest, end, timestamp_delta, offset_delta in found:
            if offset_delta < lowest:
                continue
            if offset_delta != expected:
                ends.append(expected)
                firsts.append(offset_delta)
            expected = offset_delta + 1
            new_delta = varints[number]
            number += 1
            head = (
                data[at : at + 1] + (stamp or varints[timestamp_delta + shift])
                if is_restamped
                else data[at:offset_at]
            )
            parts += (
                varints[len(head) + len(new_delta) + end - rest],
                head,
                new_delta,
                data[rest:end],
            )
            if timestamp_delta > newest:  # noqa: PLR1730 - max() takes three times as long
                newest = timestamp_delta
        if not firsts:
            return []
        latest = wrap_int64(base_timestamp + newest) if append_time is None else append_time
        self.max_timestamp = max(self.max_timestamp, latest) if self.count else latest
        self.count = number
        self.parts += parts
        ends.append(expected)
        return [
            OffsetRun(base_offset + first, after - first)
            for first, after in zip(firsts, ends[1:], strict=True)
        ]

    def add_single(self, batch: RecordBatch, data: bytes, start: int) -> bool:
        """Add the only record of a batch, in the common case; False: use `add`.

        Takes a third of the time of `add`, for sources with very many tiny batches.
        """
        at = 1 if data[:1] < b"\x80" else 2
        if (
            batch.count != 1
            or batch.base_offset < start
            or data[at + 1 : at + 3] != b"\x00\x00"  # both deltas are 0
            or data[:at] != _VARINTS[len(data) - at]
            or batch.last_offset_delta
            or batch.attributes & LOG_APPEND_TIME
        ):
            return False
        timestamp = batch.base_timestamp
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        stamp = _VARINTS[timestamp - self.base_timestamp]
        delta = _VARINTS[self.count]
        self.count += 1
        self.parts += (
            _VARINTS[len(data) - at - 2 + len(stamp) + len(delta)],
            data[at : at + 1],
            stamp,
            delta,
            data[at + 3 :],
        )
        return True

    def encode(self) -> memoryview:
        """Return the record batch; `stamp` adds producer and CRC."""
        return memoryview(
            encode_batch(
                codecs.compress(self.codec, b"".join(self.parts)),
                attributes=self.codec,
                count=self.count,
                base_timestamp=self.base_timestamp,
                max_timestamp=self.max_timestamp,
            )
        )


def needs_reframe(batch: RecordBatch, start: int, *, codec: int | None = None) -> bool:
    """Whether this record batch cannot be sent unchanged from `start` on."""
    return _needs_recut(batch, start) or (
        codec is not None and batch.attributes & CODEC_MASK != codec
    )


def reframe(batch: RecordBatch, start: int, *, codec: int | None = None) -> ReframedBatch | None:
    """Rewrite the records at or after `start` as a batch without holes; None if there are none.

    Uses `codec`, or that of the batch.
    """
    data = decompressed_records(batch)
    new_codec = batch.attributes & CODEC_MASK if codec is None else codec
    if not _needs_recut(batch, start):  # only the codec changes: the records stay as they are
        view = memoryview(
            encode_batch(
                codecs.compress(new_codec, data),
                attributes=new_codec,
                count=batch.count,
                base_timestamp=batch.base_timestamp,
                max_timestamp=batch.max_timestamp,
            )
        )
        return ReframedBatch(view, batch.count, (OffsetRun(batch.base_offset, batch.count),))
    recut = BatchRewriter(new_codec)
    runs = recut.add(batch, data, locate_records(data, batch), start)
    return ReframedBatch(recut.encode(), recut.count, tuple(runs)) if runs else None


def split_batch_view(view: memoryview, cuts: Sequence[int]) -> list[memoryview]:
    """Split a record batch without holes before the records with these indexes."""
    batch = RecordBatch(view)
    data = decompressed_records(batch)
    found = list(locate_records(data, batch))
    pieces = []
    for first, last in pairwise((0, *cuts, batch.count)):
        recut = BatchRewriter(batch.attributes & CODEC_MASK)
        recut.add(batch, data, found[first:last], batch.base_offset)
        pieces.append(recut.encode())
    return pieces


def _needs_recut(batch: RecordBatch, start: int) -> bool:
    return batch.has_holes or batch.base_offset < start or bool(batch.attributes & LOG_APPEND_TIME)
