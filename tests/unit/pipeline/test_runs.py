# SPDX-License-Identifier: Apache-2.0
"""Runs of copied offsets, against a map that lists every offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.pipeline.runs import Runs
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


def test_batches_without_gaps_are_one_run() -> None:
    """Source and target go on together."""
    runs = Runs()
    for out in (acked(900, (100, 10)), acked(910, (110, 40)), acked(950, (150, 1))):
        runs.add(out)

    assert runs.settle() == [(100, 900, 51)]
    assert runs.settle() == []


def test_a_gap_on_either_side_begins_a_new_run() -> None:
    """A marker on the source, another writer on the target."""
    runs = Runs()
    for out in (acked(0, (0, 5)), acked(5, (6, 5)), acked(11, (11, 5))):
        runs.add(out)

    assert runs.settle() == [(0, 0, 5), (6, 5, 5), (11, 11, 5)]


def test_what_an_aborted_transaction_copied_is_forgotten() -> None:
    """What comes afterwards begins a run of its own."""
    runs = Runs()
    runs.add(acked(0, (0, 5)))
    runs.clear()
    runs.add(acked(5, (5, 5)))
    assert runs.settle() == [(5, 5, 5)]


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
    """Spread out, the runs are the map of source to target offsets, however often it is told."""
    runs = Runs()
    settled: list[MappedRun] = []
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
            settled += runs.settle()
    settled += runs.settle()

    assert [(s + step, t + step) for s, t, length in settled for step in range(length)] == pairs
