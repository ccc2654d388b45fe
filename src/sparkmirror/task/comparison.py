# SPDX-License-Identifier: Apache-2.0
"""Finds the exact copy position: aligns source and target records after a stored resume point.

The records that this flow wrote after the resume point (`written_records.py`) were the next source
records at that time. Since then the source may have deleted records (retention, compaction) or have
been truncated and extended, and the target may have been compacted. Records are aligned in order:

    A  a written record without a counterpart requires a missing offset on the source
    B  a source record without a counterpart was removed by the target's compaction (its sequence
       is missing there), was refused by the target, or is new
    C  a log is truncated only where a newer leader epoch begins: a source record of a newer epoch
       without a counterpart is new, and so is everything after it; without a known epoch any
       record without a counterpart may be new
    D  a source record that is skipped now may have been copied before: the flow's skip plan, or
       its configuration, may have changed since

The search covers the written records, whose number is bounded, and reads only as much of the source
as they can match. Does no I/O: the caller adds batches of both sides in any interleaving.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import NamedTuple

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.model import ProducerState
from sparkmirror.task.written_records import (
    HALF,
    WrittenBatch,
    WrittenRecord,
    WrittenRecords,
    sequence_distance,
)
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.record_batch import CODEC_MASK, HEADER_SIZE, SEQUENCE_MASK, RecordBatch
from sparkmirror.wire.records import raw_records

MAX_MISSING = 10_000  # source records in a row that the target may have refused
UNKNOWN_LEADER_EPOCH = -1


class ComparisonOutcome(Enum):
    """What a comparison found."""

    MATCHED = "agreed"  # every written record is accounted for
    SOURCE_TRUNCATED = "cut"  # the remaining written records exist on the target only
    MISMATCH = "different"  # nothing explains the difference


class EstimateBounds(NamedTuple):
    """The bounds of an estimated, earlier resume point, used after the target lost records."""

    until_sequence: int  # of the original resume point; later ones were written after the loss
    lost_from: int  # the target has only records before this source offset
    log_start: int  # of the source


class UnmappedRange(NamedTuple):
    """Source offsets whose records are on the target at unknown offsets."""

    first: int
    end: int


class _SourceRecord(NamedTuple):
    offset: int
    body: int  # hash of key, value and headers
    timestamp: int


class Comparison:
    """Compares one partition from its resume point to the flow's last record on the target."""

    def __init__(
        self,
        producer: ProducerState,
        position: int,
        downstream: int,
        goal: int | None,
        *,
        leader_epoch: int = UNKNOWN_LEADER_EPOCH,
        estimate: EstimateBounds | None = None,
    ) -> None:
        """`goal`: the sequence after the flow's last record; None: read to the target's log end.

        `leader_epoch`: the newest known epoch before the resume point.
        """
        self.start = position
        self.position = position  # where copying continues
        self.reads_to_log_end = goal is None
        self.outcome: ComparisonOutcome | None = None
        self.matched: list[MappedRun | UnmappedRange] = []  # records after the resume point
        self.missing_on_target = 0  # source records before the last match
        self.truncation_offset: int | None = None  # of the source, if reported by its leader
        self.log_start: int | None = None  # of the source, if after the resume point
        self.gap: tuple[int, int] | None = None  # source offsets deleted before they were copied
        self.only_on_target: tuple[int, int] | None = None  # source offsets lost by the source
        until_sequence = estimate.until_sequence if estimate else None
        self._written = WrittenRecords(producer, downstream, goal, until_sequence)
        self._leader_epoch = leader_epoch
        self._estimate = estimate  # until the first match
        self._is_searching = False  # the next step needs every written record
        self._next_sequence = producer.next_sequence  # after the last match
        self._matched_end = position  # the source offset after the last match; since then:
        self._unmatched = 0  # source records
        self._first_unmatched = -1
        self._without_records = 0  # offsets of markers, aborted and skipped records
        self._source_batches: deque[OutgoingBatch] = deque()
        self._source_records: list[_SourceRecord] = []  # of the first source batch
        self._wanted_at = 0  # index into them
        self._trailing = 0  # offsets of markers and aborted records after the last source batch

    # --- state

    @property
    def end_sequence(self) -> int:
        """The sequence after the last one on the target."""
        return self._written.end_sequence

    @property
    def end_downstream(self) -> int:
        """The target offset of the flow's last record."""
        return self._written.end_downstream

    @property
    def other_writers(self) -> set[int]:
        """The ids of other producers with record batches in the compared range."""
        return self._written.other_writers

    @property
    def held_bytes(self) -> int:
        """The size of the target batches without a counterpart."""
        return self._written.held_bytes

    @property
    def waits_for_source(self) -> bool:
        """Whether a target record needs more source records to be matched."""
        return (
            not self._written.is_empty
            and not self._source_batches
            and not self._truncated_before_start
        )

    @property
    def waits_for_target(self) -> bool:
        """Whether the next step needs more target records."""
        is_needed = self._is_searching or self._truncated_before_start or self._written.is_empty
        return is_needed and not self._written.is_complete

    @property
    def first_unmatched(self) -> int:
        """The target offset of the first record without a counterpart, or -1."""
        return self._written.first_offset

    @property
    def is_source_unread(self) -> bool:
        return self._matched_end == self.start and not self._source_batches and not self._unmatched

    @property
    def _truncated_before_start(self) -> bool:
        return self.truncation_offset is not None and self.truncation_offset < self.start

    def _missing(self, offset: int) -> int:
        """Return the number of missing source offsets between the last match and this offset."""
        return offset - self._matched_end - self._unmatched - self._without_records

    # --- input

    def add_target_batch(self, batch: RecordBatch) -> None:
        self._written.add(batch)

    def on_target_end(self) -> None:
        self._written.is_complete = True

    def add_source_batch(self, out: OutgoingBatch) -> None:
        out.skipped_offsets += self._trailing
        self._trailing = 0
        self._source_batches.append(out)

    def skip_source_offsets(self, offsets: int) -> None:
        """Account for source offsets of markers and aborted records."""
        self._trailing += offsets

    def on_source_end(self, end: int) -> None:
        """Conclude: the source log ends at this offset."""
        if not self._is_target_complete():
            return
        if self._estimate is not None:
            self._conclude(ComparisonOutcome.MISMATCH, self.start)
        elif self._written.count() <= self._missing(end) - self._trailing:
            self._agree_at(end)
        elif self._unmatched:
            self._conclude(ComparisonOutcome.MISMATCH, self._first_unmatched)
        else:
            self._conclude(ComparisonOutcome.SOURCE_TRUNCATED, end)

    def conclude_unreadable(self) -> None:
        """Conclude with a mismatch: the target's records cannot be read."""
        self._conclude(
            ComparisonOutcome.MISMATCH,
            self._first_unmatched if self._unmatched else self._matched_end,
        )

    def _is_target_complete(self) -> bool:
        """Return whether every written record has been read; else start hashing them."""
        self._is_searching = not self._written.is_complete
        if self._is_searching:
            self._written.hash_all()
        return self._written.is_complete

    # --- comparing

    def step(self) -> list[OutgoingBatch]:
        """Compare the batches read so far. Returns the source batches to release."""
        done: list[OutgoingBatch] = []
        while self.outcome is None:
            if self._truncated_before_start:
                self._written.discard_records()
                if self._written.is_complete:
                    self._conclude(ComparisonOutcome.SOURCE_TRUNCATED, self.truncation_offset or 0)
                break
            if self._written.is_empty:
                if self._written.is_complete:
                    self._all_matched()
                break
            if not self._source_batches or not (
                self._step_by_batch(done) or self._step_by_record(done)
            ):
                break
        return done

    def drain(self) -> list[OutgoingBatch]:
        """End the comparison. Returns the remaining source batches to release."""
        left = [*self._source_batches]
        self._source_batches.clear()
        return left

    def _count_skipped(self, offer: OutgoingBatch) -> None:
        self._without_records += offer.skipped_offsets
        offer.skipped_offsets = 0

    def _step_by_batch(self, done: list[OutgoingBatch]) -> bool:
        """Match whole batches, the usual case: identical bytes and no missing offset."""
        offer, written = self._source_batches[0], self._written.first_batch()
        if written is None or written.skipped or self._wanted_at or self._estimate is not None:
            return False
        self._count_skipped(offer)
        first = offer.runs[0].first
        if (
            self._missing(first)
            or self._is_truncated_at(first)
            or not _same_payload(written, offer)
        ):
            return False
        target = written.base_offset
        for run in offer.runs:
            self._add_match(run.first, target, run.length)
            target += run.length
        last = offer.runs[-1]
        self._match(last.first + last.length, written.sequence, written.count)
        self._written.remove_batch()
        done.append(self._source_batches.popleft())
        self._source_records = []
        return True

    def _step_by_record(self, done: list[OutgoingBatch]) -> bool:
        """Match the next source record. Returns false if more of the target must be read first."""
        offer = self._source_batches[0]
        self._count_skipped(offer)
        self._source_records = self._source_records or _records_of(offer)
        wanted = self._source_records[self._wanted_at]
        if self._is_truncated_at(wanted.offset):
            return self._end_at_new(wanted, ComparisonOutcome.SOURCE_TRUNCATED)
        if self._estimate is not None and wanted.offset >= self._estimate.lost_from:
            self._conclude(ComparisonOutcome.MISMATCH, self.start)
            return True
        first = self._written.first()
        if first is None:
            return True  # all records of its batch are before the resume point
        missing = self._missing(wanted.offset)
        if self._estimate is None and missing <= 0:
            found = 0 if first.is_copy_of(wanted.body, wanted.timestamp) else None
        elif not self._is_target_complete():
            return False
        else:
            found = self._search(wanted, missing)
        if found is not None:
            self._match_record(wanted, missing, found)
        elif not self._skip_source_record(offer, wanted, first):
            return False
        if self.outcome is None:
            self._wanted_at += 1
            if self._wanted_at == len(self._source_records):
                self._source_records, self._wanted_at = [], 0
                done.append(self._source_batches.popleft())
        return True

    def _search(self, wanted: _SourceRecord, missing: int) -> int | None:
        if self._estimate is None:
            return self._written.find(wanted.body, wanted.timestamp, missing)
        without_holes = wanted.offset - self.start
        found = self._written.find(wanted.body, wanted.timestamp, without_holes)
        if found == without_holes:
            return found
        return self._written.find(wanted.body, wanted.timestamp, self._written.count())

    def _skip_source_record(
        self, offer: OutgoingBatch, wanted: _SourceRecord, first: WrittenRecord
    ) -> bool:
        """Skip a source record without a counterpart. Returns false to read the target first."""
        if self._estimate is not None:
            return True
        if offer.is_skippable:  # D
            self._without_records += 1
            return True
        is_removed = self._unmatched < sequence_distance(self._next_sequence, first.sequence)
        is_known = self._leader_epoch != UNKNOWN_LEADER_EPOCH
        is_new = is_known and offer.leader_epoch > self._leader_epoch
        if not is_removed and (is_new or not is_known or self._unmatched >= MAX_MISSING):
            return self._end_at_new(
                wanted, ComparisonOutcome.SOURCE_TRUNCATED if is_new else ComparisonOutcome.MISMATCH
            )
        if not self._unmatched:
            self._first_unmatched = wanted.offset
        self._unmatched += 1
        return True

    def _end_at_new(self, wanted: _SourceRecord, verdict: ComparisonOutcome) -> bool:
        """Conclude at a source record that was never copied. Returns false to read the target."""
        if not self._is_target_complete():
            return False
        position = self._first_unmatched if self._unmatched else wanted.offset
        if self._written.count() <= self._missing(wanted.offset):
            self._agree_at(position)
        else:
            self._conclude(verdict, position)
        return True

    def _is_truncated_at(self, offset: int) -> bool:
        return self.truncation_offset is not None and offset >= self.truncation_offset

    # --- results

    def _match(self, source_end: int, sequence: int, count: int) -> None:
        removed = sequence_distance(self._next_sequence, sequence)
        if self._estimate is None:
            self.missing_on_target += max(0, self._unmatched - removed)
        self._estimate = None
        self.position = self._matched_end = source_end
        self._next_sequence = (sequence + count) & SEQUENCE_MASK
        self._unmatched = self._without_records = 0

    def _match_record(self, wanted: _SourceRecord, missing: int, number: int) -> None:
        """Match written record `number`; the source has deleted the counterparts before it."""
        *before, record = self._written.remove(number + 1)
        if self._estimate is None and before:
            is_each_known = wanted.offset - self._matched_end == missing == len(before)
            if is_each_known:
                for index, one in enumerate(before):
                    self._add_match(self._matched_end + index, one.offset, 1)
            else:
                self.matched.append(UnmappedRange(self._matched_end, wanted.offset))
        self._add_match(wanted.offset, record.offset, 1)
        self._match(wanted.offset + 1, record.sequence, 1)

    def _add_match(self, source: int, target: int, length: int) -> None:
        last = self.matched[-1] if self.matched else None
        if isinstance(last, MappedRun) and (last.source_end, last.target_end) == (source, target):
            self.matched[-1] = last._replace(length=last.length + length)
        else:
            self.matched.append(MappedRun(source, target, length))

    def _all_matched(self) -> None:
        is_vague = self._estimate is not None and self.end_downstream >= 0
        if self._written.has_sequence_gap or is_vague:
            self._conclude(ComparisonOutcome.MISMATCH, self._matched_end)
        else:
            self._conclude(ComparisonOutcome.MATCHED, self._matched_end)

    def _agree_at(self, offset: int) -> None:
        """Conclude with a match: the source deleted the counterparts of all remaining records."""
        if self._unmatched:
            offset = self._first_unmatched
        if self._written.count():
            self.matched.append(UnmappedRange(self._matched_end, offset))
        if self.log_start is not None:
            first = self._matched_end + self._unmatched_sequences
            self.gap = (first, self.log_start - 1) if first < self.log_start else None
        self._conclude(ComparisonOutcome.MATCHED, offset)

    @property
    def _unmatched_sequences(self) -> int:
        """The number of sequences on the target after the last match."""
        left = sequence_distance(self._next_sequence, self.end_sequence)
        return left if left < HALF else 0

    def _conclude(self, verdict: ComparisonOutcome, position: int) -> None:
        self.outcome = verdict
        self.position = position
        if self._estimate is not None and self._estimate.lost_from < self._estimate.log_start:
            self.gap = (self._estimate.lost_from, self._estimate.log_start - 1)
        if verdict is ComparisonOutcome.SOURCE_TRUNCATED:
            self.only_on_target = (position, self._matched_end + self._unmatched_sequences - 1)


def _records_of(offer: OutgoingBatch) -> list[_SourceRecord]:
    offsets = (run.first + index for run in offer.runs for index in range(run.length))
    return [
        _SourceRecord(offset, hash(frame.body), frame.timestamp)
        for offset, frame in zip(offsets, raw_records(offer.view), strict=True)
    ]


def _same_payload(written: WrittenBatch, offer: OutgoingBatch) -> bool:
    """Return whether codec, base timestamp and record bytes are identical."""
    here, there = offer.view, written.view
    return (
        len(here) == len(there)
        and offer.count == written.count
        and here[22] & CODEC_MASK == there[22] & CODEC_MASK
        and (not written.has_create_time or here[27:35] == there[27:35])
        and here[HEADER_SIZE:] == there[HEADER_SIZE:]
    )
