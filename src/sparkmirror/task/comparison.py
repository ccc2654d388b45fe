# SPDX-License-Identifier: Apache-2.0
"""Find where a copy stands: read both sides forward from a stored pair and align their records.

What this flow wrote after the pair (`written_records.py`) was the source's next records when it
was written. Since then the source may have deleted records (retention, compaction), or lost its
tail and grown again, and the target may have been compacted. Records are aligned in order:

    A  a written record without a counterpart needs an offset that is missing on the source
    B  a source record without a counterpart was removed by the target's compaction (its sequence
       is missing there), or was refused by the target, or is new
    C  a log is cut only where a newer leader epoch begins: a source record of a newer epoch
       without a counterpart is new, and so is everything after it; without a known epoch any
       record without a counterpart may be new

The search runs over the written records, which are bounded; of the source no more is read than
they can explain. Pure: fed with what was read on either side, in any interleaving.
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

    MATCHED = "agreed"  # all that was written is accounted for
    SOURCE_TRUNCATED = (
        "cut"  # the source lost its tail: the rest of what was written is on the target only
    )
    MISMATCH = "different"  # nothing explains the difference


class EstimateBounds(NamedTuple):
    """A pair that was moved back by a guess, because the target lost records."""

    until_sequence: int  # of the pair before: what has a later one was written after the loss
    lost_from: int  # what the target still has comes before this source offset
    log_start: int  # of the source


class UnmappedRange(NamedTuple):
    """Source offsets whose records are on the target, at offsets that are not known."""

    first: int
    end: int


class _SourceRecord(NamedTuple):
    """One source record."""

    offset: int
    body: int
    timestamp: int


class Comparison:
    """One topic partition, from a stored pair to the last record of ours on the target."""

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
        """`goal`: the sequence after our last record; None: the target's end decides.

        `leader_epoch`: the newest one that is known to be before the pair.
        """
        self.start = position
        self.position = position  # where the copy goes on
        self.reads_to_log_end = goal is None
        self.outcome: ComparisonOutcome | None = None
        self.matched: list[MappedRun | UnmappedRange] = []  # where records since the pair are
        self.missing_on_target = 0  # source records before the last match that the target lacks
        self.truncation_offset: int | None = None  # where the source was cut, if its leader said so
        self.log_start: int | None = None  # the source's first offset, if the pair lies before it
        self.gap: tuple[int, int] | None = None  # offsets that were deleted before they were copied
        self.only_on_target: tuple[int, int] | None = (
            None  # offsets whose records are on the target only
        )
        until_sequence = estimate.until_sequence if estimate else None
        self._written = WrittenRecords(producer, downstream, goal, until_sequence)
        self._leader_epoch = leader_epoch
        self._estimate = estimate  # until the first match
        self._is_searching = False  # the next step needs all that was written
        self._next_sequence = producer.next_sequence  # after the last match
        self._matched_end = position  # the source offset after the last match; since then:
        self._unmatched = 0  # source records
        self._first_unmatched = -1
        self._without_records = 0  # offsets of markers and aborted records
        self._source_batches: deque[OutgoingBatch] = deque()
        self._source_records: list[_SourceRecord] = []  # the records of the first offer
        self._wanted_at = 0
        self._trailing = 0  # offsets of markers and aborted records after the last offer

    # --- what is known

    @property
    def end_sequence(self) -> int:
        """The sequence after the last one that the target has."""
        return self._written.end_sequence

    @property
    def end_downstream(self) -> int:
        """The target offset of the last record of ours."""
        return self._written.end_downstream

    @property
    def other_writers(self) -> set[int]:
        """Whose record batches lie between ours."""
        return self._written.other_writers

    @property
    def held_bytes(self) -> int:
        """How many bytes of the target's log wait for their counterpart."""
        return self._written.held_bytes

    @property
    def waits_for_source(self) -> bool:
        """Something is on the target that has not been found on the source yet."""
        return (
            not self._written.is_empty
            and not self._source_batches
            and not self._truncated_before_start
        )

    @property
    def waits_for_target(self) -> bool:
        """Nothing can be decided before more of the target has been read."""
        is_needed = self._is_searching or self._truncated_before_start or self._written.is_empty
        return is_needed and not self._written.is_complete

    @property
    def first_unmatched(self) -> int:
        """The target offset of the first record without a counterpart; -1: there is none."""
        return self._written.first_offset

    @property
    def is_source_unread(self) -> bool:
        """Nothing has been read of the source yet."""
        return self._matched_end == self.start and not self._source_batches and not self._unmatched

    @property
    def _truncated_before_start(self) -> bool:
        return self.truncation_offset is not None and self.truncation_offset < self.start

    def _missing(self, offset: int) -> int:
        """How many offsets before this one the source has lost since the last match."""
        return offset - self._matched_end - self._unmatched - self._without_records

    # --- what was read

    def add_target_batch(self, batch: RecordBatch) -> None:
        """The next record batch of the target's log."""
        self._written.add(batch)

    def on_target_end(self) -> None:
        """The target has been read to its end."""
        self._written.is_complete = True

    def add_source_batch(self, out: OutgoingBatch) -> None:
        """The next record batch that the source has for the target."""
        out.skipped_offsets += self._trailing
        self._trailing = 0
        self._source_batches.append(out)

    def skip_source_offsets(self, offsets: int) -> None:
        """So many offsets of the source hold nothing for the target."""
        self._trailing += offsets

    def on_source_end(self, end: int) -> None:
        """The source has nothing more, and ends at this offset."""
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
        """What the target says it has cannot be read."""
        self._conclude(
            ComparisonOutcome.MISMATCH,
            self._first_unmatched if self._unmatched else self._matched_end,
        )

    def _is_target_complete(self) -> bool:
        """Whether all that was written has been read; it is needed now."""
        self._is_searching = not self._written.is_complete
        if self._is_searching:
            self._written.hash_all()
        return self._written.is_complete

    # --- comparing

    def step(self) -> list[OutgoingBatch]:
        """Compare as far as both sides have been read; returns what is done with."""
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
        """End here; returns what is left of the source's side."""
        left = [*self._source_batches]
        self._source_batches.clear()
        return left

    def _count_skipped(self, offer: OutgoingBatch) -> None:
        self._without_records += offer.skipped_offsets
        offer.skipped_offsets = 0

    def _step_by_batch(self, done: list[OutgoingBatch]) -> bool:
        """The usual case: the same bytes on both sides, and no offset missing."""
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
        """The next source record; false if more of the target must be read first."""
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
            return True  # nothing of its batch lies behind the pair
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
        """A source record that the target does not have; false if it must be read first."""
        if self._estimate is not None:
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
        """This source record is not on the target; false if the target must be read first."""
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
        """The records before it are without a counterpart: the source has deleted its own."""
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
        """The source deleted all that is left: the copy goes on at the next one it has."""
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
        """How many sequences on the target are without a counterpart."""
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
    """The same bytes: records, codec, and the times they are relative to."""
    here, there = offer.view, written.view
    return (
        len(here) == len(there)
        and offer.count == written.count
        and here[22] & CODEC_MASK == there[22] & CODEC_MASK
        and (not written.has_create_time or here[27:35] == there[27:35])
        and here[HEADER_SIZE:] == there[HEADER_SIZE:]
    )
