# SPDX-License-Identifier: Apache-2.0
"""Whatever a record batch holds, and however it is cut, every record comes through as it was.

Generated record batches of every codec: null and empty keys and values, headers that repeat, are
null, empty or not UTF-8, times anywhere in 64 bits, offset holes. Read back by code that shares
nothing with the package.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections import deque

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.memory import BATCH_OVERHEAD_BYTES, MemoryBudget, SharedBuffer
from sparkmirror.wire.outgoing import OutgoingBatch, merge_pending, prepare_batches, split_batch
from sparkmirror.wire.record_batch import RecordBatch, stamp
from sparkmirror.wire.records import decode_records, raw_records
from sparkmirror.wire.reframe import (
    OffsetRun,
    needs_reframe,
    reframe,
    split_batch_view,
)
from support.data.record_batches import CODECS, header, seal
from support.data.record_strategies import (
    GeneratedBatch,
    GeneratedRecord,
    batches,
    decode_batch,
    encode_batch,
    logs,
)

CODEC = st.none() | st.sampled_from(CODECS)
CRC_START = 21
LIMIT = st.sampled_from([0, 150, 400, 2_000, 512 << 10])
quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def arrived(view: memoryview) -> list[GeneratedRecord]:
    """What a consumer of the target reads."""
    stamp(view, 1, 0, 0)
    return decode_batch(view)


def unnumbered(records: list[GeneratedRecord]) -> list[GeneratedRecord]:
    """The same records without their offsets."""
    return [one._replace(offset=0) for one in records]


def numbered_anew(records: list[GeneratedRecord]) -> list[GeneratedRecord]:
    """The same records with consecutive offsets from zero."""
    return [one._replace(offset=number) for number, one in enumerate(records)]


def offsets(runs: tuple[OffsetRun, ...]) -> list[int]:
    """Every source offset that runs cover."""
    return [offset for run in runs for offset in range(run.first, run.first + run.length)]


def response(log: list[GeneratedBatch]) -> memoryview:
    """The log in one fetch response."""
    return memoryview(bytearray(b"".join(one.raw for one in log)))


def check_line(outs: list[OutgoingBatch], wanted: list[GeneratedRecord]) -> None:
    """What goes out is exactly these records, and every account of them is right."""
    found: list[GeneratedRecord] = []
    for out in outs:
        records = arrived(out.view)
        head = header(out.view)
        assert [one.offset for one in records] == list(range(out.count))
        assert (head.records_count, head.last_offset_delta) == (out.count, out.count - 1)
        assert head.max_timestamp == max(one.timestamp for one in records)
        assert head.attributes == head.compression_type, "no bit but the codec"
        assert out.size == len(out.view)
        source = offsets(out.runs)
        assert len(source) == out.count
        assert out.next_position > source[-1]
        assert all(
            later.first > earlier.first + earlier.length
            for earlier, later in itertools.pairwise(out.runs)
        ), "neighbouring runs are one run"
        found += [one._replace(offset=offset) for one, offset in zip(records, source, strict=True)]
    assert found == wanted


@quick
@given(one=batches())
def test_frames_and_records_are_what_another_reader_finds(one: GeneratedBatch) -> None:
    """Offsets, times, keys, values, headers and attributes."""
    view = memoryview(one.raw)
    expected = one.records
    assert decode_batch(view) == expected

    assert [
        GeneratedRecord(0, r.timestamp, r.key, r.value, tuple(r.headers), r.attributes)
        for r in decode_records(view)
    ] == unnumbered(expected)
    seen = list(raw_records(view, 1_000))
    assert [(frame.offset, frame.timestamp) for frame in seen] == [
        (1_000 + r.offset - one.base_offset, r.timestamp) for r in expected
    ]


@quick
@given(one=batches(may_have_holes=False), codec=st.sampled_from(CODECS), data=st.data())
def test_frames_do_not_depend_on_the_cut(
    one: GeneratedBatch, codec: int, data: st.DataObject
) -> None:
    """The same records in another codec and in other batches have the same frames."""
    whole = list(raw_records(memoryview(one.raw)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole)), max_size=3)) - {len(whole)})
    new = reframe(RecordBatch(memoryview(one.raw)), 0, codec=codec)
    assert new is not None

    pieces = split_batch_view(new.view, cuts)

    starts = (0, *cuts)
    assert whole == [
        frame
        for view, first in zip(pieces, starts, strict=True)
        for frame in raw_records(view, first)
    ]


@quick
@given(one=batches(5), codec=CODEC, share=st.floats(0, 1))
def test_reframing_keeps_every_wanted_record(
    one: GeneratedBatch, codec: int | None, share: float
) -> None:
    """From any start, into any codec; what needs no reframing keeps its bytes of payload."""
    batch = RecordBatch(memoryview(one.raw))
    start = one.base_offset + int((one.last_offset + 1 - one.base_offset) * share)
    wanted = [r for r in one.records if r.offset >= start]
    before = bytes(one.raw)

    new = reframe(batch, start, codec=codec)

    assert bytes(one.raw) == before
    if new is None:
        assert wanted == []
        return
    assert arrived(new.view) == numbered_anew(wanted)
    assert offsets(new.runs) == [r.offset for r in wanted]
    assert new.records == len(wanted)
    assert header(new.view).compression_type == (one.codec if codec is None else codec)
    assert not needs_reframe(RecordBatch(new.view), 0, codec=codec)


@quick
@given(log=logs(), codec=CODEC, limit=LIMIT, share=st.floats(0, 1))
def test_a_response_comes_through_whole(
    log: list[GeneratedBatch], codec: int | None, limit: int, share: float
) -> None:
    """Passed on, joined, reframed, in any codec: the records from the position on, in order."""
    first, after = log[0].base_offset, log[-1].last_offset + 1
    position = first + int((after - first) * share)
    wanted = [r for one in log for r in one.records if r.offset >= position]

    admitted = prepare_batches(response(log), position, codec=codec, merged_bytes=limit)

    assert (admitted.position, admitted.leader_epoch) == (
        max(position, after),
        3 if position < after else -1,
    )
    check_line(admitted.batches, wanted)
    sources = [one for one in log if any(r.offset >= position for r in one.records)]
    assert sum(out.source_size for out in admitted.batches) == sum(len(one.raw) for one in sources)
    if codec is not None:
        assert {header(out.view).compression_type for out in admitted.batches} <= {codec}
    if limit == 0:
        assert len(admitted.batches) == len(sources)
    positions = [out.next_position for out in admitted.batches]
    assert positions == sorted(positions)


@quick
@given(log=logs(most=12), limit=LIMIT, tiny=st.sampled_from([300, 4_096]), data=st.data())
def test_joining_what_waits_changes_no_record(
    log: list[GeneratedBatch], limit: int, tiny: int, data: st.DataObject
) -> None:
    """Any queue, some of it sent before: the same records, accounts and memory."""
    budget = MemoryBudget(1 << 30)
    pending: deque[OutgoingBatch] = deque()
    for one in log:  # a response each, so that nothing is joined yet
        buffer = SharedBuffer(budget, len(one.raw))
        for out in prepare_batches(memoryview(bytearray(one.raw)), one.base_offset).batches:
            out.fetched_at = data.draw(st.floats(0, 100))
            out.pin(buffer, budget)
            pending.append(out)
        buffer.release_owner()
    sent = data.draw(st.sampled_from([0, 0, 0, 0, 1]))
    for out in itertools.islice(pending, sent):
        out.sequence = 7
    before = list(pending)
    fetched = [out.fetched_at for out in before]

    merge_pending(pending, limit, budget, tiny_bytes=tiny, tiny_records=30)

    joined = len(before) - len(pending) + 1
    if joined > 1:
        assert all(
            out.sequence == -1 and out.size <= tiny and out.count <= 30 for out in before[:joined]
        )
        assert pending[0].size <= limit + 200, "compression may add a little"
        assert pending[0].fetched_at == min(fetched[:joined])
        assert pending[0].next_position == before[joined - 1].next_position
        assert pending[0].owns_bytes
        assert pending[0].sequence == -1
    assert list(pending)[1:] == before[joined:]
    assert sum(out.source_size for out in pending) == sum(len(one.raw) for one in log)
    check_line(list(pending), [r for one in log for r in one.records])
    for out in pending:
        out.release()
    assert budget.held == 0


@quick
@given(log=logs(most=5), data=st.data())
def test_pieces_are_the_whole(log: list[GeneratedBatch], data: st.DataObject) -> None:
    """Cut anywhere, with the right source offsets, positions and shares of memory."""
    budget = MemoryBudget(1 << 30)
    for out in prepare_batches(response(log), log[0].base_offset).batches:
        cuts = sorted(data.draw(st.sets(st.integers(1, out.count), max_size=4)) - {out.count})
        wanted = [r for one in log for r in one.records if r.offset in set(offsets(out.runs))]
        stamp(out.view, 1, 0, 0)
        out.sequence = 5
        out.fetched_at = data.draw(st.floats(0, 100))
        buffer = SharedBuffer(budget, 10_000)
        out.pin(buffer, budget)
        buffer.release_owner()

        pieces = split_batch(out, budget, cuts)

        assert len(pieces) == len(cuts) + 1
        check_line(pieces, wanted)
        assert sum(piece.source_size for piece in pieces) == out.source_size
        assert [piece.next_position for piece in pieces] == [
            *(offsets(piece.runs)[-1] + 1 for piece in pieces[:-1]),
            out.next_position,
        ]
        assert {piece.fetched_at for piece in pieces} == {out.fetched_at}
        assert {piece.sequence for piece in pieces} == {-1}
        assert budget.held == sum(piece.size + BATCH_OVERHEAD_BYTES for piece in pieces)
        for piece in pieces:
            piece.release()
    assert budget.held == 0


# --- damage


def everything(raw: bytes) -> None:
    """Every function that looks at bytes from outside."""
    view = memoryview(bytearray(raw))
    for work in (
        lambda: list(raw_records(view)),
        lambda: decode_records(view),
        lambda: prepare_batches(view, 0),
        lambda: prepare_batches(view, 0, codec=3),
        lambda: split_batch_view(view, (1,)),
        lambda: reframe(RecordBatch(view), 0),
        lambda: RecordBatch(view).is_abort_marker(),
    ):
        try:
            work()
        except CorruptRecordBatchError as error:
            assert str(error)  # noqa: PT017 - either outcome is fine


def sealed(raw: bytearray) -> bytes:
    """With a CRC that fits: what a broken producer could have written."""
    if len(raw) > CRC_START:
        struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[CRC_START:])))
    return bytes(raw)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    one=batches(most=6),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=4),
    kept=st.floats(0, 1),
    is_cut=st.booleans(),
    is_sealed=st.booleans(),
)
def test_damage_is_named_and_nothing_else_happens(
    one: GeneratedBatch,
    flips: list[tuple[int, int]],
    kept: float,
    is_cut: bool,
    is_sealed: bool,
) -> None:
    """Flipped bytes, cut-off batches, with a CRC that fits or not: CorruptRecordBatchError only."""
    raw = bytearray(one.raw)
    for place, mask in flips:
        raw[place % len(raw)] ^= mask
    if is_cut:
        del raw[int(len(raw) * kept) :]

    everything(sealed(raw) if is_sealed else bytes(raw))


@settings(max_examples=25, deadline=None)
@given(body=st.binary(max_size=60), count=st.integers(-2, 2**31 - 1), codec=st.integers(0, 7))
def test_noise_in_the_place_of_records_is_refused(body: bytes, count: int, codec: int) -> None:
    """Any bytes behind a header that is right, whatever number of records it claims."""
    everything(
        bytes(
            seal(
                body,
                base_offset=0,
                last_offset_delta=max(0, count - 1),
                leader_epoch=3,
                attributes=codec,
                times=(0, 0),
                producer=(-1, -1, -1),
                count=count,
            )
        )
    )


# --- large ones


@pytest.mark.parametrize("codec", CODECS)
def test_ten_thousand_records_in_a_batch_are_cut_like_few(codec: int) -> None:
    """Offset deltas of three bytes, with holes, halved and halved again."""
    rng = random.Random(1)
    records = [
        GeneratedRecord(2 * n, 1_700_000_000_000 + n, b"%d" % n, rng.randbytes(rng.randrange(60)))
        for n in range(10_000)
    ]
    one = encode_batch(
        records,
        base_offset=0,
        last_offset=20_000,
        codec=codec,
        base_timestamp=1_700_000_000_000,
    )
    budget = MemoryBudget(1 << 30)
    (out,) = prepare_batches(memoryview(one.raw), 0).batches
    out.pin(None, budget)

    halves = split_batch(out, budget)
    quarters = [piece for half in halves for piece in split_batch(half, budget)]

    assert [piece.count for piece in quarters] == [2_500] * 4
    check_line(quarters, records)
    assert budget.held == sum(piece.size + BATCH_OVERHEAD_BYTES for piece in quarters)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_of_a_megabyte_is_moved_like_a_small_one(codec: int) -> None:
    """With a hole before it, so that it has to be cut again; alone, it cannot be halved."""
    value = random.Random(2).randbytes(1 << 20)
    records = [GeneratedRecord(3, 5, None, value, ((b"h", None),))]
    one = encode_batch(records, base_offset=0, last_offset=3, codec=codec)
    budget = MemoryBudget(1 << 30)
    (out,) = prepare_batches(memoryview(one.raw), 0).batches
    out.pin(None, budget)

    (piece,) = split_batch(out, budget)

    check_line([piece], records)
    assert decode_records(piece.view)[0].value == value


def test_times_that_overflow_64_bits_are_javas() -> None:
    """A delta from one end of time to the other wraps, and so does what is made of it."""
    low, high = -(2**63), 2**63 - 1
    log = [
        encode_batch(
            [GeneratedRecord(0, low, b"k", b"low")],
            base_offset=0,
            last_offset=0,
            base_timestamp=low,
        ),
        encode_batch(
            [GeneratedRecord(1, high, b"k", b"high")],
            base_offset=1,
            last_offset=1,
            base_timestamp=high,
        ),
    ]

    (out,) = prepare_batches(response(log), 0).batches

    assert [frame.timestamp for frame in raw_records(out.view)] == [low, high]
    assert [record.timestamp for record in decode_records(out.view)] == [low, high]
