# SPDX-License-Identifier: Apache-2.0
"""What one topic partition tells of itself: to the offset map, and to its successor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkmirror.model import ProducerState
from sparkmirror.offsets.offset_map import Fit, OffsetMap, Translation
from sparkmirror.pipeline.comparison import Comparison
from sparkmirror.pipeline.contract import PartitionStart, chunk_from_text
from sparkmirror.pipeline.copy_partition import CopyPartition, MappedRun, Pair
from sparkmirror.wire.outgoing import Outgoing
from sparkmirror.wire.reframe import Run

PRODUCER = ProducerState(7, 0, 0)


@pytest.fixture
def part() -> CopyPartition:
    """Handed over at offset 1000 of the source, behind offset 1099 of the target."""
    start = PartitionStart(
        "t", 0, "a.t", 1_000, 1_099, producer=PRODUCER, is_handed_over=True, topic_id=None
    )
    return CopyPartition(start)


def copied(part: CopyPartition, source: int, target: int, count: int) -> None:
    """The target has acknowledged some records."""
    out = Outgoing(memoryview(bytes(100)), count, source + count, 0, (Run(source, count),))
    out.base_offset = target
    part.runs.add(out)
    part.downstream = target + count - 1
    part.move_to(source + count)


def reader(part: CopyPartition) -> Callable[[int], Translation | None]:
    """A reader of what the partition would write now."""
    chunks = dict(enumerate(part.new_chunks()))
    offsets = OffsetMap()
    for place, chunk in chunks.items():
        offsets.see(
            chunk.first, chunk.target_first, place, chunk.runs[0].source if chunk.runs else None
        )
    return lambda offset: offsets.to_target(offset, lambda _first, place: chunks[place])


def test_what_was_compared_comes_behind_what_is_fresh(part: CopyPartition) -> None:
    """Else the map would go back, and forget what another task has written."""
    copied(part, 1_000, 1_100, 100)
    comparison = Comparison(PRODUCER, 1_100, 1_199, 200)
    comparison.matched.append(MappedRun(1_100, 1_200, 100))
    comparison.position, comparison.downstream = 1_200, 1_299
    part.adopt(comparison)
    copied(part, 1_200, 1_300, 10)
    translated = reader(part)
    for offset in (1_000, 1_099, 1_100, 1_150, 1_205):
        assert translated(offset) == (offset + 100, Fit.EXACT)


def test_a_target_that_lost_records_has_a_map_that_says_so(part: CopyPartition) -> None:
    """Nothing of what was lost is promised, although nothing was found again yet."""
    copied(part, 1_000, 1_100, 100)
    part.moved_back = Pair(1_050, 1_149, PRODUCER)
    comparison = Comparison(PRODUCER, 1_050, 1_149, 50)
    part.adopt(comparison)
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


def test_a_successor_goes_on_with_the_open_chunk(part: CopyPartition) -> None:
    """No chunk per epoch."""
    copied(part, 1_000, 1_100, 100)
    part.is_dirty = False
    part.stored = part.stored_position()
    start = PartitionStart(
        "t", 0, "a.t", 1_100, 1_199, producer=PRODUCER, map_chunk=part.receipt(0).map_chunk
    )
    successor = CopyPartition(start)
    copied(successor, 1_100, 1_200, 5)
    (chunk,) = successor.new_chunks()
    assert chunk.runs == (MappedRun(1_000, 1_100, 105),)
