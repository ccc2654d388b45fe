# SPDX-License-Identifier: Apache-2.0
"""A record batch on its way to the target, and the decision which ones go."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.merge import MERGED_BYTES, TINY_BYTES, TINY_RECORDS, Joint
from sparkmirror.wire.record_batch import CONTROL, TRANSACTIONAL, RecordBatch, split
from sparkmirror.wire.reframe import Run, cut, needs_reframe, reframe

_PAIR = 2  # fewer cannot be joined


class Outgoing:
    """One record batch between fetch and acknowledgement; keeps its cut and its sequence."""

    __slots__ = (
        "base_offset",
        "buffer",
        "count",
        "has_own_bytes",
        "is_acked",
        "is_doubtful",
        "is_fresh",
        "leader_epoch",
        "max_timestamp",
        "next_position",
        "runs",
        "sequence",
        "size",
        "skipped",
        "source_size",
        "view",
    )

    def __init__(
        self,
        view: memoryview,
        count: int,
        next_position: int,
        max_timestamp: int,
        runs: tuple[Run, ...],
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
        self.has_own_bytes = has_own_bytes  # false: a view into the buffer of a fetch response
        self.buffer: Buffer | None = None
        self.sequence = -1  # given when it is first sent
        self.base_offset = -1
        self.is_acked = False
        self.is_doubtful = False  # sent, and nobody knows whether it is on the target
        self.is_fresh = False  # arrived while everything before it had been read
        self.leader_epoch = leader_epoch  # on the source
        self.skipped = 0  # source offsets right before it that hold nothing for the target

    def lie_in(self, buffer: Buffer | None, budget: Budget) -> None:
        """Pin the buffer that holds the bytes: the response's, or one of its own size."""
        if self.has_own_bytes or buffer is None:
            self.buffer = Buffer(budget, self.size)
            return
        self.buffer = buffer
        buffer.retain(self.size)

    def step_aside(self, budget: Budget) -> None:
        """Move out of a buffer that nearly nobody else needs: one that is stuck must not pin it."""
        if self.buffer is not None and self.buffer.is_sparse:
            self.detach(budget)

    def detach(self, budget: Budget) -> None:
        """Move into bytes of its own."""
        if self.has_own_bytes:
            return
        self.view = memoryview(bytearray(self.view))
        self.has_own_bytes = True
        own = Buffer(budget, self.size)
        self.let_go()
        self.buffer = own

    def let_go(self) -> None:
        """Release the buffer."""
        if self.buffer is not None:
            self.buffer.release(self.size)
            self.buffer = None


class AbortedTransaction(NamedTuple):
    """A transaction that a read_committed reader must not see."""

    producer_id: int
    first_offset: int


class Admitted(NamedTuple):
    """What of a fetch response goes on, and how far the source has been read."""

    outgoing: list[Outgoing]
    position: int
    aborted_records: int
    leader_epoch: int = -1  # of the last record batch that was looked at
    skipped: int = 0  # offsets behind the last one that goes on: markers, aborted records


