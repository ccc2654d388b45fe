# SPDX-License-Identifier: Apache-2.0
"""The records of a flow on one target partition after its resume point, for a comparison.

Held as raw record batches while source and target match batch by batch, else as hashes of single
records. Sequences must be consecutive. A missing sequence requires a missing target offset, where
compaction or retention removed the record. Otherwise records were lost in transit, and all later
records are ignored (`has_sequence_gap`).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.model import ProducerState
from sparkmirror.wire.record_batch import LOG_APPEND_TIME, SEQUENCE_MASK, RecordBatch
from sparkmirror.wire.records import raw_records

_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43
HALF = 1 << 30  # sequences wrap around: a larger distance means that the order is reversed


def sequence_distance(earlier: int, later: int) -> int:
    """Return `later - earlier` modulo 2^31; close to 2^31 if the order is reversed."""
    return (later - earlier) & SEQUENCE_MASK


def is_sequence_before(sequence: int, other: int) -> bool:
    """Return whether a sequence is before another one; sequences wrap around."""
    return sequence_distance(sequence, other) < HALF and sequence != other


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A record batch on the target with the flow's producer id."""

    view: memoryview
    base_offset: int
    sequence: int
    count: int  # of sequences; compaction may have removed records
    has_create_time: bool
    skipped: int  # the number of sequences before the resume point


class WrittenRecord(NamedTuple):
    """One record of a `WrittenBatch`."""

    sequence: int
    offset: int  # on the target
    body: int  # hash of key, value and headers
    timestamp: int | None  # None: the target uses LogAppendTime

    def is_copy_of(self, body: int, timestamp: int) -> bool:
        """Return whether this is the copy of a source record."""
        return self.body == body and self.timestamp in (None, timestamp)


