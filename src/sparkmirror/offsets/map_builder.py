# SPDX-License-Identifier: Apache-2.0
"""The offset map of one topic partition while it grows, as a task writes it.

Runs are merged while both sides go on without a gap. The newest chunk stays open, and is written
again with everything that has been added since; a full one is closed and written a last time.
Where a task goes back, on either side, it begins another chunk: readers let it replace whatever
an earlier one said from there on.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkmirror.formats.map_chunk import MapChunk, MappedRun

RUNS_A_CHUNK = 128  # some 400 bytes: what is written again every few seconds stays small


class MapSavepoint(NamedTuple):
    """How far a map had come."""

    first: int
    target_first: int
    runs: list[MappedRun]


class MapBuilder:
    """Where a task's part of the map stands."""

    __slots__ = ("_closed", "_first", "_runs", "_target_first")

    def __init__(self, first: int, target_first: int) -> None:
        self._closed: list[MapChunk] = []
        self._first = first
        self._target_first = target_first
        self._runs: list[MappedRun] = []

    @classmethod
    def resume(cls, chunk: MapChunk) -> MapBuilder:
        """Go on with the chunk that a predecessor left open."""
        builder = cls(chunk.first, chunk.target_first)
        builder._runs = [*chunk.runs]
        return builder

    def add(self, source: int, target: int, length: int) -> None:
        """So many records were copied."""
        last = self._runs[-1] if self._runs else None
        source_end = last.source_end if last else self._first
        target_end = last.target_end if last else self._target_first
        if source < source_end or target < target_end:
            self.start_chunk(source, target)
        elif last is not None and source == source_end and target == target_end:
            self._runs[-1] = MappedRun(last.source, last.target, last.length + length)
            return
        elif len(self._runs) == RUNS_A_CHUNK:
            self.start_chunk(source, target)
        self._runs.append(MappedRun(source, target, length))

    def start_chunk(self, source: int, target: int) -> None:
        """Close the chunk, which speaks of what lies before these offsets, and open another."""
        if self._runs and self._first < source:
            self._closed.append(self.open_chunk(source, target))
        self._first, self._target_first = source, target
        self._runs = []

    def leave_hole(self, source: int, next_source: int) -> None:
        """Nobody knows where these offsets lie on the target: leave a hole, and say so by it."""
        end = self._runs[-1].target_end if self._runs else self._target_first
        if source > self._first:
            self._closed.append(self.open_chunk(source, end))
        self._first, self._target_first = next_source, end
        self._runs = []

    def open_chunk(self, covered: int, target_covered: int) -> MapChunk:
        """The newest chunk; all before these offsets is done with on either side."""
        source = self._runs[-1].source_end if self._runs else self._first
        target = self._runs[-1].target_end if self._runs else self._target_first
        return MapChunk(
            self._first,
            self._target_first,
            max(covered, source),
            max(target_covered, target),
            tuple(self._runs),
        )

    def drain(self, covered: int, target_covered: int) -> list[MapChunk]:
        """What is to be written, oldest first."""
        closed, self._closed = self._closed, []
        return [*closed, self.open_chunk(covered, target_covered)]

    def savepoint(self) -> MapSavepoint:
        """Remember how far it has come; everything so far has been taken."""
        return MapSavepoint(self._first, self._target_first, self._runs.copy())

    def rollback(self, mark: MapSavepoint) -> None:
        """Forget what came after the mark."""
        self._closed.clear()
        self._first, self._target_first = mark.first, mark.target_first
        self._runs = mark.runs.copy()
