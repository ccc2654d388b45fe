# SPDX-License-Identifier: Apache-2.0
"""The comparison finds every kind of anomaly, and no false ones."""

from __future__ import annotations

import pytest

from chaos.verdict import ALTERED, DISORDERED, FOREIGN, LOST, TWICE, Seen, compare

STREAM = ("us", 0)
ORIGINALS = [Seen(offset, offset * 4, offset * 7) for offset in range(10)]


def copies(*numbers: int) -> list[Seen]:
    return [Seen(100 + place, n * 4, n * 7) for place, n in enumerate(numbers)]


def test_a_perfect_copy_is_right() -> None:
    """All there, each once, in order."""
    verdict = compare(STREAM, ORIGINALS, copies(*range(10)))
    assert verdict.is_right
    assert verdict.records == 10
    assert not verdict.counts


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([0, 1, 2, 5, 6, 7, 8], {LOST: 3}),
        ([*range(10), 8, 9], {TWICE: 2}),
        ([0, 2, 1, *range(3, 10)], {DISORDERED: 1}),
        ([0, 1, 2, 3, 2, 3, *range(4, 10), 1], {TWICE: 3}),
        ([], {LOST: 10}),
    ],
)
def test_harm_is_counted(numbers: list[int], expected: dict[str, int]) -> None:
    """Every record that is missing, repeated or late counts once."""
    verdict = compare(STREAM, ORIGINALS, copies(*numbers))
    assert dict(verdict.counts) == expected
    assert not verdict.is_right


def test_changed_and_unknown_records_are_found() -> None:
    """A record with other content, and one that the source does not have."""
    given = copies(*range(10))
    given[3] = given[3]._replace(digest=1)
    given.append(Seen(200, 999, 0))
    assert dict(compare(STREAM, ORIGINALS, given).counts) == {ALTERED: 1, FOREIGN: 1}


def test_what_the_source_lost_may_stay_on_the_target() -> None:
    """In its place, once and unchanged, or not at all."""
    held = ORIGINALS[:4] + ORIGINALS[7:]
    gone = {one.number: one.digest for one in ORIGINALS[4:7]}
    assert compare(STREAM, held, copies(*range(10)), gone).is_right
    assert compare(STREAM, held, copies(0, 1, 2, 3, 4, 7, 8, 9), gone).is_right


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 5, 7, 8, 9], {TWICE: 1}),
        ([0, 1, 2, 3, 5, 4, 7, 8, 9], {DISORDERED: 1}),
        ([0, 1, 2, 3, 7, 4, 8, 9], {DISORDERED: 1}),
        ([0, 1, 2, 4, 5, 6, 7, 8, 9], {LOST: 1}),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], {LOST: 1}),
    ],
)
def test_harm_beside_lost_records_is_counted(numbers: list[int], expected: dict[str, int]) -> None:
    held = ORIGINALS[:4] + ORIGINALS[7:]
    gone = {one.number: one.digest for one in ORIGINALS[4:7]}
    assert dict(compare(STREAM, held, copies(*numbers), gone).counts) == expected
    altered = [one._replace(digest=1) if one.number == 16 else one for one in copies(*numbers)]
    assert compare(STREAM, held, altered, gone).counts[ALTERED] == numbers.count(4)


def test_adjacent_gaps_are_reported_as_one() -> None:
    verdict = compare(STREAM, ORIGINALS, copies(0, 1, 4, 5, 6, 8, 9, 4, 5, 6))
    told = [
        (one.what, one.first.offset, one.last.offset, one.records, one.at)
        for one in verdict.anomalies
    ]
    assert told == [(LOST, 2, 3, 2, 102), (LOST, 7, 7, 1, 105), (TWICE, 107, 109, 3, 107)]


def test_a_source_that_is_itself_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="not in order"):
        compare(STREAM, ORIGINALS[::-1], [])
