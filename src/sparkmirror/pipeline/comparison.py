# SPDX-License-Identifier: Apache-2.0
"""Where a copy stands, found by looking: both sides read forward from a stored pair.

What this flow wrote after the pair is recognised on the target by the flow's producer id; it must
be the source's next records, in order, perhaps cut into other record batches. The copy goes on
after the last match. Pure: fed with what was read on either side, in any interleaving.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.model import ProducerState
from sparkmirror.wire.outgoing import Outgoing
from sparkmirror.wire.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    SEQUENCE_MASK,
    RecordBatch,
)
from sparkmirror.wire.records import Frame, frames

_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43
_HALF = 1 << 30  # sequences wrap: what seems further ahead than this lies behind


@dataclass(frozen=True, slots=True)
class _Written:
    """A record batch on the target that carries the flow's producer id."""

    view: memoryview
    base_offset: int
    sequence: int
    count: int
    keeps_timestamps: bool
    is_emptied: bool  # by the cleaner, which leaves the last one of a producer to tell its sequence


class Comparison:
    """One topic partition, from a stored pair to the last record of ours on the target."""

    def __init__(
        self, producer: ProducerState, position: int, downstream: int, goal: int | None
    ) -> None:
        self._producer = producer
        self._goal = goal  # the sequence after our last record; None: read to the target's end
        self.position = position  # the source offset after the last match
        self.downstream = downstream  # the target offset of the last match
        self.next_sequence = producer.next_sequence
        # What the target ends with, whether or not the source has it.
        self.end_sequence = producer.next_sequence if goal is None else goal
        self.end_downstream = downstream
        self.other_writers: set[int] = set()
        self.matched: list[MappedRun] = []  # what both sides have, since the pair
        self.passed_over = 0  # source records before the last match that the target lacks
        self._written: deque[_Written] = deque()
        self._wanted: deque[Outgoing] = deque()
        self._written_frames: list[Frame] = []
        self._wanted_frames: list[Frame] = []
        self._written_at = 0  # how many records of each head have been compared
        self._wanted_at = 0
        self._passing = 0

    @property
    def is_complete(self) -> bool:
        """All that was written is accounted for."""
        return self._goal is not None and distance(self._goal, self.next_sequence) < _HALF

    @property
    def held_bytes(self) -> int:
        """How much of the target's log waits for its counterpart."""
        return sum(len(one.view) for one in self._written)

    @property
    def has_no_goal(self) -> bool:
        """The broker did not say which sequence came last: the target's end decides."""
        return self._goal is None

    @property
    def waits_for_source(self) -> bool:
        """Something is on the target that has not been found on the source yet."""
        return bool(self._written) and not self._wanted

    @property
    def first_unmatched(self) -> int:
        """The target offset of the first record batch without a counterpart; -1: there is none."""
        return self._written[0].base_offset if self._written else -1

    @property
    def waits_for_target(self) -> bool:
        """Everything seen on the target has been found on the source."""
        return not self._written

    def see_target(self, batch: RecordBatch) -> None:
        """The next record batch of the target's log; its bytes are kept only if it is ours."""
        producer_id, producer_epoch, sequence = _PRODUCER.unpack_from(batch.view, _PRODUCER_AT)
        ours = self._producer
        if producer_id != ours.producer_id or producer_epoch != ours.producer_epoch:
            if not batch.is_control:
                self.other_writers.add(producer_id)
            return
        if distance(self.next_sequence, sequence) >= _HALF:
            return  # from before the pair
        self.end_downstream = batch.next_offset - 1
        if self._goal is None:
            self.end_sequence = (sequence + batch.last_offset_delta + 1) & SEQUENCE_MASK
        self._written.append(
            _Written(
                memoryview(bytes(batch.view)),
                batch.base_offset,
                sequence,
                batch.last_offset_delta + 1,
                keeps_timestamps=not batch.attributes & LOG_APPEND_TIME,
                is_emptied=not batch.count,
            )
        )

    def see_source(self, out: Outgoing) -> None:
        """The next record batch that the source has for the target."""
        self._wanted.append(out)

    def step(self) -> list[Outgoing]:
        """Compare as far as both sides have been read; returns what is done with."""
        done: list[Outgoing] = []
        self._pass_emptied()
        while self._written and self._wanted:
            written, wanted = self._written[0], self._wanted[0]
            if not self._written_at and not self._wanted_at and _same_payload(written, wanted):
                self._match(written, written.count, _source_offset(wanted, wanted.count - 1) + 1)
                target = written.base_offset
                for run in wanted.runs:
                    self._note(run.first, target, run.length)
                    target += run.length
                self._written.popleft()
                done.append(self._wanted.popleft())
            else:
                done += self._step_by_record(written, wanted)
            self._pass_emptied()
        return done

    def _pass_emptied(self) -> None:
        """Nothing to compare: its records are copied again if the source still has them."""
        while self._written and self._written[0].is_emptied:
            written = self._written.popleft()
            self.downstream = written.base_offset + written.count - 1
            self.next_sequence = (written.sequence + written.count) & SEQUENCE_MASK

    def leave(self) -> list[Outgoing]:
        """End here; returns what is left of the source's side."""
        left = [*self._wanted]
        self._wanted.clear()
        self._written.clear()
        return left

    def _step_by_record(self, written: _Written, wanted: Outgoing) -> list[Outgoing]:
        self._written_frames = self._written_frames or [*frames(written.view)]
        self._wanted_frames = self._wanted_frames or [*frames(wanted.view)]
        there = self._written_frames[self._written_at]
        for index in range(self._wanted_at, len(self._wanted_frames)):
            here = self._wanted_frames[index]
            if there.body == here.body and (
                there.timestamp == here.timestamp or not written.keeps_timestamps
            ):
                self._passing += index - self._wanted_at
                self._wanted_at = index + 1
                self._written_at += 1
                # Offsets count from the batch's beginning; a compacted one has fewer records
                # left than it had sequences.
                source = _source_offset(wanted, index)
                self._match(written, there.offset + 1, source + 1)
                self._note(source, written.base_offset + there.offset, 1)
                break
        else:
            self._passing += len(self._wanted_frames) - self._wanted_at
            self._wanted_at = len(self._wanted_frames)
        if self._written_at == len(self._written_frames):
            self._match(written, written.count, self.position)
            self._written.popleft()
            self._written_frames, self._written_at = [], 0
        if self._wanted_at == len(self._wanted_frames):
            self._wanted_frames, self._wanted_at = [], 0
            return [self._wanted.popleft()]
        return []

    def _note(self, source: int, target: int, length: int) -> None:
        last = self.matched[-1] if self.matched else None
        if last is not None and (last.source_end, last.target_end) == (source, target):
            self.matched[-1] = last._replace(length=last.length + length)
        else:
            self.matched.append(MappedRun(source, target, length))

    def _match(self, written: _Written, records: int, position: int) -> None:
        self.position = position
        self.downstream = written.base_offset + records - 1
        self.next_sequence = (written.sequence + records) & SEQUENCE_MASK
        self.passed_over += self._passing
        self._passing = 0


def distance(earlier: int, later: int) -> int:
    """How many sequences lie between; close to 2^31 if `later` is in fact the earlier one."""
    return (later - earlier) & SEQUENCE_MASK


def is_behind(sequence: int, other: int) -> bool:
    """Whether a sequence lies before another one, across the wrap."""
    return distance(sequence, other) < _HALF and sequence != other


def _same_payload(written: _Written, wanted: Outgoing) -> bool:
    """The same bytes: records, codec, and the times they are relative to."""
    here, there = wanted.view, written.view
    return (
        len(here) == len(there)
        and wanted.count == written.count
        and here[22] & CODEC_MASK == there[22] & CODEC_MASK
        and (not written.keeps_timestamps or here[27:35] == there[27:35])
        and here[HEADER_SIZE:] == there[HEADER_SIZE:]
    )


def _source_offset(out: Outgoing, index: int) -> int:
    """The source offset of a record, counted within its record batch."""
    for run in out.runs:
        if index < run.length:
            return run.first + index
        index -= run.length
    message = f"a record batch of {out.count} records has no record {index}"
    raise IndexError(message)
