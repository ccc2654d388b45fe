# SPDX-License-Identifier: Apache-2.0
"""Exact resume: both sides, cut as they may be, agree on where the copy stands."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import ProducerState
from sparkmirror.task.comparison import Comparison, ComparisonOutcome
from sparkmirror.task.written_records import is_sequence_before, sequence_distance
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.record_batch import LOG_APPEND_TIME, SEQUENCE_MASK, RecordBatch
from sparkmirror.wire.reframe import OffsetRun
from support.data.record_batches import LZ4, NONE, Record, encode, numbered, seal

OURS = 4001
FIRST = 100  # the source offset after the pair
DOWNSTREAM = 499


def outgoing(records: Sequence[Record], codec: int = NONE) -> OutgoingBatch:
    """A record batch as the source offers it."""
    view = memoryview(encode(records, codec=codec))
    runs = tuple(OffsetRun(record.offset, 1) for record in records)
    return OutgoingBatch(view, len(records), records[-1].offset + 1, 0, runs)


def written(
    records: Sequence[Record],
    target: int,
    sequence: int,
    *,
    producer: int = OURS,
    codec: int = NONE,
) -> RecordBatch:
    """A record batch as it lies on the target."""
    moved = [one._replace(offset=target + index) for index, one in enumerate(records)]
    raw = encode(moved, producer=(producer, 0, sequence & SEQUENCE_MASK), codec=codec)
    return RecordBatch(memoryview(raw))


def comparison(goal: int | None, sequence: int = 0) -> Comparison:
    """From the pair (99, 499) on."""
    return Comparison(ProducerState(OURS, 0, sequence), FIRST, DOWNSTREAM, goal, leader_epoch=0)


def cut(records: Sequence[Record], sizes: Sequence[int]) -> list[list[Record]]:
    """The records in batches of these sizes, over and over."""
    pieces, at, turn = [], 0, 0
    while at < len(records):
        size = sizes[turn % len(sizes)]
        pieces.append([*records[at : at + size]])
        at, turn = at + size, turn + 1
    return pieces


SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(
    copied=st.integers(1, 30),
    waiting=st.integers(0, 10),
    here=SIZES,
    there=SIZES,
    codecs=st.tuples(st.sampled_from([NONE, LZ4]), st.sampled_from([NONE, LZ4])),
    sequence=st.sampled_from([0, 17, SEQUENCE_MASK - 3]),
    strangers=st.booleans(),
    target_first=st.booleans(),
)
def test_copying_continues_after_the_last_common_record(
    *,
    copied: int,
    waiting: int,
    here: list[int],
    there: list[int],
    codecs: tuple[int, int],
    sequence: int,
    strangers: bool,
    target_first: bool,
) -> None:
    """However both sides are cut and compressed, whoever else writes, in whatever order it comes.

    The records are all alike, so only counting them in order gives the right answer.
    """
    alike = [Record(FIRST + n, 1_000, b"k", b"v") for n in range(copied + waiting)]
    goal = (sequence + copied) & SEQUENCE_MASK
    looked = comparison(goal, sequence)
    source = [outgoing(piece, codecs[0]) for piece in cut(alike, here)]
    target, at, number = [], DOWNSTREAM + 1, sequence
    for piece in cut(alike[:copied], there):
        if strangers:
            target.append(written(piece, at, 0, producer=77))
            at += len(piece)
        target.append(written(piece, at, number, codec=codecs[1]))
        at += len(piece)
        number += len(piece)

    for out in source if not target_first else []:
        looked.add_source_batch(out)
    for batch in target:
        looked.add_target_batch(batch)
        looked.step()
    for out in source if target_first else []:
        looked.add_source_batch(out)
        looked.step()

    assert looked.outcome is ComparisonOutcome.MATCHED
    assert looked.position == FIRST + copied
    assert looked.end_downstream == at - 1
    assert looked.end_sequence == goal
    assert looked.other_writers == ({77} if strangers else set())
    assert looked.missing_on_target == 0


def test_records_that_the_target_never_got_are_passed_over() -> None:
    """One was refused and lies elsewhere: what comes after it still matches."""
    records = numbered(FIRST, 6)
    looked = comparison(goal=4)
    looked.add_target_batch(written(records[:2], 500, 0))
    looked.add_target_batch(written(records[3:5], 502, 2))
    looked.add_source_batch(outgoing(records))
    looked.step()

    assert looked.outcome is ComparisonOutcome.MATCHED
    assert (looked.position, looked.end_downstream, looked.missing_on_target) == (FIRST + 5, 503, 1)


def test_what_the_source_does_not_have_is_no_match() -> None:
    """The target holds something else under our id: the source is read to its end in vain."""
    looked = comparison(goal=3)
    looked.add_target_batch(written(numbered(9_000, 3), 500, 0))
    looked.add_source_batch(outgoing(numbered(FIRST, 10)))
    looked.step()

    assert looked.waits_for_source
    assert looked.outcome is None
    assert (looked.position, looked.end_downstream, looked.end_sequence) == (FIRST, 502, 3)


def test_batches_from_before_the_resume_point_do_not_count() -> None:
    """The downstream offset may be an older one than the sequence."""
    records = numbered(FIRST, 2)
    looked = comparison(goal=12, sequence=10)
    looked.add_target_batch(written(numbered(90, 4), 496, 6))
    looked.add_target_batch(written(records, 500, 10))
    looked.add_source_batch(outgoing(records))
    looked.step()

    assert looked.outcome is ComparisonOutcome.MATCHED
    assert looked.position == FIRST + 2


def test_a_target_that_stamps_is_compared_without_times() -> None:
    """LogAppendTime: the broker wrote its own times."""
    records = numbered(FIRST, 3)
    moved = [one._replace(offset=500 + n) for n, one in enumerate(records)]
    raw = encode(moved, producer=(OURS, 0, 0), attributes=LOG_APPEND_TIME, max_timestamp=1)
    looked = comparison(goal=3)
    looked.add_target_batch(RecordBatch(memoryview(raw)))
    looked.add_source_batch(outgoing(records[:2]))
    looked.add_source_batch(outgoing(records[2:]))
    looked.step()

    assert looked.outcome is ComparisonOutcome.MATCHED
    assert looked.position == FIRST + 3


def test_other_times_are_another_record() -> None:
    """Where the target keeps times, they must agree."""
    looked = comparison(goal=2)
    looked.add_target_batch(written(numbered(FIRST, 2, timestamp=5), 500, 0))
    looked.add_source_batch(outgoing(numbered(FIRST, 2, timestamp=6)))
    looked.step()

    assert looked.outcome is None


def test_sequences_are_compared_across_their_wrap() -> None:
    """2^31 - 1 comes before 0."""
    assert sequence_distance(SEQUENCE_MASK, 0) == 1
    assert is_sequence_before(SEQUENCE_MASK, 3)
    assert not is_sequence_before(3, SEQUENCE_MASK)
    assert not is_sequence_before(3, 3)


def test_a_batch_that_the_cleaner_emptied_counts_by_its_sequence() -> None:
    """The last one of a producer stays to tell it; without it the end would never be reached."""
    records = numbered(FIRST, 6)
    compared = comparison(goal=6)
    emptied = seal(
        b"",
        base_offset=503,
        last_offset_delta=2,
        leader_epoch=1,
        attributes=0,
        times=(-1, -1),
        producer=(OURS, 0, 3),
        count=0,
    )
    compared.add_target_batch(written(records[:3], 500, 0))
    compared.add_target_batch(RecordBatch(memoryview(emptied)))
    compared.add_source_batch(outgoing(records))
    compared.step()

    assert compared.outcome is ComparisonOutcome.MATCHED
    assert (compared.position, compared.end_downstream) == (FIRST + 3, 505)
    assert compared.missing_on_target == 0
