# SPDX-License-Identifier: Apache-2.0
"""A record batch on its way to the target, and the decision which ones go."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer
from sparkmirror.wire.merge import MAX_MERGED_BYTES, MAX_TINY_BYTES, MAX_TINY_RECORDS, BatchMerger
from sparkmirror.wire.record_batch import CONTROL, TRANSACTIONAL, RecordBatch, split_batches
from sparkmirror.wire.reframe import OffsetRun, needs_reframe, reframe, split_batch_view

_PAIR = 2  # fewer cannot be joined


class OutgoingBatch:
    """One record batch between fetch and acknowledgement; keeps its cut and its sequence."""

    __slots__ = (
        "base_offset",
        "buffer",
        "count",
        "is_acked",
        "is_in_doubt",
        "is_live",
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
        self.source_size = self.size if source_size is None else source_size  # as it was fetched
        self.count = count
        self.next_position = next_position  # the source offset after this record batch
        self.max_timestamp = max_timestamp
        self.runs = runs
        self.owns_bytes = has_own_bytes  # false: a view into the buffer of a fetch response
        self.buffer: SharedBuffer | None = None
        self.sequence = -1  # given when it is first sent
        self.base_offset = -1
        self.is_acked = False
        self.is_in_doubt = False  # sent, and nobody knows whether it is on the target
        self.is_live = False  # arrived while everything before it had been read
        self.leader_epoch = leader_epoch  # on the source
        self.skipped_offsets = 0  # source offsets right before it that hold nothing for the target

    def pin(self, buffer: SharedBuffer | None, budget: MemoryBudget) -> None:
        """Pin the buffer that holds the bytes: the response's, or one of its own size."""
        if self.owns_bytes or buffer is None:
            self.buffer = SharedBuffer(budget, self.size)
            return
        self.buffer = buffer
        buffer.retain(self.size)

    def detach_if_sparse(self, budget: MemoryBudget) -> None:
        """Move out of a buffer that nearly nobody else needs: one that is stuck must not pin it."""
        if self.buffer is not None and self.buffer.is_sparse:
            self.detach(budget)

    def detach(self, budget: MemoryBudget) -> None:
        """Move into bytes of its own."""
        if self.owns_bytes:
            return
        self.view = memoryview(bytearray(self.view))
        self.owns_bytes = True
        own = SharedBuffer(budget, self.size)
        self.release()
        self.buffer = own

    def release(self) -> None:
        """Release the buffer."""
        if self.buffer is not None:
            self.buffer.release(self.size)
            self.buffer = None


class AbortedTransaction(NamedTuple):
    """A transaction that a read_committed reader must not see."""

    producer_id: int
    first_offset: int


class PreparedBatches(NamedTuple):
    """What of a fetch response goes on, and how far the source has been read."""

    batches: list[OutgoingBatch]
    position: int
    aborted_records: int
    leader_epoch: int = -1  # of the last record batch that was looked at
    skipped: int = 0  # offsets behind the last one that goes on: markers, aborted records


class _BatchPreparer:
    """What a fetch response lets through, in order; tiny neighbours become one."""

    __slots__ = (
        "_codec",
        "_joint",
        "_limit",
        "_next_position",
        "_single",
        "_source_size",
        "batches",
        "skipped",
    )

    def __init__(self, codec: int | None, limit: int) -> None:
        self._codec = codec
        self._limit = limit
        self._joint = BatchMerger(limit, codec)
        self._single: RecordBatch | None = None  # the only one in the joint, if it may pass raw
        self._source_size = 0
        self._next_position = 0
        self.batches: list[OutgoingBatch] = []
        self.skipped = 0  # offsets since the last one that hold nothing for the target

    def add(self, batch: RecordBatch, position: int) -> None:
        """Let the records from the position on through."""
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
        else:
            out = _unchanged(batch)
        out.skipped_offsets, self.skipped = self.skipped, 0
        self.batches.append(out)

    def flush_merged(self) -> None:
        """What has been joined goes on."""
        joint = self._joint
        if not joint.batches:
            return
        if joint.batches == 1 and self._single is not None:
            self.batches.append(_unchanged(self._single))
        else:
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
        if joint.batches > members:  # else none of its records is wanted
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
) -> PreparedBatches:
    """Decide about each record batch: skip, send as it is, join with its neighbours, or reframe.

    Control batches, empty batches (compaction leaves them) and aborted transactions only advance
    the position. The list of aborted transactions belongs to this one response.
    With a `codec`, everything is compressed with it. None joined is larger than `merged_bytes`
    (0: none is joined).
    Raises CorruptRecordBatchError if the first wanted one is damaged; those before a damaged one
    go on, and the next fetch begins with it.
    """
    began = position
    passage = _BatchPreparer(codec, merged_bytes)
    aborting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborted_producers: set[int] = set()
    aborted_records = 0
    lowest, leader_epoch = 0, -1
    try:
        for batch in split_batches(records):
            batch.verify(lowest)  # first: every decision below believes the header
            following = batch.next_offset
            if following <= position:
                continue
            if _is_wanted(batch, aborting, aborted_producers):
                passage.add(batch, position)
            elif batch.has_records or batch.is_control:  # a marker, or aborted
                passage.skipped += following - max(position, batch.base_offset)
                if not batch.is_control:
                    aborted_records += batch.count
            position = lowest = following
            leader_epoch = batch.leader_epoch
    except CorruptRecordBatchError:
        if position == began:
            raise
    passage.flush_merged()
    return PreparedBatches(
        passage.batches, position, aborted_records, leader_epoch, passage.skipped
    )


def merge_pending(
    pending: deque[OutgoingBatch],
    limit: int,
    budget: MemoryBudget,
    *,
    tiny_bytes: int = MAX_TINY_BYTES,
    tiny_records: int = MAX_TINY_RECORDS,
) -> None:
    """Make one of the tiny record batches at the head of a queue, if none was ever sent.

    No larger than `limit`. Those joined let go of their buffers; the new one lies in its own.
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
            break  # the target decides about it
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
    new.is_live = all(out.is_live for out in joined)
    for out in joined:
        pending.popleft()
        out.release()
    new.pin(None, budget)
    pending.appendleft(new)


def split_batch(
    out: OutgoingBatch, budget: MemoryBudget, cuts: Sequence[int] | None = None
) -> list[OutgoingBatch]:
    """A record batch in pieces, cut before the records of these numbers (default: in halves).

    The pieces replace it: it lets go of its buffer, they lie in their own, none has been sent.
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
        piece.is_live = out.is_live
        pieces.append(piece)
    out.release()
    for piece in pieces:
        piece.pin(None, budget)
    return pieces


def halve_batch(out: OutgoingBatch, budget: MemoryBudget) -> list[OutgoingBatch] | None:
    """The halves of a record batch of our own making, such as positions; None: it has one record.

    They replace it: it lets go of its buffer, they lie in their own.
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
    """The runs of the records of these numbers."""
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
    """Whether a record batch holds records for the target; keeps track of open aborts."""
    if not batch.attributes & (TRANSACTIONAL | CONTROL):
        return batch.has_records
    while aborting and aborting[-1].first_offset < batch.next_offset:
        aborted_producers.add(aborting.pop().producer_id)
    if batch.is_control:
        # The cleaner may leave a marker's batch without the marker.
        if batch.has_records and batch.is_abort_marker():
            aborted_producers.discard(batch.producer_id)
        return False
    return batch.has_records and batch.producer_id not in aborted_producers
