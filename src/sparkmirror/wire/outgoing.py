# SPDX-License-Identifier: Apache-2.0
"""A record batch on its way to the target, and the decision which ones go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.record_batch import RecordBatch, split
from sparkmirror.wire.reframe import Run, needs_reframe, reframe


class Outgoing:
    """One record batch between fetch and acknowledgement; keeps its cut and its sequence."""

    __slots__ = (
        "base_offset",
        "buffer",
        "count",
        "has_own_bytes",
        "is_acked",
        "is_fresh",
        "max_timestamp",
        "next_position",
        "runs",
        "sequence",
        "size",
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
        has_own_bytes: bool = True,
    ) -> None:
        self.view = view
        self.size = len(view)
        self.count = count
        self.next_position = next_position  # the source offset after this record batch
        self.max_timestamp = max_timestamp
        self.runs = runs
        self.has_own_bytes = has_own_bytes  # false: a view into the buffer of a fetch response
        self.buffer: Buffer | None = None
        self.sequence = -1  # given when it is first sent
        self.base_offset = -1
        self.is_acked = False
        self.is_fresh = False  # arrived while everything before it had been read

    def lie_in(self, buffer: Buffer, budget: Budget) -> None:
        """Pin the buffer that holds the bytes: the response's, or one of its own size."""
        self.buffer = Buffer(budget, self.size) if self.has_own_bytes else buffer
        self.buffer.retain()

    def detach(self, budget: Budget) -> None:
        """Move into bytes of its own, so that a stuck partition does not pin its neighbours'."""
        if self.has_own_bytes:
            return
        self.view = memoryview(bytearray(self.view))
        self.has_own_bytes = True
        own = Buffer(budget, self.size)
        own.retain()
        self.let_go()
        self.buffer = own

    def let_go(self) -> None:
        """Release the buffer."""
        if self.buffer is not None:
            self.buffer.release()
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


def admit(
    records: memoryview, position: int, aborted: Sequence[AbortedTransaction] = ()
) -> Admitted:
    """Decide about each record batch: skip, send as it is, or reframe.

    Control batches, empty batches (compaction leaves them) and aborted transactions only advance
    the position. The list of aborted transactions belongs to this one response.
    Raises CorruptRecordBatchError if the first wanted one is damaged; those before a damaged one
    go on, and the next fetch begins with it.
    """
    began = position
    outgoing: list[Outgoing] = []
    aborting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborted_producers: set[int] = set()
    aborted_records = 0
    batches = split(records)
    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                break
            batch.verify()  # first: every decision below believes the header
            following = batch.next_offset
            out = None
            if following > position and _is_wanted(batch, aborting, aborted_producers):
                out = _outgoing(batch, position)
        except CorruptRecordBatchError:
            if position == began:
                raise
            break
        if following <= position:
            continue
        if out is not None:
            outgoing.append(out)
        elif batch.is_transactional and not batch.is_control:
            aborted_records += batch.count
        position = following
    return Admitted(outgoing, position, aborted_records)


def _is_wanted(
    batch: RecordBatch, aborting: list[AbortedTransaction], aborted_producers: set[int]
) -> bool:
    """Whether a record batch holds records for the target; keeps track of open aborts."""
    while aborting and aborting[-1].first_offset < batch.next_offset:
        aborted_producers.add(aborting.pop().producer_id)
    if batch.is_control:
        # The cleaner may leave a marker's batch without the marker.
        if batch.count and batch.is_abort_marker():
            aborted_producers.discard(batch.producer_id)
        return False
    if not batch.count:
        return False
    return not (batch.is_transactional and batch.producer_id in aborted_producers)


def _outgoing(batch: RecordBatch, position: int) -> Outgoing | None:
    if not needs_reframe(batch, position):
        runs = (Run(batch.base_offset, batch.count),)
        return Outgoing(
            batch.view,
            batch.count,
            batch.next_offset,
            batch.max_timestamp,
            runs,
            has_own_bytes=False,
        )
    new = reframe(batch, position)
    if new is None:
        return None
    return Outgoing(new.view, new.records, batch.next_offset, batch.max_timestamp, new.runs)
