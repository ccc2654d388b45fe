# SPDX-License-Identifier: Apache-2.0
"""Which source offsets became which target offsets since the offset map was last told.

Inside a run target = source + constant. Runs are joined while both sides go on without a gap, so a
record batch costs a few comparisons, and everything else happens once a second or less.
"""

from __future__ import annotations

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.wire.outgoing import Outgoing


class Runs:
    """The runs of one topic partition that the offset map does not have yet."""

    __slots__ = ("_source_end", "_target_end", "fresh")

    def __init__(self) -> None:
        self.fresh: list[list[int]] = []  # first source offset, first target offset, length
        self._source_end = self._target_end = -1  # behind the last one

    def add(self, out: Outgoing) -> None:
        """Count an acknowledged record batch."""
        target = out.base_offset
        for first, length in out.runs:
            if self.fresh and first == self._source_end and target == self._target_end:
                self.fresh[-1][2] += length
            else:
                self.fresh.append([first, target, length])
            target += length
            self._source_end, self._target_end = first + length, target

    def clear(self) -> None:
        """Forget what the offset map does not have yet."""
        self.fresh = []

    def settle(self) -> list[MappedRun]:
        """Hand over what the offset map does not have yet."""
        found = [MappedRun(*run) for run in self.fresh]
        self.fresh = []
        return found
