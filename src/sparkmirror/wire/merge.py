# SPDX-License-Identifier: Apache-2.0
"""Merge tiny record batches into one.

A producer without linger.ms writes one record batch per record. Each costs the target as much as a
large one, and only a few per partition are in flight at a time, so adjacent batches are merged.
Only tiny ones: forwarding a batch costs about 90 us here and 200 us on the target; rewriting a
record costs a bit more than 1 us.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.wire import codecs
from sparkmirror.wire.record_batch import CODEC_MASK, HEADER_SIZE, RecordBatch
from sparkmirror.wire.records import locate_records
from sparkmirror.wire.reframe import MAX_GROWTH, BatchRewriter, OffsetRun

MAX_TINY_BYTES = 8 << 10  # compressed
MAX_TINY_RECORDS = 64
MAX_MERGED_BYTES = 512 << 10  # of a merged record batch, before compression


class BatchMerger:
    """Merges consecutive record batches into one.

    Uses the given codec, or that of the first batch; a batch of another codec does not fit.
    """

    __slots__ = ("_codec", "_end", "_first", "_limit", "_recut", "_runs", "_size", "batches")

    def __init__(self, limit: int, codec: int | None = None) -> None:
        self.batches = 0
        self._limit = limit
        self._codec = codec
        self._recut = BatchRewriter(codecs.NONE)
        self._size = HEADER_SIZE
        self._runs: list[OffsetRun] = []  # all but the last run
        self._first = self._end = -1  # the last run

    @property
    def count(self) -> int:
        """The number of records."""
        return self._recut.count

    @property
    def max_timestamp(self) -> int:
        """The timestamp of the newest record."""
        return self._recut.max_timestamp

    @property
    def runs(self) -> tuple[OffsetRun, ...]:
        """The source offsets, with adjacent runs merged."""
        return (*self._runs, OffsetRun(self._first, self._end - self._first))

    def append(
        self, batch: RecordBatch, start: int, runs: Iterable[OffsetRun] | None = None
    ) -> bool:
        """Append the records at or after offset `start`; False if the batch does not fit.

        `runs` are the source offsets, if the batch no longer has them.
        """
        codec = batch.attributes & CODEC_MASK
        wanted = codec if self._codec is None else self._codec
        recut = self._recut
        if not self.batches:
            recut.codec = wanted
        elif wanted != recut.codec:
            return False
        body = batch.view[HEADER_SIZE:]
        data = bytes(body) if not codec else codecs.decompress_within(codec, body, self._limit)
        if data is None:
            return False
        size = self._size + len(data) + MAX_GROWTH * batch.count
        if size > self._limit:
            return False
        if recut.add_single(batch, data, start):
            if runs is None:
                self._add_offsets(batch.base_offset, 1)
        else:
            taken = recut.add(batch, data, locate_records(data, batch), start)
            if not taken:
                return True
            runs = taken if runs is None else runs
        for first, length in runs or ():
            self._add_offsets(first, length)
        self._size = size
        self.batches += 1
        return True

    def seal(self) -> memoryview:
        """Return the merged record batch."""
        return self._recut.encode()

    def _add_offsets(self, first: int, length: int) -> None:
        if first == self._end:
            self._end += length
            return
        if self._end >= 0:
            self._runs.append(OffsetRun(self._first, self._end - self._first))
        self._first, self._end = first, first + length
