# SPDX-License-Identifier: Apache-2.0
"""Which batches of a fetch response are copied, how far was read, and what is pinned."""

from __future__ import annotations

import itertools
import random
import struct
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.memory import BATCH_OVERHEAD_BYTES, MemoryBudget, SharedBuffer
from sparkmirror.wire.merge import MAX_TINY_BYTES, MAX_TINY_RECORDS
from sparkmirror.wire.outgoing import (
    AbortedTransaction,
    OutgoingBatch,
    PreparedBatches,
    merge_pending,
    prepare_batches,
    split_batch,
)
from sparkmirror.wire.record_batch import TRANSACTIONAL, stamp
from sparkmirror.wire.reframe import OffsetRun
from support.data.record_batches import (
    CODECS,
    GZIP,
    LZ4,
    NONE,
    ZSTD,
    decode,
    encode,
    header,
    marker,
    numbered,
)


def transactional(first: int, count: int, producer_id: int) -> bytearray:
    """Records of a transaction."""
    return encode(numbered(first, count), attributes=TRANSACTIONAL, producer=(producer_id, 0, 0))


def copied(admitted: PreparedBatches) -> list[int]:
    """The source offsets that are copied, in order, proven by the records themselves."""
    found = []
    for out in admitted.batches:
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

    admitted = prepare_batches(records, 0)

    assert [out.next_position for out in admitted.batches] == [3, 5]
    assert [out.runs for out in admitted.batches] == [(OffsetRun(0, 3),), (OffsetRun(3, 2),)]
    assert all(out.view.obj is records.obj for out in admitted.batches)
    assert (admitted.position, admitted.aborted_records) == (5, 0)
    assert copied(admitted) == [0, 1, 2, 3, 4]


def test_a_start_in_the_middle_takes_only_the_rest() -> None:
    """The broker serves the whole batch that holds the position."""
    admitted = prepare_batches(response(encode(numbered(0, 5)), encode(numbered(5, 2))), 3)

    assert copied(admitted) == [3, 4, 5, 6]
    assert admitted.position == 7


def test_batches_behind_the_position_are_ignored() -> None:
    """Nothing is copied twice, and the position never goes back."""
    admitted = prepare_batches(response(encode(numbered(0, 5)), encode(numbered(5, 2))), 5)

    assert copied(admitted) == [5, 6]
    assert prepare_batches(response(encode(numbered(0, 5))), 9) == PreparedBatches([], 9, 0)


def test_empty_batches_only_advance_the_position() -> None:
    """Compaction leaves batches without records."""
    empty = encode([], base_offset=3, last_offset=8)

    admitted = prepare_batches(response(encode(numbered(0, 3)), empty), 0)

    assert copied(admitted) == [0, 1, 2]
    assert admitted.position == 9


def test_a_batch_without_wanted_records_only_advances_the_position() -> None:
    """The records at the end of the batch were compacted away."""
    admitted = prepare_batches(response(encode(numbered(0, 3), last_offset=9)), 6)

    assert admitted == PreparedBatches([], 10, 0, leader_epoch=7)


def test_markers_only_advance_the_position() -> None:
    """Control batches are never produced."""
    records = response(transactional(0, 2, 7), marker(2, 7, commits=True), encode(numbered(3, 1)))

    admitted = prepare_batches(records, 0)

    assert copied(admitted) == [0, 1, 3]
    assert admitted.position == 4


def test_aborted_transactions_are_dropped_until_their_marker() -> None:
    """The same producer's next, committed transaction is copied."""
    records = response(
        transactional(0, 2, 7),
        transactional(2, 1, 7),
        marker(3, 7, commits=False),
        transactional(4, 2, 7),
        marker(6, 7, commits=True),
    )

    admitted = prepare_batches(records, 0, [AbortedTransaction(7, 0)])

    assert copied(admitted) == [4, 5]
    assert (admitted.position, admitted.aborted_records) == (7, 3)


