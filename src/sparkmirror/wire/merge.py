# SPDX-License-Identifier: Apache-2.0
"""Tiny record batches become one.

A producer that does not linger leaves a record batch for every record. Each costs the target as
much as a large one does, and only a few per partition are on their way at a time; so neighbours
are joined. Only what is tiny: a record batch that is passed on costs us about 90 us and the
target 200, a record that is cut anew a bit more than 1 us.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.wire import codecs
from sparkmirror.wire.record_batch import CODEC_MASK, HEADER_SIZE, RecordBatch
from sparkmirror.wire.records import locate_records
from sparkmirror.wire.reframe import MOST_GROWTH, BatchRewriter, OffsetRun

MAX_TINY_BYTES = 8 << 10  # as it travels
MAX_TINY_RECORDS = 64
MAX_MERGED_BYTES = 512 << 10  # what a merged record batch holds at most, before compression


class BatchMerger:
    """Record batches that follow each other, becoming one.

    All get the codec of the first, which ends the row at one of another, or the codec given.
    """

    __slots__ = ("_codec", "_end", "_first", "_limit", "_recut", "_runs", "_size", "batches")

    def __init__(self, limit: int, codec: int | None = None) -> None:
        self.batches = 0
        self._limit = limit
        self._codec = codec
        self._recut = BatchRewriter(codecs.NONE)
        self._size = HEADER_SIZE
        self._runs: list[OffsetRun] = []  # all but the last
        self._first = self._end = -1  # the last one

    @property
    def count(self) -> int:
        """How many records there are."""
        return self._recut.count

    @property
    def max_timestamp(self) -> int:
        """The time of the newest record."""
        return self._recut.max_timestamp

    @property
    def runs(self) -> tuple[OffsetRun, ...]:
        """The source offsets, neighbouring runs being one."""
        return (*self._runs, OffsetRun(self._first, self._end - self._first))

    def append(
        self, batch: RecordBatch, start: int, runs: Iterable[OffsetRun] | None = None
    ) -> bool:
        """Append the records at or after offset `start`; False if the batch does not fit in.

        `runs` are the source's offsets where those of the batch are no longer these.
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
        size = self._size + len(data) + MOST_GROWTH * batch.count
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
        """The one record batch."""
        return self._recut.encode()

    def _add_offsets(self, first: int, length: int) -> None:
        if first == self._end:
            self._end += length
            return
        if self._end >= 0:
            self._runs.append(OffsetRun(self._first, self._end - self._first))
        self._first, self._end = first, first + length
