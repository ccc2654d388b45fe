# SPDX-License-Identifier: Apache-2.0
"""Compares both sides of a run: lost, duplicated and reordered records.

Pure: records are lists, per source and partition, in log order.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

Stream = tuple[str, int]  # source, partition

_NEIGHBOURS = 1
_NEAR = 50  # two sources interleave in one log of the target


class Seen(NamedTuple):
    """A record on one side; the digest covers everything that must not change."""

    offset: int
    number: int
    digest: int


class Anomaly(NamedTuple):
    """Adjacent records with the same anomaly; target offsets, for lost records source offsets.

    `at` is the target offset where it shows; for lost records that of the next one.
    """

    what: str
    stream: Stream
    first: Seen
    last: Seen
    records: int
    at: int


@dataclass(frozen=True, slots=True)
class StreamVerdict:
    """The result for one source and partition."""

    stream: Stream
    records: int
    counts: Counter[str]
    anomalies: tuple[Anomaly, ...]

    @property
    def is_right(self) -> bool:
        """Whether all records are there once, in order and unchanged, and no others."""
        return not self.anomalies


LOST, TWICE, DISORDERED = "lost", "twice", "out of order"
ALTERED, FOREIGN = "altered", "foreign"
TROUBLES = (LOST, TWICE, DISORDERED, ALTERED, FOREIGN)


def compare(
    stream: Stream,
    originals: Sequence[Seen],
    copies: Iterable[Seen],
    gone: Mapping[int, int] = MappingProxyType({}),
) -> StreamVerdict:
    """Compare one stream; numbers of the source records increase and identify records.

    `gone` has the digests, by number, of records that the source lost. They may be on the target,
    in order and once.
    """
    digests = {one.number: one.digest for one in originals}
    if len(digests) != len(originals) or list(digests) != sorted(digests):
        raise ValueError(f"{stream}: the source's own records are not in order, or not unique")
    digests |= {number: digest for number, digest in gone.items() if number not in digests}
    arrived: dict[int, int] = {}  # number -> target offset
    highest = -1
    wrong: list[tuple[str, Seen]] = []
    for copy in copies:
        if copy.number not in digests:
            wrong.append((FOREIGN, copy))
            continue
        if digests[copy.number] != copy.digest:
            wrong.append((ALTERED, copy))
        if copy.number in arrived:
            wrong.append((TWICE, copy))
            continue
        if copy.number < highest:
            wrong.append((DISORDERED, copy))
        arrived[copy.number] = copy.offset
        highest = max(highest, copy.number)
    missing = [(LOST, one) for one in originals if one.number not in arrived]
    numbers = sorted(arrived)
    lost = [
        run._replace(at=_next_offset(run.last.number, numbers, arrived))
        for run in _runs(stream, missing, _NEIGHBOURS)
    ]
    return StreamVerdict(
        stream=stream,
        records=len(originals),
        counts=Counter(what for what, _ in [*missing, *wrong]),
        anomalies=(*lost, *_runs(stream, wrong, _NEAR)),
    )


def _next_offset(number: int, numbers: Sequence[int], arrived: Mapping[int, int]) -> int:
    place = bisect(numbers, number)
    return arrived[numbers[place]] if place < len(numbers) else -1


def _runs(stream: Stream, wrong: Sequence[tuple[str, Seen]], reach: int) -> list[Anomaly]:
    """Merge adjacent records with the same anomaly."""
    runs: list[Anomaly] = []
    for what, one in wrong:
        last = runs[-1] if runs else None
        if last and last.what == what and 0 < one.offset - last.last.offset <= reach:
            runs[-1] = last._replace(last=one, records=last.records + 1)
        else:
            runs.append(Anomaly(what, stream, one, one, 1, one.offset))
    return runs
