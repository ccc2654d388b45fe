# SPDX-License-Identifier: Apache-2.0
"""Which source offsets became which target offsets, as few rows as the data allows.

Inside a run target = source + constant. Runs are merged while both sides go on without a gap;
above a cap the newest run swallows what follows and says that it is no longer exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

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


class Mark(NamedTuple):
    """How far runs had come."""

    rows: int
    last: CopiedRun | None


class Runs:
    """The runs of one topic partition in one epoch."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[CopiedRun] = []

    def mark(self) -> Mark:
        """Remember how far they have come."""
        return Mark(len(self.rows), replace(self.rows[-1]) if self.rows else None)

    def return_to(self, mark: Mark) -> None:
        """Forget what came after the mark."""
        del self.rows[mark.rows :]
        if mark.last is not None:
            self.rows[-1] = replace(mark.last)

    def add(self, out: Outgoing) -> None:
        """Count an acknowledged record batch."""
        target = out.base_offset
        share = out.size // max(1, out.count)
        for run in out.runs:
            last = self.rows[-1] if self.rows else None
            goes_on = (
                last is not None
                and run.first == last.source_last + 1
                and target == last.target_first + last.records
            )
            if last is not None and (goes_on or len(self.rows) >= MAX_RUNS):
                last.source_last = run.first + run.length - 1
                last.records += run.length
                last.bytes += share * run.length
                last.is_exact = last.is_exact and goes_on
            else:
                self.rows.append(
                    CopiedRun(
                        run.first,
                        run.first + run.length - 1,
                        target,
                        run.length,
                        share * run.length,
                    )
                )
            target += run.length