def test_interleaved_producers_are_distinguished_whatever_the_lists_order() -> None:
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
        admitted = prepare_batches(response(*records), 0, order)
        assert copied(admitted) == [1, 3, 6, 12]
        assert (admitted.position, admitted.aborted_records) == (14, 5)


def test_a_transaction_that_spans_responses_stays_dropped() -> None:
    """Each response brings its own list; the second one names the transaction again."""
    aborted = [AbortedTransaction(7, 0)]
    first = prepare_batches(response(transactional(0, 3, 7), encode(numbered(3, 1))), 0, aborted)
    second = prepare_batches(
        response(transactional(4, 2, 7), marker(6, 7, commits=False), transactional(7, 1, 7)),
        first.position,
        aborted,
    )

    assert copied(first) == [3]
    assert copied(second) == [7]
    assert second.position == 8


def test_without_aborted_transactions_all_batches_but_markers_are_copied() -> None:
    """read_uncommitted."""
    records = response(transactional(0, 2, 7), marker(2, 7, commits=False))

    admitted = prepare_batches(records, 0)

    assert copied(admitted) == [0, 1]
    assert admitted.position == 3


@settings(max_examples=80)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_corrupt_batches_are_neither_copied_nor_skipped(place: int, bit: int) -> None:
    """Wherever a bit flips under the CRC, header included, reading stops before that batch."""
    good, bad = encode(numbered(0, 3)), encode(numbered(3, 3))
    bad[21 + place % (len(bad) - 21)] ^= 1 << bit

    admitted = prepare_batches(response(good, bad, encode(numbered(6, 2))), 0)

    assert copied(admitted) == [0, 1, 2]
    assert admitted.position == 3
    with pytest.raises(CorruptRecordBatchError):
        prepare_batches(response(bad), 3)


def test_a_marker_batch_that_the_cleaner_emptied_is_skipped() -> None:
    """The last batch of a producer is kept without its records, control bit and all."""
    emptied = encode([], base_offset=1, last_offset=1, attributes=0x30, producer=(7, 0, -1))

    admitted = prepare_batches(response(encode(numbered(0, 1)), emptied, encode(numbered(2, 1))), 0)

    assert copied(admitted) == [0, 2]
    assert admitted.position == 3


def test_a_reframed_batch_is_counted_by_its_own_size() -> None:
    """It does not lie in the response's buffer, which is free at once."""
    budget = MemoryBudget(10_000)
    (out,) = prepare_batches(response(encode(numbered(0, 5), last_offset=9)), 0).batches
    buffer = SharedBuffer(budget, 5_000)
    out.pin(buffer, budget)
    buffer.release_owner()

    assert budget.held == out.size + BATCH_OVERHEAD_BYTES
    out.release()
    assert budget.held == 0


def test_a_cut_off_batch_is_left_for_the_next_response() -> None:
    """The position stands before it."""
    cut = encode(numbered(3, 3))[:-1]

    admitted = prepare_batches(response(encode(numbered(0, 3)), cut), 0)

    assert copied(admitted) == [0, 1, 2]
    assert admitted.position == 3
    assert prepare_batches(response(cut), 3) == PreparedBatches([], 3, 0)


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
        admitted = prepare_batches(response(*batches[first:last]), position)
        assert admitted.position > position
        found += copied(admitted)
        position = admitted.position

    assert found == [one for one in wanted if one >= start]


def test_offsets_that_go_back_are_damage() -> None:
    """The base offset is not under the CRC: a batch must not be skipped because of a wrong one."""
    first, second = encode(numbered(5, 3)), encode(numbered(8, 3))
    struct.pack_into(">q", second, 0, 2)

    admitted = prepare_batches(response(first, second, encode(numbered(11, 1))), 5)

    assert copied(admitted) == [5, 6, 7]
    assert admitted.position == 8


# --- tiny ones


