# SPDX-License-Identifier: Apache-2.0
"""Which record batches of a fetch response go on, how far reading got, and what is pinned."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.outgoing import AbortedTransaction, Admitted, Outgoing, admit
from sparkmirror.wire.record_batch import TRANSACTIONAL, stamp
from sparkmirror.wire.reframe import Run
from support.record_batches import decode, encode, marker, numbered


def transactional(first: int, count: int, producer_id: int) -> bytearray:
    """Records of a transaction."""
    return encode(numbered(first, count), attributes=TRANSACTIONAL, producer=(producer_id, 0, 0))


def copied(admitted: Admitted) -> list[int]:
    """The source offsets that go on, in order, proven by the records themselves."""
    found = []
    for out in admitted.outgoing:
        offsets = [o for run in out.runs for o in range(run.first, run.first + run.length)]
        stamp(out.view, 1, 0, 0)
        assert [one.key for one in decode(out.view)] == [b"k%d" % offset for offset in offsets]
        assert out.count == len(offsets)
        found += offsets
    return found


def response(*batches: bytearray) -> memoryview:
    """The records of one partition in a fetch response."""
    return memoryview(bytearray(b"".join(batches)))


def test_plain_batches_pass_as_they_are() -> None:
    """Views into the response, one run each, positions behind each batch."""
    records = response(encode(numbered(0, 3)), encode(numbered(3, 2), codec=4))

    admitted = admit(records, 0)

    assert [out.next_position for out in admitted.outgoing] == [3, 5]
    assert [out.runs for out in admitted.outgoing] == [(Run(0, 3),), (Run(3, 2),)]
    assert all(out.view.obj is records.obj for out in admitted.outgoing)
    assert (admitted.position, admitted.aborted_records) == (5, 0)
    assert copied(admitted) == [0, 1, 2, 3, 4]


def test_a_start_in_the_middle_takes_only_the_rest() -> None:
    """The broker serves the whole batch that holds the position."""
    admitted = admit(response(encode(numbered(0, 5)), encode(numbered(5, 2))), 3)

    assert copied(admitted) == [3, 4, 5, 6]
    assert admitted.position == 7


def test_batches_behind_the_position_are_ignored() -> None:
    """Nothing is copied twice, and the position never goes back."""
    admitted = admit(response(encode(numbered(0, 5)), encode(numbered(5, 2))), 5)

    assert copied(admitted) == [5, 6]
    assert admit(response(encode(numbered(0, 5))), 9) == Admitted([], 9, 0)


def test_empty_batches_only_advance_the_position() -> None:
    """Compaction leaves batches without records."""
    empty = encode([], base_offset=3, last_offset=8)

    admitted = admit(response(encode(numbered(0, 3)), empty), 0)

    assert copied(admitted) == [0, 1, 2]
    assert admitted.position == 9


def test_a_batch_without_wanted_records_only_advances_the_position() -> None:
    """The records at the end of the batch were compacted away."""
    admitted = admit(response(encode(numbered(0, 3), last_offset=9)), 6)

    assert admitted == Admitted([], 10, 0, leader_epoch=7)


def test_markers_only_advance_the_position() -> None:
    """Control batches are never produced."""
    records = response(transactional(0, 2, 7), marker(2, 7, commits=True), encode(numbered(3, 1)))

    admitted = admit(records, 0)

    assert copied(admitted) == [0, 1, 3]
    assert admitted.position == 4


def test_aborted_transactions_are_dropped_until_their_marker() -> None:
    """The same producer's next, committed transaction goes on."""
    records = response(
        transactional(0, 2, 7),
        transactional(2, 1, 7),
        marker(3, 7, commits=False),
        transactional(4, 2, 7),
        marker(6, 7, commits=True),
    )

    admitted = admit(records, 0, [AbortedTransaction(7, 0)])

    assert copied(admitted) == [4, 5]
    assert (admitted.position, admitted.aborted_records) == (7, 3)


def test_interleaved_producers_are_told_apart_whatever_the_lists_order() -> None:
    """Two aborted, one committed and one plain producer share the partition."""
    records = [
        transactional(0, 1, 7),
        transactional(1, 1, 8),
        transactional(2, 1, 9),
        encode(numbered(3, 1), producer=(7, 0, 0)),  # not transactional
        transactional(4, 1, 7),
        marker(5, 7, commits=False),
        transactional(6, 1, 8),
        transactional(7, 1, 7),  # a new transaction, aborted as well
        marker(8, 8, commits=True),
        marker(9, 7, commits=False),
        transactional(10, 1, 9),
        marker(11, 9, commits=False),
        transactional(12, 1, 9),
        marker(13, 9, commits=True),
    ]
    aborted = [AbortedTransaction(7, 0), AbortedTransaction(7, 7), AbortedTransaction(9, 2)]

    for order in itertools.permutations(aborted):
        admitted = admit(response(*records), 0, order)
        assert copied(admitted) == [1, 3, 6, 12]
        assert (admitted.position, admitted.aborted_records) == (14, 5)


def test_a_transaction_that_spans_responses_stays_dropped() -> None:
    """Each response brings its own list; the second one names the transaction again."""
    aborted = [AbortedTransaction(7, 0)]
    first = admit(response(transactional(0, 3, 7), encode(numbered(3, 1))), 0, aborted)
    second = admit(
        response(transactional(4, 2, 7), marker(6, 7, commits=False), transactional(7, 1, 7)),
        first.position,
        aborted,
    )

    assert copied(first) == [3]
    assert copied(second) == [7]
    assert second.position == 8


