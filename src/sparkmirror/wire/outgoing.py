# SPDX-License-Identifier: Apache-2.0
"""A record batch on its way to the target, and the decision which ones go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.record_batch import RecordBatch, split
from sparkmirror.wire.reframe import Run, needs_reframe, reframe


class Outgoing:
    """One record batch between fetch and acknowledgement; keeps its cut and its sequence."""

    __slots__ = (
        "base_offset",
        "buffer",
        "count",
        "is_acked",
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
    ) -> None:
        self.view = view
        self.size = len(view)
        self.count = count
        self.next_position = next_position  # the source offset after this record batch
        self.max_timestamp = max_timestamp
        self.runs = runs
        self.buffer: Buffer | None = None
        self.sequence = -1  # given when it is first sent
        self.base_offset = -1
        self.is_acked = False

    def lie_in(self, buffer: Buffer) -> None:
        """Pin the buffer whose bytes this record batch shares."""
        buffer.retain()
        self.buffer = buffer

    def detach(self, budget: Budget) -> None:
        """Move into bytes of its own, so that a stuck partition does not pin its neighbours'."""
        self.view = memoryview(bytearray(self.view))
        self.let_go()
        self.lie_in(Buffer(budget, self.size))

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
    Raises CorruptRecordBatchError before anything damaged can go on.
    """
    outgoing: list[Outgoing] = []
    aborting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborted_producers: set[int] = set()
    aborted_records = 0
    for batch in split(records):
        following = batch.next_offset
        if following <= position:
            continue
        if batch.attributes & ~0x07 or batch.count == 0 or aborted_producers or aborting:
            while aborting and aborting[-1].first_offset < following:
                aborted_producers.add(aborting.pop().producer_id)
            if batch.is_control:
                if batch.is_abort_marker():
                    aborted_producers.discard(batch.producer_id)
                position = following
                continue
            if batch.count == 0:
                position = following
                continue
            if batch.is_transactional and batch.producer_id in aborted_producers:
                aborted_records += batch.count
                position = following
                continue
        batch.verify()
        out = _outgoing(batch, position)
        if out is not None:
            outgoing.append(out)
        position = following
    return Admitted(outgoing, position, aborted_records)


def _outgoing(batch: RecordBatch, position: int) -> Outgoing | None:
    if not needs_reframe(batch, position):
        runs = (Run(batch.base_offset, batch.count),)
        return Outgoing(batch.view, batch.count, batch.next_offset, batch.max_timestamp, runs)
    new = reframe(batch, position)
    if new is None:
        return None
    return Outgoing(new.view, new.records, batch.next_offset, batch.max_timestamp, new.runs)