def sized(first: int, count: int, size: int, codec: int = NONE) -> bytearray:
    """Records that do not compress, as one batch."""
    rng = random.Random(first)
    records = [one._replace(value=rng.randbytes(size)) for one in numbered(first, count)]
    return encode(records, codec=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_tiny_neighbours_become_one(codec: int) -> None:
    """One batch of the same codec, one run, the bytes of all counted as read."""
    raw = [sized(offset, 1, 100, codec) for offset in range(100)]

    admitted = prepare_batches(response(*raw), 0)

    (out,) = admitted.batches
    assert (out.count, out.runs, out.next_position) == (100, (OffsetRun(0, 100),), 100)
    assert out.source_size == sum(len(one) for one in raw)
    assert out.owns_bytes
    assert out.size < out.source_size
    assert header(out.view).compression_type == codec
    assert copied(admitted) == list(range(100))


@pytest.mark.parametrize("codec", CODECS)
def test_a_tiny_one_alone_passes_as_it_is(codec: int) -> None:
    """The usual case of a flow that is not behind: no byte of the payload is touched."""
    records = response(encode(numbered(0, 1), codec=codec))

    (out,) = prepare_batches(records, 0).batches

    assert out.view.obj is records.obj
    assert out.source_size == out.size == len(records)


def test_markers_between_tiny_ones_do_not_keep_them_apart() -> None:
    """A transaction per record: the runs have gaps, the batch has none."""
    records = response(
        *(
            raw
            for offset in range(0, 20, 2)
            for raw in (transactional(offset, 1, 7), marker(offset + 1, 7, commits=True))
        )
    )

    admitted = prepare_batches(records, 0)

    assert len(admitted.batches) == 1
    assert copied(admitted) == list(range(0, 20, 2))
    assert admitted.position == 20


def test_tiny_ones_with_holes_are_joined_too() -> None:
    """What compaction leaves of a topic with few keys."""
    raw = [
        encode([numbered(first + 7, 1)[0]], base_offset=first, last_offset=first + 9)
        for first in range(0, 100, 10)
    ]

    admitted = prepare_batches(response(*raw), 0)

    assert len(admitted.batches) == 1
    assert copied(admitted) == list(range(7, 100, 10))


def test_a_tiny_one_without_wanted_records_leaves_no_trace() -> None:
    """Only the position moves past it."""
    gone = encode(numbered(0, 1), last_offset=5)
    kept = [encode(numbered(offset, 1)) for offset in (6, 7)]

    admitted = prepare_batches(response(gone, *kept), 3)

    (out,) = admitted.batches
    assert (out.runs, out.source_size) == ((OffsetRun(6, 2),), sum(len(one) for one in kept))


def test_large_ones_and_those_of_many_records_are_not_changed() -> None:
    """They pass raw between what is joined before and behind them."""
    raw = [
        *(encode(numbered(offset, 1)) for offset in range(3)),
        sized(3, 2, MAX_TINY_BYTES),
        sized(5, 2, MAX_TINY_BYTES),
        *(encode(numbered(offset, 1)) for offset in range(7, 10)),
        encode(numbered(10, MAX_TINY_RECORDS + 1)),
    ]
    records = response(*raw)

    admitted = prepare_batches(records, 0)

    assert [out.count for out in admitted.batches] == [3, 2, 2, 3, MAX_TINY_RECORDS + 1]
    assert [out.view.obj is records.obj for out in admitted.batches] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert copied(admitted) == list(range(10 + MAX_TINY_RECORDS + 1))


def test_another_codec_ends_the_row_unless_the_user_chose_one() -> None:
    """Two and two, or all four in the codec of compression.type."""
    raw = [encode(numbered(n, 1), codec=codec) for n, codec in enumerate((LZ4, LZ4, NONE, NONE))]

    assert [out.count for out in prepare_batches(response(*raw), 0).batches] == [2, 2]
    (out,) = prepare_batches(response(*raw), 0, codec=ZSTD).batches
    assert header(out.view).compression_type == ZSTD


def test_what_is_joined_stays_below_the_limit() -> None:
    """The limit is what the target takes."""
    raw = [sized(offset, 1, 100) for offset in range(200)]

    admitted = prepare_batches(response(*raw), 0, merged_bytes=5_000)

    sizes = [out.size for out in admitted.batches]
    assert max(sizes) <= 5_000
    assert min(sizes[:-1]) > 4_000
    assert copied(admitted) == list(range(200))


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_what_only_looks_tiny_is_not_joined(codec: int) -> None:
    """A megabyte of zeros is a tiny batch on the wire only."""
    raw = [
        encode([numbered(offset, 1)[0]._replace(value=bytes(1 << 20))], codec=codec)
        for offset in range(3)
    ]
    records = response(*raw)
    assert max(len(one) for one in raw) < 6_000

    admitted = prepare_batches(records, 0)

    assert [out.view.obj is records.obj for out in admitted.batches] == [True] * 3


def test_a_corrupt_batch_after_tiny_ones_stops_reading() -> None:
    """Its CRC fits, its record does not: those before it go on, the next fetch begins with it."""
    bad = encode(numbered(3, 1))
    bad[61] += 2  # the length of the record
    struct.pack_into(">I", bad, 17, calc_crc32c(bytes(bad[21:])))
    good = [encode(numbered(offset, 1)) for offset in range(3)]

    admitted = prepare_batches(response(*good, bad, encode(numbered(4, 1))), 0)

    assert copied(admitted) == [0, 1, 2]
    assert admitted.position == 3
    with pytest.raises(CorruptRecordBatchError, match="offset 3"):
        prepare_batches(response(bad), 3)


def queue(raw: list[bytearray], budget: MemoryBudget) -> deque[OutgoingBatch]:
    """What waits to be sent, a response each."""
    found: deque[OutgoingBatch] = deque()
    for one in raw:
        buffer = SharedBuffer(budget, 10_000)
        (out,) = prepare_batches(response(one), 0).batches
        out.pin(buffer, budget)
        buffer.release_owner()
        found.append(out)
    return found


def test_what_waits_is_joined_and_its_buffers_are_free() -> None:
    """Ten responses with a record each, all pinned, become one batch of its own size."""
    budget = MemoryBudget(1 << 30)
    pending = queue([encode(numbered(offset, 1)) for offset in range(10)], budget)
    assert budget.held == 100_000 + 10 * BATCH_OVERHEAD_BYTES

    merge_pending(pending, 512 << 10, budget)

    (out,) = pending
    assert budget.held == out.size + BATCH_OVERHEAD_BYTES
    assert (out.count, out.runs, out.next_position) == (10, (OffsetRun(0, 10),), 10)


def test_what_was_sent_is_never_joined() -> None:
    """A batch once sent keeps its cut until it is answered."""
    budget = MemoryBudget(1 << 30)
    pending = queue([encode(numbered(offset, 1)) for offset in range(4)], budget)
    pending[0].sequence = 0
    before = list(pending)

    merge_pending(pending, 512 << 10, budget)
    assert list(pending) == before

    pending.popleft()
    merge_pending(pending, 512 << 10, budget)
    assert [out.count for out in pending] == [3]


def test_many_small_queued_records_are_not_merged() -> None:
    """Compression makes them small, not cheap to cut."""
    budget = MemoryBudget(1 << 30)
    count = MAX_TINY_RECORDS + 1
    pending = queue([encode(numbered(n * count, count), codec=LZ4) for n in range(3)], budget)
    assert pending[0].size < MAX_TINY_BYTES

    merge_pending(pending, 512 << 10, budget)

    assert len(pending) == 3


def test_a_joined_one_can_be_joined_again() -> None:
    """Its own offsets are gone; the runs know them."""
    budget = MemoryBudget(1 << 30)
    pending = queue([encode(numbered(offset, 1)) for offset in (4, 5, 8)], budget)
    merge_pending(pending, 512 << 10, budget)
    pending.extend(queue([encode(numbered(9, 2))], budget))

    merge_pending(pending, 512 << 10, budget)

    (out,) = pending
    assert out.runs == (OffsetRun(4, 2), OffsetRun(8, 3))
    stamp(out.view, 1, 0, 0)
    assert [one.key for one in decode(out.view)] == [b"k4", b"k5", b"k8", b"k9", b"k10"]


def test_halves_carry_on_where_the_whole_stood() -> None:
    """Runs, positions and shares of a batch with a gap, cut in its middle."""
    budget = MemoryBudget(1 << 30)
    raw = encode([*numbered(0, 3), *numbered(10, 4)], last_offset=19)
    (out,) = prepare_batches(response(raw), 0).batches
    out.pin(None, budget)

    first, second = split_batch(out, budget)

    assert (first.runs, first.next_position) == ((OffsetRun(0, 3),), 3)
    assert (second.runs, second.next_position) == ((OffsetRun(10, 4),), 20)
    assert first.source_size + second.source_size == len(raw)
    assert budget.held == first.size + second.size + 2 * BATCH_OVERHEAD_BYTES


# --- what is held


def outgoing(size: int) -> OutgoingBatch:
    """A record batch of some size."""
    return OutgoingBatch(memoryview(bytearray(size)), 1, 1, 0, (), has_own_bytes=False)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("detached", [(), (0,), (1, 2), (0, 1, 2)])
def test_a_buffer_is_held_until_its_last_record_batch_lets_go(
    order: tuple[int, ...], detached: tuple[int, ...]
) -> None:
    """Whatever the order of acknowledgements, and whichever of them were moved out before."""
    budget = MemoryBudget(10_000)
    buffer = SharedBuffer(budget, 1_000)
    outs = [outgoing(100) for _ in range(3)]
    for out in outs:
        out.pin(buffer, budget)
    buffer.release_owner()
    assert budget.held == 1_000 + 3 * BATCH_OVERHEAD_BYTES

    for index in detached:
        outs[index].detach(budget)
    pinned = 0 if len(detached) == 3 else 1_000
    assert budget.held == pinned + 100 * len(detached) + 3 * BATCH_OVERHEAD_BYTES
    for index in order:
        outs[index].release()

    assert budget.held == 0
    assert budget.available == 10_000
    assert budget.reset_peak() >= 1_000
    assert budget.reset_peak() == 0


def test_a_buffer_in_which_nothing_was_kept_is_free_at_once() -> None:
    """Only markers, say."""
    budget = MemoryBudget(10_000)
    buffer = SharedBuffer(budget, 1_000)

    buffer.release_owner()

    assert budget.held == 0


def test_a_buffer_that_was_released_before_it_is_settled_is_freed_once() -> None:
    """Acknowledgements may be quicker than the rest of the response."""
    budget = MemoryBudget(10_000)
    buffer = SharedBuffer(budget, 1_000)
    out = outgoing(100)
    out.pin(buffer, budget)
    out.release()

    buffer.release_owner()

    assert budget.held == 0


@pytest.mark.parametrize(("gone", "held"), [(0, 400), (1, 400), (2, 200), (3, 100)])
def test_one_that_is_stuck_leaves_a_buffer_of_which_little_is_wanted(gone: int, held: int) -> None:
    """Copies of a buffer that all of them need would only take memory."""
    budget = MemoryBudget(10_000)
    buffer = SharedBuffer(budget, 400)
    outs = [outgoing(100) for _ in range(4)]
    for out in outs:
        out.pin(buffer, budget)
    buffer.release_owner()
    for out in outs[:gone]:
        out.release()

    for out in outs[gone:]:
        out.detach_if_sparse(budget)

    assert budget.held == held + (4 - gone) * BATCH_OVERHEAD_BYTES
    for out in outs[gone:]:
        out.release()
    assert budget.held == 0


def test_detached_bytes_are_a_copy_that_stays_right() -> None:
    """The receive buffer may be gone; the record batch is not."""
    budget = MemoryBudget(10_000)
    raw = bytearray(b"payload")
    out = OutgoingBatch(memoryview(raw), 1, 1, 0, (), has_own_bytes=False)
    buffer = SharedBuffer(budget, 7)
    out.pin(buffer, budget)
    buffer.release_owner()
    out.detach(budget)
    raw[:] = b"xxxxxxx"

    assert bytes(out.view) == b"payload"
    out.detach(budget)
    out.release()
    out.release()
    assert budget.held == 0


SKIPS = {-1: False, 1: False, 9: True}


def from_producer(producer: int, first: int, count: int = 2) -> bytearray:
    """A record batch of a producer; 9 belongs to a flow, 1 is local, others are unknown."""
    return encode(numbered(first, count), producer=(producer, 0, 0))


@pytest.mark.parametrize("merged_bytes", [0, 1 << 19])
def test_batches_of_skipped_producers_advance_the_position(merged_bytes: int) -> None:
    records = response(*(from_producer(one, 2 * n) for n, one in enumerate((9, 1, 9, 9, -1, 9))))
    admitted = prepare_batches(records, 1, merged_bytes=merged_bytes, skips=SKIPS)
    if not merged_bytes:  # a comparison counts the offsets between batches
        assert [out.skipped_offsets for out in admitted.batches] == [1, 4]
        assert admitted.skipped == 2
    assert copied(admitted) == [2, 3, 8, 9]
    assert admitted.position == 12
    assert admitted.skipped_batches == ((2, 2), (6, 2), (8, 2), (12, 2))
    assert not admitted.has_unknown_producer


@pytest.mark.parametrize("merged_bytes", [0, 1 << 19])
def test_an_unknown_producer_ends_the_result_before_its_batch(merged_bytes: int) -> None:
    records = response(*(from_producer(one, 2 * n) for n, one in enumerate((1, 9, 1, 5, 1, 9))))
    admitted = prepare_batches(records, 0, merged_bytes=merged_bytes, skips=SKIPS)
    assert copied(admitted) == [0, 1, 4, 5]
    assert (admitted.position, admitted.has_unknown_producer) == (6, True)
    records = response(*(from_producer(one, 2 * n) for n, one in enumerate((1, 9, 1, 5, 1, 9))))
    rest = prepare_batches(records, 6, merged_bytes=merged_bytes, skips=SKIPS | {5: True})
    assert copied(rest) == [8, 9]
    assert (rest.position, rest.has_unknown_producer) == (12, False)


def test_only_batches_with_wanted_records_need_a_known_producer() -> None:
    """Markers, emptied batches, aborted records and batches before the position do not."""
    records = response(
        from_producer(4, 0),
        transactional(2, 2, 5),
        marker(4, 5, commits=False),
        encode([], base_offset=5, last_offset=6, producer=(6, 0, 0)),
        marker(7, 8, commits=True),
        transactional(8, 2, 9),
        marker(10, 9, commits=True),
        from_producer(1, 11),
    )
    admitted = prepare_batches(records, 2, [AbortedTransaction(5, 2)], skips=SKIPS)
    assert copied(admitted) == [11, 12]
    assert admitted.skipped_batches == ((10, 2),)
    assert (admitted.aborted_records, admitted.has_unknown_producer) == (2, False)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from([-1, 1, 9, 5, 6]), st.integers(1, 5)), max_size=12))
def test_what_is_copied_depends_on_producers_only(batches: list[tuple[int, int]]) -> None:
    """In any order, one response after the other, merged or not."""
    truth = {-1: False, 1: False, 9: True, 5: False, 6: True}
    firsts = [*itertools.accumulate((size for _, size in batches), initial=0)]
    for merged_bytes in (0, 1 << 19):
        known, position, found = dict(SKIPS), 0, []
        while position < firsts[-1]:
            records = response(
                *(
                    from_producer(one, at, size)
                    for (one, size), at in zip(batches, firsts, strict=False)
                )
            )
            admitted = prepare_batches(records, position, merged_bytes=merged_bytes, skips=known)
            found += copied(admitted)
            position = admitted.position
            if admitted.has_unknown_producer:
                index = firsts.index(position)
                known[batches[index][0]] = truth[batches[index][0]]
        assert found == [
            offset
            for (one, size), at in zip(batches, firsts, strict=False)
            for offset in range(at, at + size)
            if not truth[one]
        ]
