# SPDX-License-Identifier: Apache-2.0
"""The growing offset map of one topic partition, as a task writes it.

Runs are merged while both offsets are contiguous. The newest chunk stays open and is rewritten with
everything added since; a full one is closed and written a last time. If a task goes back on either
side, it starts another chunk, which replaces what earlier chunks contain from there on.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkmirror.formats.map_chunk import MapChunk, MappedRun

RUNS_PER_CHUNK = 128  # about 400 bytes: what is rewritten every few seconds stays small


class MapSavepoint(NamedTuple):
    """A state to roll back to."""

    first: int
    target_first: int
    runs: list[MappedRun]


class MapBuilder:
    """A task's part of the map."""

    __slots__ = ("_closed", "_first", "_runs", "_target_first")

    def __init__(self, first: int, target_first: int) -> None:
        self._closed: list[MapChunk] = []
        self._first = first
        self._target_first = target_first
        self._runs: list[MappedRun] = []

    @classmethod
    def resume(cls, chunk: MapChunk) -> MapBuilder:
        """Continue the chunk that a predecessor left open."""
        builder = cls(chunk.first, chunk.target_first)
        builder._runs = [*chunk.runs]
        return builder

    def add(self, source: int, target: int, length: int) -> None:
        """Add copied records."""
        last = self._runs[-1] if self._runs else None
        source_end = last.source_end if last else self._first
        target_end = last.target_end if last else self._target_first
        if source < source_end or target < target_end:
            self.start_chunk(source, target)
        elif last is not None and source == source_end and target == target_end:
            self._runs[-1] = MappedRun(last.source, last.target, last.length + length)
            return
        elif len(self._runs) == RUNS_PER_CHUNK:
            self.start_chunk(source, target)
        self._runs.append(MappedRun(source, target, length))

    def start_chunk(self, source: int, target: int) -> None:
        """Close the chunk, which covers everything before these offsets, and open another."""
        if self._runs and self._first < source:
            self._closed.append(self.open_chunk(source, target))
        self._first, self._target_first = source, target
        self._runs = []

    def leave_hole(self, source: int, next_source: int) -> None:
        """Leave a hole: the target offsets of these records are unknown.

        An offset before the hole replays some records; one after it would skip them.
        """
        end = self._runs[-1].target_end if self._runs else self._target_first
        if source > self._first:
            self._closed.append(self.open_chunk(source, end))
        self._first, self._target_first = next_source, end
        self._runs = []

    def open_chunk(self, covered: int, target_covered: int) -> MapChunk:
        """Return the newest chunk; it covers everything before these offsets on either side."""
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
        """Return the chunks to write, oldest first."""
        closed, self._closed = self._closed, []
        return [*closed, self.open_chunk(covered, target_covered)]

    def savepoint(self) -> MapSavepoint:
        """Return the current state; all chunks must have been drained."""
        return MapSavepoint(self._first, self._target_first, self._runs.copy())

    def rollback(self, mark: MapSavepoint) -> None:
        """Drop what was added after the savepoint."""
        self._closed.clear()
        self._first, self._target_first = mark.first, mark.target_first
        self._runs = mark.runs.copy()