class _Passage:
    """What a fetch response lets through, in order; tiny neighbours become one."""

    __slots__ = (
        "_alone",
        "_codec",
        "_joint",
        "_limit",
        "_next_position",
        "_source_size",
        "passed",
        "skipped",
    )

    def __init__(self, codec: int | None, limit: int) -> None:
        self._codec = codec
        self._limit = limit
        self._joint = Joint(limit, codec)
        self._alone: RecordBatch | None = None  # the only one in the joint, if it may pass raw
        self._source_size = 0
        self._next_position = 0
        self.passed: list[Outgoing] = []
        self.skipped = 0  # offsets since the last one that hold nothing for the target

    def take(self, batch: RecordBatch, position: int) -> None:
        """Let the records from the position on through."""
        if self._limit and len(batch.view) <= TINY_BYTES and batch.count <= TINY_RECORDS:
            if self._join(batch, position):
                return
            self.settle()
            if self._join(batch, position):
                return
        self.settle()
        if needs_reframe(batch, position, codec=self._codec):
            new = reframe(batch, position, codec=self._codec)
            if new is None:
                return
            out = Outgoing(
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
        out.skipped, self.skipped = self.skipped, 0
        self.passed.append(out)

    def settle(self) -> None:
        """What has been joined goes on."""
        joint = self._joint
        if not joint.members:
            return
        if joint.members == 1 and self._alone is not None:
            self.passed.append(_unchanged(self._alone))
        else:
            self.passed.append(
                Outgoing(
                    joint.seal(),
                    joint.count,
                    self._next_position,
                    joint.max_timestamp,
                    joint.runs,
                    source_size=self._source_size,
                )
            )
        self._joint = Joint(self._limit, self._codec)
        self._source_size = 0

    def _join(self, batch: RecordBatch, position: int) -> bool:
        joint = self._joint
        members = joint.members
        if not members:
            is_whole = not needs_reframe(batch, position, codec=self._codec)
            self._alone = batch if is_whole else None
        if not joint.take(batch, position):
            return False
        if joint.members > members:  # else none of its records is wanted
            self._source_size += len(batch.view)
            self._next_position = batch.next_offset
        return True


def admit(
    records: memoryview,
    position: int,
    aborted: Sequence[AbortedTransaction] = (),
    *,
    codec: int | None = None,
    merged_bytes: int = MERGED_BYTES,
) -> Admitted:
    """Decide about each record batch: skip, send as it is, join with its neighbours, or reframe.

    Control batches, empty batches (compaction leaves them) and aborted transactions only advance
    the position. The list of aborted transactions belongs to this one response.
    With a `codec`, everything is compressed with it. None joined is larger than `merged_bytes`
    (0: none is joined).
    Raises CorruptRecordBatchError if the first wanted one is damaged; those before a damaged one
    go on, and the next fetch begins with it.
    """
    began = position
    passage = _Passage(codec, merged_bytes)
    aborting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborted_producers: set[int] = set()
    aborted_records = 0
    lowest, leader_epoch = 0, -1
    try:
        for batch in split(records):
            batch.verify(lowest)  # first: every decision below believes the header
            following = batch.next_offset
            if following <= position:
                continue
            if _is_wanted(batch, aborting, aborted_producers):
                passage.take(batch, position)
            elif batch.has_records or batch.is_control:  # a marker, or aborted
                passage.skipped += following - max(position, batch.base_offset)
                if not batch.is_control:
                    aborted_records += batch.count
            position = lowest = following
            leader_epoch = batch.leader_epoch
    except CorruptRecordBatchError:
        if position == began:
            raise
    passage.settle()
    return Admitted(passage.passed, position, aborted_records, leader_epoch, passage.skipped)


def join(
    pending: deque[Outgoing],
    limit: int,
    budget: Budget,
    *,
    tiny_bytes: int = TINY_BYTES,
    tiny_records: int = TINY_RECORDS,
) -> None:
    """Make one of the tiny record batches at the head of a queue, if none was ever sent.

    No larger than `limit`. Those joined let go of their buffers; the new one lies in its own.
    """
    if len(pending) < _PAIR or pending[1].size > tiny_bytes:
        return
    joint = Joint(limit)
    joined: list[Outgoing] = []
    for out in pending:
        if out.sequence >= 0 or out.size > tiny_bytes or out.count > tiny_records:
            break
        batch = RecordBatch(out.view)
        try:
            if not joint.take(batch, batch.base_offset, out.runs):
                break
        except CorruptRecordBatchError:
            break  # the target decides about it
        joined.append(out)
    if len(joined) < _PAIR:
        return
    new = Outgoing(
        joint.seal(),
        joint.count,
        joined[-1].next_position,
        joint.max_timestamp,
        joint.runs,
        source_size=sum(out.source_size for out in joined),
    )
    new.is_fresh = all(out.is_fresh for out in joined)
    for out in joined:
        pending.popleft()
        out.let_go()
    new.lie_in(None, budget)
    pending.appendleft(new)


def split_outgoing(
    out: Outgoing, budget: Budget, cuts: Sequence[int] | None = None
) -> list[Outgoing]:
    """A record batch in pieces, cut before the records of these numbers (default: in halves).

    The pieces replace it: it lets go of its buffer, they lie in their own, none has been sent.
    """
    middle = cuts if cuts is not None else (out.count // 2,) if out.count > 1 else ()
    bounds = (0, *middle, out.count)
    pieces: list[Outgoing] = []
    for view, (first, last) in zip(cut(out.view, middle), pairwise(bounds), strict=True):
        runs = _part(out.runs, first, last)
        is_last = last == out.count
        share = out.source_size * last // out.count - out.source_size * first // out.count
        piece = Outgoing(
            view,
            last - first,
            out.next_position if is_last else runs[-1].first + runs[-1].length,
            RecordBatch(view).max_timestamp,
            runs,
            source_size=share,
        )
        piece.is_fresh = out.is_fresh
        pieces.append(piece)
    out.let_go()
    for piece in pieces:
        piece.lie_in(None, budget)
    return pieces


def halve_own(out: Outgoing, budget: Budget) -> list[Outgoing] | None:
    """The halves of a record batch of our own making, such as positions; None: it has one record.

    They replace it: it lets go of its buffer, they lie in their own.
    """
    if out.count <= 1:
        return None
    middle = out.count // 2
    views = cut(out.view, (middle,))
    out.let_go()
    halves = [
        Outgoing(view, count, 0, 0, ())
        for view, count in zip(views, (middle, out.count - middle), strict=True)
    ]
    for half in halves:
        half.lie_in(None, budget)
    return halves


def _part(runs: tuple[Run, ...], first: int, last: int) -> tuple[Run, ...]:
    """The runs of the records of these numbers."""
    found: list[Run] = []
    number = 0
    for run in runs:
        low, high = max(first, number), min(last, number + run.length)
        if low < high:
            found.append(Run(run.first + low - number, high - low))
        number += run.length
    return tuple(found)


def _unchanged(batch: RecordBatch) -> Outgoing:
    return Outgoing(
        batch.view,
        batch.count,
        batch.next_offset,
        batch.max_timestamp,
        (Run(batch.base_offset, batch.count),),
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
