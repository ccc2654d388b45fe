# SPDX-License-Identifier: Apache-2.0
"""Record batches between fetch and acknowledgement; decides which batches go to the target."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer
from sparkmirror.wire.merge import MAX_MERGED_BYTES, MAX_TINY_BYTES, MAX_TINY_RECORDS, BatchMerger
from sparkmirror.wire.record_batch import CONTROL, TRANSACTIONAL, RecordBatch, split_batches
from sparkmirror.wire.reframe import OffsetRun, needs_reframe, reframe, split_batch_view

_PAIR = 2  # the fewest batches to merge


class OutgoingBatch:
    """One record batch between fetch and acknowledgement.

    Once sent, it keeps its records and its sequence.
    """

    __slots__ = (
        "base_offset",
        "buffer",
        "count",
        "fetched_at",
        "is_acked",
        "is_in_doubt",
        "is_skippable",
        "leader_epoch",
        "max_timestamp",
        "next_position",
        "owns_bytes",
        "runs",
        "sequence",
        "size",
        "skipped_offsets",
        "source_size",
        "view",
    )

    def __init__(
        self,
        view: memoryview,
        count: int,
        next_position: int,
        max_timestamp: int,
        runs: tuple[OffsetRun, ...],
        *,
        source_size: int | None = None,
        has_own_bytes: bool = True,
        leader_epoch: int = -1,
    ) -> None:
        self.view = view
        self.size = len(view)
        self.source_size = self.size if source_size is None else source_size  # as fetched
        self.count = count
        self.next_position = next_position  # the source offset after this record batch
        self.max_timestamp = max_timestamp
        self.runs = runs
        self.owns_bytes = has_own_bytes  # false: a view into the buffer of a fetch response
        self.buffer: SharedBuffer | None = None
        self.sequence = -1  # assigned when it is first sent
        self.base_offset = -1
        self.is_acked = False
        self.is_in_doubt = False  # sent, and the target may have it
        self.fetched_at = 0.0  # on the monotonic clock
        self.leader_epoch = leader_epoch  # on the source
        self.skipped_offsets = 0  # source offsets right before it without records for the target
        self.is_skippable = False  # by `skips`; only compared, never sent

    def pin(self, buffer: SharedBuffer | None, budget: MemoryBudget) -> None:
        """Retain the buffer that holds the bytes: the response's, or the batch's own."""
        if self.owns_bytes or buffer is None:
            self.buffer = SharedBuffer(budget, self.size)
            return
        self.buffer = buffer
        buffer.retain(self.size)

    def detach_if_sparse(self, budget: MemoryBudget) -> None:
        """Copy out of a sparse buffer: a batch that waits long must not keep all of it alive."""
        if self.buffer is not None and self.buffer.is_sparse:
            self.detach(budget)

    def detach(self, budget: MemoryBudget) -> None:
        """Copy the bytes into a separate buffer."""
        if self.owns_bytes:
            return
        self.view = memoryview(bytearray(self.view))
        self.owns_bytes = True
        own = SharedBuffer(budget, self.size)
        self.release()
        self.buffer = own

    def release(self) -> None:
        if self.buffer is not None:
            self.buffer.release(self.size)
            self.buffer = None


class AbortedTransaction(NamedTuple):
    """An aborted transaction, whose records a read_committed consumer skips."""

    producer_id: int
    first_offset: int


class SkippedBatch(NamedTuple):
    """A record batch that another flow copied to the source."""

    next_offset: int
    records: int


class PreparedBatches(NamedTuple):
    """The record batches of a fetch response for the target, and the next source position."""

    batches: list[OutgoingBatch]
    position: int
    aborted_records: int
    leader_epoch: int = -1  # of the last complete record batch
    skipped: int = 0  # offsets after the last batch for the target: markers, skipped records
    skipped_batches: tuple[SkippedBatch, ...] = ()  # by `skips`
    has_unknown_producer: bool = False  # the record batch at the position is not in `skips`
    reframed: int = 0  # record batches of the source that were rewritten
    merged: int = 0  # record batches of the source that became part of a larger one


class _BatchPreparer:
    """Collects the record batches for the target, in order; merges adjacent tiny ones."""

    __slots__ = (
        "_codec",
        "_joint",
        "_limit",
        "_next_position",
        "_offers_skipped",
        "_single",
        "_source_size",
        "batches",
        "merged",
        "reframed",
        "skipped",
        "skipped_batches",
    )

    def __init__(self, codec: int | None, limit: int, *, offers_skipped: bool) -> None:
        self._offers_skipped = offers_skipped
        self._codec = codec
        self._limit = limit
        self._joint = BatchMerger(limit, codec)
        self._single: RecordBatch | None = None  # the only one to merge, if it can go unchanged
        self._source_size = 0
        self._next_position = 0
        self.batches: list[OutgoingBatch] = []
        self.skipped = 0  # offsets since the last batch without records for the target
        self.reframed = 0
        self.merged = 0
        self.skipped_batches: list[SkippedBatch] = []

    def add(self, batch: RecordBatch, position: int) -> None:
        """Add the records from the position on."""
        if self._limit and len(batch.view) <= MAX_TINY_BYTES and batch.count <= MAX_TINY_RECORDS:
            if self._merge(batch, position):
                return
            self.flush_merged()
            if self._merge(batch, position):
                return
        self.flush_merged()
        if needs_reframe(batch, position, codec=self._codec):
            new = reframe(batch, position, codec=self._codec)
            if new is None:
                return
            out = OutgoingBatch(
                new.view,
                new.records,
                batch.next_offset,
                batch.max_timestamp,
                new.runs,
                source_size=len(batch.view),
                leader_epoch=batch.leader_epoch,
            )
            self.reframed += 1
        else:
            out = _unchanged(batch)
        out.skipped_offsets, self.skipped = self.skipped, 0
        self.batches.append(out)

    def skip(self, batch: RecordBatch, position: int) -> None:
        """Skip the records from the position on, or add them as skippable."""
        if not self._offers_skipped:
            self.skipped += batch.next_offset - max(position, batch.base_offset)
            self.skipped_batches.append(SkippedBatch(batch.next_offset, batch.count))
            return
        known = len(self.batches)
        self.add(batch, position)
        for out in self.batches[known:]:
            out.is_skippable = True

    def flush_merged(self) -> None:
        """Add the merged batch, if any."""
        joint = self._joint
        if not joint.batches:
            return
        if joint.batches == 1 and self._single is not None:
            self.batches.append(_unchanged(self._single))
        else:
            self.merged += joint.batches
            self.batches.append(
                OutgoingBatch(
                    joint.seal(),
                    joint.count,
                    self._next_position,
                    joint.max_timestamp,
                    joint.runs,
                    source_size=self._source_size,
                )
            )
        self._joint = BatchMerger(self._limit, self._codec)
        self._source_size = 0

    def _merge(self, batch: RecordBatch, position: int) -> bool:
        joint = self._joint
        members = joint.batches
        if not members:
            is_whole = not needs_reframe(batch, position, codec=self._codec)
            self._single = batch if is_whole else None
        if not joint.append(batch, position):
            return False
        if joint.batches > members:  # else all records are below the position
            self._source_size += len(batch.view)
            self._next_position = batch.next_offset
        return True


def prepare_batches(
    records: memoryview,
    position: int,
    aborted: Sequence[AbortedTransaction] = (),
    *,
    codec: int | None = None,
    merged_bytes: int = MAX_MERGED_BYTES,
    skips: Mapping[int, bool] | None = None,
    offers_skipped: bool = False,
) -> PreparedBatches:
    """Decide about each record batch: skip, send unchanged, merge, or reframe.

    Control batches, empty batches (left by compaction) and aborted transactions only advance the
    position. `aborted` belongs to this one response. `codec` recompresses all batches. A merged
    batch has at most `merged_bytes` (0: do not merge). `skips` has the producer ids whose batches
    are skipped (True) or copied (False); stops before a batch of another producer. With
    `offers_skipped`, skipped batches are returned as skippable.
    Raises CorruptRecordBatchError if the first batch is corrupt; otherwise stops before a corrupt
    batch, and the next fetch starts with it.
    """
    start = position
    passage = _BatchPreparer(codec, merged_bytes, offers_skipped=offers_skipped)
    aborting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborted_producers: set[int] = set()
    aborted_records = 0
    lowest, leader_epoch = 0, -1
    has_unknown = False
    try:
        for batch in split_batches(records):
            batch.verify(lowest)  # first, because everything below relies on the header
            following = batch.next_offset
            if following <= position:
                continue
            if _is_wanted(batch, aborting, aborted_producers):
                is_skipped = False if skips is None else skips.get(batch.producer_id)
                if is_skipped is None:
                    has_unknown = True
                    break
                if is_skipped:
                    passage.skip(batch, position)
                else:
                    passage.add(batch, position)
            elif batch.has_records or batch.is_control:  # a marker, or aborted
                passage.skipped += following - max(position, batch.base_offset)
                if not batch.is_control:
                    aborted_records += batch.count
            position = lowest = following
            leader_epoch = batch.leader_epoch
    except CorruptRecordBatchError:
        if position == start:
            raise
    passage.flush_merged()
    return PreparedBatches(
        passage.batches,
        position,
        aborted_records,
        leader_epoch,
        passage.skipped,
        tuple(passage.skipped_batches),
        has_unknown,
        passage.reframed,
        passage.merged,
    )


def merge_pending(
    pending: deque[OutgoingBatch],
    limit: int,
    budget: MemoryBudget,
    *,
    tiny_bytes: int = MAX_TINY_BYTES,
    tiny_records: int = MAX_TINY_RECORDS,
) -> None:
    """Merge the tiny record batches at the head of a queue, if none was ever sent.

    The result has at most `limit` bytes and its own buffer; the merged batches release theirs.
    """
    if len(pending) < _PAIR or pending[1].size > tiny_bytes:
        return
    joint = BatchMerger(limit)
    joined: list[OutgoingBatch] = []
    for out in pending:
        if out.sequence >= 0 or out.size > tiny_bytes or out.count > tiny_records:
            break
        batch = RecordBatch(out.view)
        try:
            if not joint.append(batch, batch.base_offset, out.runs):
                break
        except CorruptRecordBatchError:
            break  # leave it to the target
        joined.append(out)
    if len(joined) < _PAIR:
        return
    new = OutgoingBatch(
        joint.seal(),
        joint.count,
        joined[-1].next_position,
        joint.max_timestamp,
        joint.runs,
        source_size=sum(out.source_size for out in joined),
    )
    new.fetched_at = min(out.fetched_at for out in joined)
    for out in joined:
        pending.popleft()
        out.release()
    new.pin(None, budget)
    pending.appendleft(new)


def split_batch(
    out: OutgoingBatch, budget: MemoryBudget, cuts: Sequence[int] | None = None
) -> list[OutgoingBatch]:
    """Split a record batch before the records with these indexes (default: into halves).

    The pieces replace the batch, which releases its buffer; they have their own and are unsent.
    """
    middle = cuts if cuts is not None else (out.count // 2,) if out.count > 1 else ()
    bounds = (0, *middle, out.count)
    pieces: list[OutgoingBatch] = []
    for view, (first, last) in zip(
        split_batch_view(out.view, middle), pairwise(bounds), strict=True
    ):
        runs = _slice_runs(out.runs, first, last)
        is_last = last == out.count
        share = out.source_size * last // out.count - out.source_size * first // out.count
        piece = OutgoingBatch(
            view,
            last - first,
            out.next_position if is_last else runs[-1].first + runs[-1].length,
            RecordBatch(view).max_timestamp,
            runs,
            source_size=share,
        )
        piece.fetched_at = out.fetched_at
        pieces.append(piece)
    out.release()
    for piece in pieces:
        piece.pin(None, budget)
    return pieces


def halve_batch(out: OutgoingBatch, budget: MemoryBudget) -> list[OutgoingBatch] | None:
    """Halve a record batch that was not fetched, such as positions; None if it has one record.

    The halves replace the batch, which releases its buffer; they have their own.
    """
    if out.count <= 1:
        return None
    middle = out.count // 2
    views = split_batch_view(out.view, (middle,))
    out.release()
    halves = [
        OutgoingBatch(view, count, 0, 0, ())
        for view, count in zip(views, (middle, out.count - middle), strict=True)
    ]
    for half in halves:
        half.pin(None, budget)
    return halves


def _slice_runs(runs: tuple[OffsetRun, ...], first: int, last: int) -> tuple[OffsetRun, ...]:
    """The runs of the records from index `first` to `last`."""
    found: list[OffsetRun] = []
    number = 0
    for run in runs:
        low, high = max(first, number), min(last, number + run.length)
        if low < high:
            found.append(OffsetRun(run.first + low - number, high - low))
        number += run.length
    return tuple(found)


def _unchanged(batch: RecordBatch) -> OutgoingBatch:
    return OutgoingBatch(
        batch.view,
        batch.count,
        batch.next_offset,
        batch.max_timestamp,
        (OffsetRun(batch.base_offset, batch.count),),
        has_own_bytes=False,
        leader_epoch=batch.leader_epoch,
    )


def _is_wanted(
    batch: RecordBatch, aborting: list[AbortedTransaction], aborted_producers: set[int]
) -> bool:
    """Whether a record batch has records for the target; tracks aborted transactions."""
    if not batch.attributes & (TRANSACTIONAL | CONTROL):
        return batch.has_records
    while aborting and aborting[-1].first_offset < batch.next_offset:
        aborted_producers.add(aborting.pop().producer_id)
    if batch.is_control:
        # The log cleaner may leave a control batch without its marker.
        if batch.has_records and batch.is_abort_marker():
            aborted_producers.discard(batch.producer_id)
        return False
    return batch.has_records and batch.producer_id not in aborted_producers
