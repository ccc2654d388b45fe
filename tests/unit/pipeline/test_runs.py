# SPDX-License-Identifier: Apache-2.0
"""The offset map in runs, against a map that lists every offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.pipeline.runs import MAX_RUNS, CopiedRun, Runs
from sparkmirror.wire.outgoing import Outgoing
from sparkmirror.wire.reframe import Run


def acked(base_offset: int, *runs: tuple[int, int], size: int = 100) -> Outgoing:
    """An acknowledged record batch."""
    count = sum(length for _first, length in runs)
    out = Outgoing(
        memoryview(bytes(size)), count, 0, 0, tuple(Run(first, length) for first, length in runs)
    )
    out.base_offset = base_offset
    return out


def rows(runs: Runs) -> list[CopiedRun]:
    """The rows of a receipt."""
    runs.settle()
    return runs.rows


def test_batches_without_gaps_are_one_run() -> None:
    """Source and target go on together."""
    runs = Runs()
    for out in (acked(900, (100, 10)), acked(910, (110, 40)), acked(950, (150, 1))):
        runs.add(out)

    (row,) = rows(runs)
    assert (row.source_first, row.source_last, row.target_first) == (100, 150, 900)
    assert (row.records, row.is_exact) == (51, True)


def test_a_gap_on_either_side_begins_a_new_run() -> None:
    """A marker on the source, another writer on the target."""
    runs = Runs()
    for out in (acked(0, (0, 5)), acked(5, (6, 5)), acked(11, (11, 5))):
        runs.add(out)

    assert [(row.source_first, row.target_first, row.records) for row in rows(runs)] == [
        (0, 0, 5),
        (6, 5, 5),
        (11, 11, 5),
    ]


def test_what_came_after_a_mark_can_be_forgotten() -> None:
    """Also the part of a run that had begun before; and again after going on."""
    runs = Runs()
    empty = runs.mark()
    runs.add(acked(0, (0, 5)))
    runs.settle()
    mark = runs.mark()
    for _ in range(2):
        runs.add(acked(5, (5, 5)))
        runs.add(acked(20, (10, 5)))
        runs.return_to(mark)
        assert [(row.source_last, row.records) for row in rows(runs)] == [(4, 5)]
    runs.return_to(empty)
    assert rows(runs) == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),  # offsets of other writers before the batch, on the target
            st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=4),
        ),
        max_size=30,
    )
)
def test_runs_list_exactly_the_pairs_that_were_copied(
    batches: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    """Spread out, the runs are the map of source to target offsets; merged, there are no fewer."""
    runs = Runs()
    settled: list[tuple[int, int]] = []
    pairs: list[tuple[int, int]] = []
    source = target = 0
    for others, pieces in batches:
        target += others
        cut = []
        base = target
        for gap, length in pieces:
            source += gap
            cut.append((source, length))
            pairs += [(source + step, target + step) for step in range(length)]
            source += length
            target += length
        runs.add(acked(base, *cut))
        if others:
            settled += [(s + n, t + n) for s, t, length in runs.settle() for n in range(length)]
    settled += [(s + n, t + n) for s, t, length in runs.settle() for n in range(length)]

    assert settled == pairs
    spread = [
        (row.source_first + step, row.target_first + step)
        for row in rows(runs)
        for step in range(row.records)
    ]
    assert spread == pairs
    fewest = sum(
        1 for index, (s, t) in enumerate(pairs) if index == 0 or (s - 1, t - 1) != pairs[index - 1]
    )
    assert len(rows(runs)) == fewest
    assert all(row.is_exact for row in rows(runs))
    assert all(row.source_last - row.source_first + 1 == row.records for row in rows(runs))


def test_above_the_cap_the_last_run_says_that_it_is_not_exact() -> None:
    """Memory stays bounded, no record goes uncounted, and nobody is misled."""
    runs = Runs()
    for index in range(MAX_RUNS + 50):
        runs.add(acked(index, (index * 2, 1)))

    assert len(rows(runs)) == MAX_RUNS
    assert sum(row.records for row in rows(runs)) == MAX_RUNS + 50
    assert [row.is_exact for row in rows(runs)] == [True] * (MAX_RUNS - 1) + [False]
    assert rows(runs)[-1].source_last == (MAX_RUNS + 49) * 2
