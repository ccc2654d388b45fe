# SPDX-License-Identifier: Apache-2.0
"""The offset map of one topic partition, as a reader keeps it: exact translation, both ways.

Fed with chunks in the order of their topic's log. Of each it keeps three numbers and the place in
that log; the chunk itself is asked for when a translation needs it.

Invariants, after every chunk:
    A  first source offsets ascend, and no two are the same
    B  first target offsets ascend with them; equal ones only behind a chunk without records
    C  an offset, of either side, belongs to the last chunk that begins at or before it
    D  what a chunk says from the beginning of the next one on, on either side, counts for nothing

C and D make chunks that overlap harmless: a task that died wrote further than its successor
begins. A new chunk that begins before others (on either side) says that the copy went back, or
that a topic was made anew: those others are gone, which restores A and B.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from sparkmirror.formats.map_chunk import MapChunk, MappedRun

Load = Callable[[int, int], MapChunk]  # a chunk, from its first offset and its place


_NONE = -1


class Fit(Enum):
    """How good a translation is."""

    EXACT = "exact"  # the same record; where there is none, the next one that was mirrored
    BEFORE = "before"  # older than the map: the map's first target offset
    AFTER = "after"  # not mirrored yet: where the next record will come, at the earliest
    NEAR = "near"  # in a hole of the map: at or before the true position, never behind it


class Translation(NamedTuple):
    """An offset on the other side."""

    offset: int
    fit: Fit


class OffsetMap:
    """Chunks of one topic partition, in both orders at once (invariants A and B)."""

    __slots__ = ("_firsts", "_places", "_records", "_targets")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._targets = array("q")
        self._places = array("q")
        self._records = array("q")  # the first record of each, _NONE if nothing it says counts

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def firsts(self) -> list[int]:
        """Where its chunks begin on the source."""
        return [*self._firsts]

    @property
    def is_empty(self) -> bool:
        """Whether it knows of no mirrored record."""
        return all(record == _NONE for record in self._records)

    def add_chunk(self, first: int, target_first: int, place: int, record: int | None) -> list[int]:
        """Take a chunk in, with its first record's offset; the firsts of those it makes invalid."""
        at = bisect_left(self._firsts, first)
        is_known = at < len(self._firsts) and self._firsts[at] == first
        gone = [*self._firsts[at + is_known :]]
        self._cut(at)
        while at and self._contradicts(at - 1, first, target_first):
            at -= 1
            gone.append(self._firsts[at])
        self._cut(at)
        if at and self._targets[-1] == target_first:
            self._records[-1] = _NONE  # of records it says the same; but it also knows of a gap
        self._firsts.append(first)
        self._targets.append(target_first)
        self._places.append(place)
        self._records.append(_NONE if record is None else record)
        return gone

    def _contradicts(self, at: int, first: int, target_first: int) -> bool:
        """Whether it has records where the new chunk says that there are none, or others."""
        theirs = self._targets[at]
        return theirs > target_first or (
            theirs == target_first and self._records[at] != _NONE and self._records[at] < first
        )

    def _cut(self, at: int) -> None:
        for column in (self._firsts, self._targets, self._places, self._records):
            del column[at:]

    def remove_chunk(self, first: int) -> None:
        """A chunk was deleted."""
        at = bisect_left(self._firsts, first)
        if at < len(self._firsts) and self._firsts[at] == first:
            for column in (self._firsts, self._targets, self._places, self._records):
                del column[at]

    def chunks_before(self, log_start: int) -> list[int]:
        """The chunks that speak only of offsets before the source's first one."""
        last = bisect_right(self._firsts, log_start) - 1
        return [*self._firsts[: max(last, 0)]]

    def oldest_beyond(self, most: int) -> list[int]:
        """The oldest chunks, as many as there are above so many."""
        return [*self._firsts[: max(len(self._firsts) - most, 0)]]

    def bounds(self, load: Load) -> tuple[int, int, int, int]:
        """Where it begins and ends on the source, and where on the target."""
        last = self._chunk(len(self._firsts) - 1, load)
        return self._firsts[0], last.covered, self._targets[0], last.target_end

    # --- translation

    def to_target(self, offset: int, load: Load) -> Translation | None:
        """Where a position on the source lies on the target; None: nothing was mirrored."""
        if self.is_empty:
            return None
        at = bisect_right(self._firsts, offset) - 1
        if at < 0:
            first = self._next_record(0, load)
            return Translation(self._targets[0] if first is None else first.target, Fit.BEFORE)
        chunk = self._chunk(at, load)
        begun = bisect_right(chunk.runs, offset, key=attrgetter("source"))
        for run in chunk.runs[max(begun - 1, 0) :]:
            if run.source_end > offset:
                return self._bounded(at, max(offset, run.source), run, load)
        return self._behind(at, chunk, offset, load)

    def hole(self, offset: int, load: Load) -> tuple[int, int]:
        """Where the hole that an offset lies in begins on the source, and ends on the target."""
        at = bisect_right(self._firsts, offset) - 1
        return self._chunk(at, load).covered, self._targets[at + 1]

    def _bounded(self, at: int, offset: int, run: MappedRun, load: Load) -> Translation:
        """A record of a chunk, unless the next chunk knows better (invariant D)."""
        target = run.target + offset - run.source
        if at + 1 < len(self._firsts) and (
            offset >= self._firsts[at + 1] or target >= self._targets[at + 1]
        ):
            return self._first_from(at + 1, load)
        return Translation(target, Fit.EXACT)

    def _behind(self, at: int, chunk: MapChunk, offset: int, load: Load) -> Translation:
        """Behind the last record of a chunk."""
        is_last = at + 1 == len(self._firsts)
        if is_last:
            fit = Fit.EXACT if offset <= chunk.covered else Fit.AFTER
            return Translation(chunk.target_end, fit)
        if chunk.covered < self._firsts[at + 1]:  # nobody knows what comes next
            return Translation(chunk.target_end, Fit.NEAR)
        return self._first_from(at + 1, load)

    def _first_from(self, at: int, load: Load) -> Translation:
        """The first record of a chunk or of one after it, or where the next one will come."""
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
        return load(self._firsts[at], self._places[at])

    def to_source(self, offset: int, load: Load) -> Translation | None:
        """Where a position on the target lies on the source; None: nothing was mirrored."""
        if self.is_empty:
            return None
        at = bisect_right(self._targets, offset) - 1
        if at < 0:
            return Translation(self._firsts[0], Fit.BEFORE)
        chunk = self._chunk(at, load)
        limit = self._firsts[at + 1] if at + 1 < len(self._firsts) else None
        begun = bisect_right(chunk.runs, offset, key=attrgetter("target"))
        for run in chunk.runs[max(begun - 1, 0) :]:
            if run.target_end > offset:
                source = run.source + max(offset - run.target, 0)
                if limit is not None and source >= limit:
                    break  # the next chunk knows better (invariant D)
                is_before_first = offset < chunk.runs[0].target
                return (
                    self._hole_before(at, chunk, load)
                    if is_before_first
                    else Translation(source, Fit.EXACT)
                )
        return self._source_behind(at, chunk, offset, load)

    def _hole_before(self, at: int, chunk: MapChunk, load: Load) -> Translation:
        """Before the first record of a chunk: the chunk before may end earlier than this begins."""
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
