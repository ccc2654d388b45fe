# SPDX-License-Identifier: Apache-2.0
"""The offset map of one topic partition in memory: exact translation, both ways.

Chunks are added in the order of their log. Of each chunk it keeps three numbers and its log offset;
the chunk itself is loaded when a translation needs it.

Invariants, after every chunk:
    A  first source offsets ascend, without duplicates
    B  first target offsets ascend with them; equal ones only after a chunk without records
    C  an offset, on either side, belongs to the last chunk that starts at or before it
    D  what a chunk contains from the start of the next one on, on either side, is ignored

C and D make overlapping chunks harmless: a task that died wrote further than its successor starts.
A new chunk that starts before others (on either side) means that copying went back, or that a topic
was recreated: those others are removed, which restores A and B.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from sparkmirror.formats.map_chunk import MapChunk, MappedRun

Load = Callable[[int, int], MapChunk]  # loads a chunk by its first offset and its log offset


_NONE = -1


class Fit(Enum):
    """How precise a translation is."""

    EXACT = "exact"  # the same record; if it was not mirrored, the next one that was
    BEFORE = "before"  # older than the map: the map's first target offset
    AFTER = "after"  # not mirrored yet: the earliest possible target offset
    AGAIN = "again"  # being copied again: the position among the earlier copies is not known
    NEAR = "near"  # in a hole of the map: at or before the true position, never after it


class Translation(NamedTuple):
    """An offset on the other cluster."""

    offset: int
    fit: Fit


class OffsetMap:
    """Chunks of one topic partition, sorted on both sides (invariants A and B)."""

    __slots__ = ("_firsts", "_log_offsets", "_records", "_targets")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._targets = array("q")
        self._log_offsets = array("q")
        self._records = array("q")  # first record of each chunk, _NONE if its content is ignored

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def firsts(self) -> list[int]:
        """The source offsets at which chunks start."""
        return [*self._firsts]

    @property
    def is_empty(self) -> bool:
        """Whether it contains no mirrored record."""
        return all(record == _NONE for record in self._records)

    def add_chunk(
        self, first: int, target_first: int, log_offset: int, record: int | None
    ) -> list[int]:
        """Add a chunk with its first record's offset. Returns the firsts of chunks it replaces."""
        at = bisect_left(self._firsts, first)
        is_known = at < len(self._firsts) and self._firsts[at] == first
        gone = [*self._firsts[at + is_known :]]
        self._cut(at)
        while at and self._contradicts(at - 1, first, target_first):
            at -= 1
            gone.append(self._firsts[at])
        self._cut(at)
        if at and self._targets[-1] == target_first:
            self._records[-1] = _NONE  # it has the same records, and the new chunk also has a gap
        self._firsts.append(first)
        self._targets.append(target_first)
        self._log_offsets.append(log_offset)
        self._records.append(_NONE if record is None else record)
        return gone

    def _contradicts(self, at: int, first: int, target_first: int) -> bool:
        """Whether a chunk has records where the new one has none, or others."""
        theirs = self._targets[at]
        return theirs > target_first or (
            theirs == target_first and self._records[at] != _NONE and self._records[at] < first
        )

    def _cut(self, at: int) -> None:
        for column in (self._firsts, self._targets, self._log_offsets, self._records):
            del column[at:]

    def remove_chunk(self, first: int) -> None:
        at = bisect_left(self._firsts, first)
        if at < len(self._firsts) and self._firsts[at] == first:
            for column in (self._firsts, self._targets, self._log_offsets, self._records):
                del column[at]

    def chunks_before(self, log_start: int) -> list[int]:
        """Return the chunks that cover only offsets before the source's first one."""
        last = bisect_right(self._firsts, log_start) - 1
        return [*self._firsts[: max(last, 0)]]

    def oldest_beyond(self, max_chunks: int) -> list[int]:
        """Return the oldest chunks above the maximum."""
        return [*self._firsts[: max(len(self._firsts) - max_chunks, 0)]]

    def bounds(self, load: Load) -> tuple[int, int, int, int]:
        """Return start and end on the source, then on the target."""
        last = self._chunk(len(self._firsts) - 1, load)
        return self._firsts[0], last.covered, self._targets[0], last.target_end

    # --- translation

    def to_target(self, offset: int, load: Load) -> Translation | None:
        """Translate a source offset; None if nothing was mirrored."""
        if self.is_empty:
            return None
        at = bisect_right(self._firsts, offset) - 1
        if at < 0:
            first = self._next_record(0, load)
            return Translation(self._targets[0] if first is None else first.target, Fit.BEFORE)
        chunk = self._chunk(at, load)
        started = bisect_right(chunk.runs, offset, key=attrgetter("source"))
        for run in chunk.runs[max(started - 1, 0) :]:
            if run.source_end > offset:
                return self._bounded(at, max(offset, run.source), run, load)
        return self._behind(at, chunk, offset, load)

    def hole(self, offset: int, load: Load) -> tuple[int, int]:
        """Return the source start and the target end of the hole around an offset."""
        at = bisect_right(self._firsts, offset) - 1
        return self._chunk(at, load).covered, self._targets[at + 1]

    def _bounded(self, at: int, offset: int, run: MappedRun, load: Load) -> Translation:
        """Translate to a record of a chunk, unless the next chunk applies (invariant D)."""
        target = run.target + offset - run.source
        if at + 1 < len(self._firsts) and (
            offset >= self._firsts[at + 1] or target >= self._targets[at + 1]
        ):
            return self._first_from(at + 1, load)
        return Translation(target, Fit.EXACT)

    def _behind(self, at: int, chunk: MapChunk, offset: int, load: Load) -> Translation:
        """Translate an offset after the last record of a chunk."""
        is_last = at + 1 == len(self._firsts)
        if is_last:
            fit = Fit.EXACT if offset <= chunk.covered else Fit.AFTER
            return Translation(chunk.target_end, fit)
        if chunk.covered < self._firsts[at + 1]:  # a hole: what follows is unknown
            return Translation(chunk.target_end, Fit.NEAR)
        return self._first_from(at + 1, load)

    def _first_from(self, at: int, load: Load) -> Translation:
        """Return the first record of a chunk or of a later one, or the next target offset."""
        first = self._next_record(at, load)
        if first is not None:
            return Translation(first.target, Fit.EXACT)
        return Translation(self._targets[-1], Fit.EXACT)

    def _next_record(self, at: int, load: Load) -> MappedRun | None:
        while at < len(self._firsts):
            if self._records[at] != _NONE:
                return self._chunk(at, load).runs[0]
            at += 1
        return None

    def _chunk(self, at: int, load: Load) -> MapChunk:
        return load(self._firsts[at], self._log_offsets[at])

    def to_source(self, offset: int, load: Load) -> Translation | None:
        """Translate a target offset back; None if nothing was mirrored."""
        if self.is_empty:
            return None
        at = bisect_right(self._targets, offset) - 1
        if at < 0:
            return Translation(self._firsts[0], Fit.BEFORE)
        chunk = self._chunk(at, load)
        limit = self._firsts[at + 1] if at + 1 < len(self._firsts) else None
        started = bisect_right(chunk.runs, offset, key=attrgetter("target"))
        for run in chunk.runs[max(started - 1, 0) :]:
            if run.target_end > offset:
                source = run.source + max(offset - run.target, 0)
                if limit is not None and source >= limit:
                    break  # the next chunk applies (invariant D)
                is_before_first = offset < chunk.runs[0].target
                return (
                    self._hole_before(at, chunk, load)
                    if is_before_first
                    else Translation(source, Fit.EXACT)
                )
        return self._source_behind(at, chunk, offset, load)

    def run_end(self, offset: int, load: Load, *, on_target: bool) -> int | None:
        """Return the end of the run that contains an offset of one side; None: no run does."""
        firsts = self._targets if on_target else self._firsts
        at = bisect_right(firsts, offset) - 1
        if at < 0:
            return None
        side = attrgetter("target" if on_target else "source")
        runs = self._chunk(at, load).runs
        started = bisect_right(runs, offset, key=side) - 1
        if started < 0:
            return None
        run = runs[started]
        length = run.length
        if at + 1 < len(self._firsts):  # invariant D
            length = min(
                length, self._firsts[at + 1] - run.source, self._targets[at + 1] - run.target
            )
        end: int = side(run) + length
        return end if offset < end else None

    def last_source_before(self, offset: int, load: Load) -> int | None:
        """Return the source offset of the last record before a target offset; None: there is none.

        A record in a hole of the map counts as not there.
        """
        at = bisect_left(self._targets, offset) - 1
        while at >= 0:
            if self._records[at] != _NONE:
                end, next_first = offset, None
                if at + 1 < len(self._firsts):  # invariant D
                    end, next_first = min(end, self._targets[at + 1]), self._firsts[at + 1]
                for run in reversed(self._chunk(at, load).runs):
                    length = min(run.length, end - run.target)
                    if next_first is not None:
                        length = min(length, next_first - run.source)
                    if length > 0:
                        return run.source + length - 1
            at -= 1
        return None

    def _hole_before(self, at: int, chunk: MapChunk, load: Load) -> Translation:
        """Translate an offset before the first record of a chunk: a hole may precede it."""
        if at:
            covered = self._chunk(at - 1, load).covered
            if covered < chunk.first:
                return Translation(covered, Fit.NEAR)
        return Translation(chunk.runs[0].source, Fit.EXACT)

    def _source_behind(self, at: int, chunk: MapChunk, offset: int, load: Load) -> Translation:
        if at + 1 == len(self._firsts):
            fit = Fit.EXACT if offset <= chunk.target_covered else Fit.AFTER
            return Translation(chunk.covered, fit)
        if chunk.covered < self._firsts[at + 1]:
            return Translation(chunk.covered, Fit.NEAR)
        first = self._next_record(at + 1, load)
        return Translation(self._firsts[-1] if first is None else first.source, Fit.EXACT)