def test_without_a_list_everything_but_markers_goes_on() -> None:
    """read_uncommitted."""
    records = response(transactional(0, 2, 7), marker(2, 7, commits=False))

    admitted = admit(records, 0)

    assert copied(admitted) == [0, 1]
    assert admitted.position == 3


@settings(max_examples=80)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_nothing_damaged_passes_or_is_skipped(place: int, bit: int) -> None:
    """Wherever a bit flips under the CRC, header included, reading stops before that batch."""
    good, bad = encode(numbered(0, 3)), encode(numbered(3, 3))
    bad[21 + place % (len(bad) - 21)] ^= 1 << bit

    admitted = admit(response(good, bad, encode(numbered(6, 2))), 0)

    assert copied(admitted) == [0, 1, 2]
    assert admitted.position == 3
    with pytest.raises(CorruptRecordBatchError):
        admit(response(bad), 3)


def test_a_marker_batch_that_the_cleaner_emptied_is_skipped() -> None:
    """The last batch of a producer is kept without its records, control bit and all."""
    emptied = encode([], base_offset=1, last_offset=1, attributes=0x30, producer=(7, 0, -1))

    admitted = admit(response(encode(numbered(0, 1)), emptied, encode(numbered(2, 1))), 0)

    assert copied(admitted) == [0, 2]
    assert admitted.position == 3


def test_a_reframed_batch_is_counted_by_its_own_size() -> None:
    """It does not lie in the response's buffer, which is free at once."""
    budget = Budget(10_000)
    (out,) = admit(response(encode(numbered(0, 5), last_offset=9)), 0).outgoing
    buffer = Buffer(budget, 5_000)
    out.lie_in(buffer, budget)
    buffer.settle()

    assert budget.held == out.size
    out.let_go()
    assert budget.held == 0


def test_a_cut_off_batch_is_left_for_the_next_response() -> None:
    """The position stands before it."""
    cut = encode(numbered(3, 3))[:-1]

    admitted = admit(response(encode(numbered(0, 3)), cut), 0)

    assert copied(admitted) == [0, 1, 2]
    assert admitted.position == 3
    assert admit(response(cut), 3) == Admitted([], 3, 0)


@settings(max_examples=60)
@given(data=st.data())
def test_any_way_of_cutting_a_log_into_responses_copies_each_record_once(
    data: st.DataObject,
) -> None:
    """Random batches with holes, read in random responses from random positions."""
    batches, offset, wanted = [], 0, []
    for _ in range(data.draw(st.integers(1, 6))):
        keep = data.draw(st.lists(st.booleans(), min_size=1, max_size=6))
        records = [one for one, kept in zip(numbered(offset, len(keep)), keep, strict=True) if kept]
        batches.append(encode(records, base_offset=offset, last_offset=offset + len(keep) - 1))
        wanted += [one.offset for one in records]
        offset += len(keep)
    position = start = data.draw(st.integers(0, offset))
    found: list[int] = []
    while position < offset:
        ends = list(
            itertools.accumulate(struct.unpack_from(">i", raw, 23)[0] + 1 for raw in batches)
        )
        first = next(index for index, end in enumerate(ends) if end > position)
        last = data.draw(st.integers(first + 1, len(batches)))
        admitted = admit(response(*batches[first:last]), position)
        assert admitted.position > position
        found += copied(admitted)
        position = admitted.position

    assert found == [one for one in wanted if one >= start]


# --- what is held


def outgoing(size: int) -> Outgoing:
    """A record batch of some size."""
    return Outgoing(memoryview(bytearray(size)), 1, 1, 0, (), has_own_bytes=False)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("detached", [(), (0,), (1, 2), (0, 1, 2)])
def test_a_buffer_is_held_until_its_last_record_batch_lets_go(
    order: tuple[int, ...], detached: tuple[int, ...]
) -> None:
    """Whatever the order of acknowledgements, and whichever of them were moved out before."""
    budget = Budget(10_000)
    buffer = Buffer(budget, 1_000)
    outs = [outgoing(100) for _ in range(3)]
    for out in outs:
        out.lie_in(buffer, budget)
    buffer.settle()
    assert budget.held == 1_000

    for index in detached:
        outs[index].detach(budget)
    pinned = 0 if len(detached) == 3 else 1_000
    assert budget.held == pinned + 100 * len(detached)
    for index in order:
        outs[index].let_go()

    assert budget.held == 0
    assert budget.available == 10_000
    assert budget.peak >= 1_000


def test_a_buffer_in_which_nothing_was_kept_is_free_at_once() -> None:
    """Only markers, say."""
    budget = Budget(10_000)
    buffer = Buffer(budget, 1_000)

    buffer.settle()

    assert budget.held == 0


def test_a_buffer_that_was_released_before_it_is_settled_is_freed_once() -> None:
    """Acknowledgements may be quicker than the rest of the response."""
    budget = Budget(10_000)
    buffer = Buffer(budget, 1_000)
    out = outgoing(100)
    out.lie_in(buffer, budget)
    out.let_go()

    buffer.settle()

    assert budget.held == 0


def test_detached_bytes_are_a_copy_that_stays_right() -> None:
    """The receive buffer may be gone; the record batch is not."""
    budget = Budget(10_000)
    raw = bytearray(b"payload")
    out = Outgoing(memoryview(raw), 1, 1, 0, (), has_own_bytes=False)
    out.lie_in(Buffer(budget, 7), budget)
    out.detach(budget)
    raw[:] = b"xxxxxxx"

    assert bytes(out.view) == b"payload"
    out.detach(budget)
    out.let_go()
    out.let_go()
    assert budget.held == 0