class WrittenRecords:
    """The written records without a counterpart on the source yet, in order."""

    def __init__(
        self,
        producer: ProducerState,
        downstream: int,
        goal: int | None,
        until_sequence: int | None = None,
    ) -> None:
        """`until_sequence`: set for an estimated resume point; later sequences are ignored."""
        self._producer = producer
        self._goal = goal
        self.end_sequence = producer.next_sequence if goal is None else goal
        self.end_downstream = downstream
        self.other_writers: set[int] = set()
        self.is_complete = False  # the target has been read up to the flow's last record
        self.has_sequence_gap = False
        self.held_bytes = 0
        self._until = until_sequence
        self._is_hashing = until_sequence is not None  # the first match needs every record
        self._is_kept = True
        self._expected = producer.next_sequence if until_sequence is None else None
        self._next_offset = downstream + 1
        self._missing_offsets = 0  # since the flow's last record batch
        self._batches: deque[WrittenBatch] = deque()
        self._records: deque[WrittenRecord] = deque()  # they precede the batches
        self._removed = 0
        self._numbers: dict[int, list[int]] | None = None  # of records, by hash of the body

    # --- reading

    def add(self, batch: RecordBatch) -> None:
        """Add the next record batch of the target log; keeps a copy of the flow's own batches."""
        self._missing_offsets += max(0, batch.base_offset - self._next_offset)
        self._next_offset = batch.next_offset
        producer_id, producer_epoch, sequence = _PRODUCER.unpack_from(batch.view, _PRODUCER_AT)
        ours = self._producer
        if producer_id != ours.producer_id or producer_epoch != ours.producer_epoch:
            if not batch.is_control:
                self.other_writers.add(producer_id)
            return
        count = batch.last_offset_delta + 1
        end = (sequence + count) & SEQUENCE_MASK
        if not is_sequence_before(ours.next_sequence, end):
            return  # before the resume point
        is_straddling = is_sequence_before(sequence, ours.next_sequence)
        skipped = sequence_distance(sequence, ours.next_sequence) if is_straddling else 0
        self._check_sequence((sequence + skipped) & SEQUENCE_MASK)
        self._expected = end
        self.end_downstream = batch.next_offset - 1
        if self._goal is None or is_sequence_before(self._goal, end):
            self.end_sequence = end
        if self._goal is not None and not is_sequence_before(end, self._goal):
            self.is_complete = True
        if batch.count and self._is_kept and not self.has_sequence_gap:
            view = memoryview(bytes(batch.view))
            keeps_timestamps = not batch.attributes & LOG_APPEND_TIME
            self._batches.append(
                WrittenBatch(view, batch.base_offset, sequence, count, keeps_timestamps, skipped)
            )
            self.held_bytes += len(view)
            if self._is_hashing:
                self._hash_batch()

    def hash_all(self) -> None:
        """Replace all batches, present and future, by hashes of their records."""
        self._is_hashing = True
        self.count()

    def discard_records(self) -> None:
        """Keep no records any more; only the end of the log matters."""
        self._is_kept = False
        self._batches.clear()
        self._records.clear()
        self.held_bytes = 0

    def _check_sequence(self, sequence: int) -> None:
        if self._until is not None and not is_sequence_before(sequence, self._until):
            self.has_sequence_gap = True
        elif self._expected is not None and sequence != self._expected:
            self.has_sequence_gap |= (
                sequence_distance(self._expected, sequence) > self._missing_offsets
            )
        self._missing_offsets = 0

    # --- remaining records

    @property
    def is_empty(self) -> bool:
        """Whether every record read so far has its counterpart."""
        return not self._records and not self._batches

    @property
    def first_offset(self) -> int:
        """The target offset of the first record, or -1."""
        if self._records:
            return self._records[0].offset
        return self._batches[0].base_offset if self._batches else -1

    def first_batch(self) -> WrittenBatch | None:
        """Return the first record batch, unless it has been replaced by hashes."""
        return self._batches[0] if self._batches and not self._records else None

    def first(self) -> WrittenRecord | None:
        while not self._records and self._batches:
            self._hash_batch()
        return self._records[0] if self._records else None

    def count(self) -> int:
        """Return the number of records; replaces all batches by hashes."""
        while self._batches:
            self._hash_batch()
        return len(self._records)

    def remove_batch(self) -> None:
        """Remove the first record batch."""
        self.held_bytes -= len(self._batches.popleft().view)

    def remove(self, count: int) -> list[WrittenRecord]:
        """Remove and return the first records."""
        self._removed += count
        return [self._records.popleft() for _ in range(count)]

    def _hash_batch(self) -> None:
        batch = self._batches.popleft()
        self.held_bytes -= len(batch.view)
        for frame in raw_records(batch.view):
            if frame.offset < batch.skipped:
                continue
            record = WrittenRecord(
                (batch.sequence + frame.offset) & SEQUENCE_MASK,
                batch.base_offset + frame.offset,
                hash(frame.body),
                frame.timestamp if batch.has_create_time else None,
            )
            if self._numbers is not None:
                self._index(self._removed + len(self._records), record)
            self._records.append(record)

    # --- searching

    def find(self, body: int, timestamp: int, reach: int) -> int | None:
        """Return the index of the last possible copy of a source record.

        `reach`: how many records before it may lack a counterpart. With fewer records left than
        that, the copy must be unique, since there may be none.
        """
        left = self.count()
        if self._numbers is None:
            self._numbers = {}
            for index, record in enumerate(self._records):
                self._index(self._removed + index, record)
        numbers = self._numbers.get(body, [])
        low = bisect_left(numbers, self._removed)
        high = bisect_right(numbers, self._removed + reach)
        found = [
            number - self._removed
            for number in numbers[low:high]
            if self._records[number - self._removed].is_copy_of(body, timestamp)
        ]
        if not found or (reach >= left and len(found) > 1):
            return None
        return found[-1]

    def _index(self, number: int, record: WrittenRecord) -> None:
        if self._numbers is not None:
            self._numbers.setdefault(record.body, []).append(number)
