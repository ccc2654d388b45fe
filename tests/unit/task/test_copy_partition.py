# SPDX-License-Identifier: Apache-2.0
"""What one topic partition tells of itself: to the offset map, and to its successor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.model import ProducerState
from sparkmirror.offsets.offset_map import Fit, OffsetMap, Translation
from sparkmirror.task.comparison import Comparison
from sparkmirror.task.copy_partition import ClusterAliases, CopiedRuns, CopyPartition, ResumePoint
from sparkmirror.task.messages import PartitionStart, chunk_from_text
from sparkmirror.wire.outgoing import OutgoingBatch, SkippedBatch
from sparkmirror.wire.reframe import OffsetRun

PRODUCER = ProducerState(7, 0, 0)
ALIASES = ClusterAliases("a", "b")


@pytest.fixture
def part() -> CopyPartition:
    """Handed over at offset 1000 of the source, behind offset 1099 of the target."""
    start = PartitionStart(
        "t", 0, "a.t", 1_000, 1_099, producer=PRODUCER, is_handed_over=True, topic_id=None
    )
    return CopyPartition(start, ALIASES)


def copied(part: CopyPartition, source: int, target: int, count: int) -> None:
    """The target has acknowledged some records."""
    out = OutgoingBatch(
        memoryview(bytes(100)), count, source + count, 0, (OffsetRun(source, count),)
    )
    out.base_offset = target
    part.runs.add(out)
    part.downstream = target + count - 1
    part.set_position(source + count)


def reader(part: CopyPartition) -> Callable[[int], Translation | None]:
    """A reader of what the partition would write now."""
    chunks = dict(enumerate(part.chunks_to_write()))
    offsets = OffsetMap()
    for place, chunk in chunks.items():
        offsets.add_chunk(
            chunk.first, chunk.target_first, place, chunk.runs[0].source if chunk.runs else None
        )
    return lambda offset: offsets.to_target(offset, lambda _first, place: chunks[place])


def test_what_was_compared_comes_behind_what_is_fresh(part: CopyPartition) -> None:
    """Else the map would go back, and forget what another task has written."""
    copied(part, 1_000, 1_100, 100)
    comparison = Comparison(PRODUCER, 1_100, 1_199, 200)
    comparison.matched.append(MappedRun(1_100, 1_200, 100))
    comparison.position, comparison.downstream = 1_200, 1_299
    part.apply_comparison(comparison)
    copied(part, 1_200, 1_300, 10)
    translated = reader(part)
    for offset in (1_000, 1_099, 1_100, 1_150, 1_205):
        assert translated(offset) == (offset + 100, Fit.EXACT)


def test_a_target_that_lost_records_has_a_map_that_reports_it(part: CopyPartition) -> None:
    """Nothing of what was lost is promised, although nothing was found again yet."""
    copied(part, 1_000, 1_100, 100)
    part.estimate = ResumePoint(1_050, 1_149, PRODUCER)
    comparison = Comparison(PRODUCER, 1_050, 1_149, 50)
    part.apply_comparison(comparison)
    translated = reader(part)
    assert translated(1_020) == (1_120, Fit.EXACT)
    assert translated(1_060) == (1_150, Fit.AFTER)


def test_what_is_not_stored_is_not_handed_over(part: CopyPartition) -> None:
    """The successor compares from what is stored: the map lacks the rest."""
    assert part.receipt(0).is_clean
    copied(part, 1_000, 1_100, 100)
    found = part.receipt(0)
    assert not found.is_clean
    assert (found.position, found.downstream) == (1_000, 1_099)
    part.is_dirty = False
    part.stored = part.stored_position()
    found = part.receipt(0)
    assert found.is_clean
    assert (found.position, found.downstream) == (1_100, 1_199)
    chunk = chunk_from_text(found.map_chunk)
    assert chunk.runs == (MappedRun(1_000, 1_100, 100),)
    assert (chunk.covered, chunk.target_covered) == (1_100, 1_200)


def test_a_successor_continues_with_the_open_chunk(part: CopyPartition) -> None:
    """No chunk per epoch."""
    copied(part, 1_000, 1_100, 100)
    part.is_dirty = False
    part.stored = part.stored_position()
    start = PartitionStart(
        "t", 0, "a.t", 1_100, 1_199, producer=PRODUCER, map_chunk=part.receipt(0).map_chunk
    )
    successor = CopyPartition(start, ALIASES)
    copied(successor, 1_100, 1_200, 5)
    (chunk,) = successor.chunks_to_write()
    assert chunk.runs == (MappedRun(1_000, 1_100, 105),)


# --- Runs of copied offsets, against a map that lists every offset.


def acked(base_offset: int, *runs: tuple[int, int], size: int = 100) -> OutgoingBatch:
    """An acknowledged record batch."""
    count = sum(length for _first, length in runs)
    out = OutgoingBatch(
        memoryview(bytes(size)),
        count,
        0,
        0,
        tuple(OffsetRun(first, length) for first, length in runs),
    )
    out.base_offset = base_offset
    return out


def test_batches_without_gaps_are_one_run() -> None:
    """Source and target continue together."""
    runs = CopiedRuns()
    for out in (acked(900, (100, 10)), acked(910, (110, 40)), acked(950, (150, 1))):
        runs.add(out)

    assert runs.drain() == [(100, 900, 51)]
    assert runs.drain() == []


def test_a_gap_on_either_side_begins_a_new_run() -> None:
    """A marker on the source, another writer on the target."""
    runs = CopiedRuns()
    for out in (acked(0, (0, 5)), acked(5, (6, 5)), acked(11, (11, 5))):
        runs.add(out)

    assert runs.drain() == [(0, 0, 5), (6, 5, 5), (11, 11, 5)]


def test_progress_has_committed_records_and_every_skipped_one(part: CopyPartition) -> None:
    """What only moved the position needs no commit; skipped batches count once."""
    part.set_savepoint()
    part.count_skipped([SkippedBatch(1_010, 6), SkippedBatch(1_020, 10)])
    part.set_position(1_020)
    assert (part.progress().position, part.progress().skipped_records) == (1_020, 16)
    part.records += 5
    part.set_position(1_025)
    assert (part.progress().position, part.progress().records) == (1_000, 0)
    part.roll_back()
    part.count_skipped([SkippedBatch(1_020, 10), SkippedBatch(1_030, 2)])
    assert part.progress().skipped_records == 18


def test_what_an_aborted_transaction_copied_is_forgotten() -> None:
    """What comes afterwards begins its own run."""
    runs = CopiedRuns()
    runs.add(acked(0, (0, 5)))
    runs.clear()
    runs.add(acked(5, (5, 5)))
    assert runs.drain() == [(5, 5, 5)]


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
    runs = CopiedRuns()
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
            settled += runs.drain()
    settled += runs.drain()

    assert [(s + step, t + step) for s, t, length in settled for step in range(length)] == pairs
