# SPDX-License-Identifier: Apache-2.0
"""Both sides of a run compared: what was lost, what came twice, what came out of order.

Pure: the records come as lists, per source and partition, in the order of their logs.
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
    """A record as one side has it; the digest is of all that must come through unchanged."""

    offset: int
    number: int
    digest: int


class Anomaly(NamedTuple):
    """Neighbours with the same thing wrong; their offsets are the target's, of lost the source's.

    `at` is the target offset where it shows: of lost records, the next one's.
    """

    what: str
    stream: Stream
    first: Seen
    last: Seen
    records: int
    at: int


@dataclass(frozen=True, slots=True)
class StreamVerdict:
    """What became of the records of one source and partition."""

    stream: Stream
    records: int
    counts: Counter[str]
    anomalies: tuple[Anomaly, ...]

    @property
    def is_right(self) -> bool:
        """All there, each once, in order, unchanged, nothing else."""
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
    """Compare one stream; the originals' numbers grow, so a number says which record it is.

    `gone`: digests by number of what the source held and lost. It may be on the target, in its
    place and once.
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
    """Neighbours with the same trouble as one: thousands of lines help nobody."""
    runs: list[Anomaly] = []
    for what, one in wrong:
        last = runs[-1] if runs else None
        if last and last.what == what and 0 < one.offset - last.last.offset <= reach:
            runs[-1] = last._replace(last=one, records=last.records + 1)
        else:
            runs.append(Anomaly(what, stream, one, one, 1, one.offset))
    return runs
