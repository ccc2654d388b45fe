# SPDX-License-Identifier: Apache-2.0
"""Which source offsets became which target offsets, as few rows as the data allows.

Inside a run target = source + constant. Runs are merged while both sides go on without a gap;
above a cap the newest run swallows what follows and says that it is no longer exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.wire.outgoing import Outgoing

MAX_RUNS = 1_000


@dataclass(slots=True)
class CopiedRun:
    """Consecutive offsets that were copied."""

    source_first: int
    source_last: int
    target_first: int
    records: int
    bytes: int
    is_exact: bool = True

    def is_followed_by(self, source: int, target: int) -> bool:
        """Whether these offsets go on without a gap on either side."""
        return source == self.source_last + 1 and target == self.target_first + self.records

    def extend(self, records: int, size: int) -> None:
        """So many more records, of so many bytes."""
        self.source_last += records
        self.records += records
        self.bytes += size


class Mark(NamedTuple):
    """How far runs had come."""

    rows: int
    last: CopiedRun | None


class Runs:
    """The runs of one topic partition in one epoch.

    `fresh` holds what was copied since somebody last accounted for it, joined as far as it goes;
    so a record batch costs a few comparisons, and everything else happens once a second or less.
    """

    __slots__ = ("fresh", "rows")

    def __init__(self) -> None:
        self.rows: list[CopiedRun] = []
        self.fresh: list[CopiedRun] = []

    def mark(self) -> Mark:
        """Remember how far they have come; nothing is fresh."""
        return Mark(len(self.rows), replace(self.rows[-1]) if self.rows else None)

    def return_to(self, mark: Mark) -> None:
        """Forget what came after the mark."""
        self.fresh.clear()
        del self.rows[mark.rows :]
        if mark.last is not None:
            self.rows[-1] = replace(mark.last)

    def add(self, out: Outgoing) -> None:
        """Count an acknowledged record batch."""
        target = out.base_offset
        share = out.size // max(1, out.count)
        for first, length in out.runs:
            last = self.fresh[-1] if self.fresh else None
            if last is not None and last.is_followed_by(first, target):
                last.extend(length, share * length)
            else:
                self.fresh.append(
                    CopiedRun(first, first + length - 1, target, length, share * length)
                )
            target += length

    def settle(self) -> list[MappedRun]:
        """Nothing is fresh any more; what was, for whoever else keeps accounts."""
        found = [MappedRun(run.source_first, run.target_first, run.records) for run in self.fresh]
        for run in self.fresh:
            last = self.rows[-1] if self.rows else None
            goes_on = last is not None and last.is_followed_by(run.source_first, run.target_first)
            if last is not None and (goes_on or len(self.rows) >= MAX_RUNS):
                last.source_last = run.source_last
                last.records += run.records
                last.bytes += run.bytes
                last.is_exact = last.is_exact and goes_on
            else:
                self.rows.append(run)
        self.fresh = []
        return found
