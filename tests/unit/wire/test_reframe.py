# SPDX-License-Identifier: Apache-2.0
"""Record batches cut again, read back by kafka-python."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.record_batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    RecordBatch,
    stamp,
)
from sparkmirror.wire.reframe import OffsetRun, ReframedBatch, needs_reframe, reframe
from support.data.record_batches import CODECS, LZ4, NONE, Record, decode, encode, header, numbered

TEXT = st.text(max_size=8)
MAYBE_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(TEXT, MAYBE_BYTES), max_size=3).map(tuple)


@st.composite
def thinned_logs(draw: st.DrawFn) -> tuple[list[Record], int, int]:
    """Records with offset holes, the batch's first offset and its last one."""
    base = draw(st.integers(0, 2**40))
    gaps = draw(st.lists(st.integers(1, 300), min_size=1, max_size=25))
    time = draw(st.integers(1, 2**42))
    records, offset = [], base + draw(st.integers(-1, 5))
    for gap in gaps:
        offset += gap
        records.append(
            Record(
                offset,
                max(1, time + draw(st.integers(-(2**33), 2**33))),
                draw(MAYBE_BYTES),
                draw(MAYBE_BYTES),
                draw(HEADERS),
            )
        )
    return records, base, offset + draw(st.integers(0, 300))


def resealed(new: ReframedBatch) -> list[Record]:
    """What a consumer of the target reads."""
    stamp(new.view, 1, 0, 0)
    return decode(new.view)


def expected(records: list[Record]) -> list[Record]:
    """The same records with consecutive offsets from zero."""
    return [one._replace(offset=index) for index, one in enumerate(records)]


def offsets(runs: tuple[OffsetRun, ...]) -> list[int]:
    """Every source offset that runs cover."""
    return [offset for run in runs for offset in range(run.first, run.first + run.length)]


@settings(max_examples=60)
@given(log=thinned_logs(), codec=st.sampled_from(CODECS), share=st.floats(0, 1))
def test_the_wanted_records_come_through_whole(
    log: tuple[list[Record], int, int], codec: int, share: float
) -> None:
    """Keys, values, headers and times are equal, offsets are 0..n-1, runs name the source's."""
    records, base, last = log
    batch = RecordBatch(
        memoryview(encode(records, base_offset=base, last_offset=last, codec=codec))
    )
    start = base + int((last + 1 - base) * share)
    wanted = [one for one in records if one.offset >= start]

    new = reframe(batch, start)

    if new is None:
        assert wanted == []
        return
    assert resealed(new) == expected(wanted)
    assert offsets(new.runs) == [one.offset for one in wanted]
    assert all(
        later.first > earlier.first + earlier.length
        for earlier, later in zip(new.runs, new.runs[1:], strict=False)
    ), "neighbouring runs are one run"
    after = header(new.view)
    assert (new.records, after.records_count, after.last_offset_delta) == (
        len(wanted),
        len(wanted),
        len(wanted) - 1,
    )
    assert after.compression_type == codec
    assert after.max_timestamp == max(one.timestamp for one in wanted)


@settings(max_examples=50)
@given(log=thinned_logs(), codec=st.sampled_from(CODECS), append_time=st.integers(1, 2**42))
def test_log_append_time_is_stamped_on_every_record(
    log: tuple[list[Record], int, int], codec: int, append_time: int
) -> None:
    """What a consumer of the source sees is what one of the target sees, with the bit gone."""
    records, base, last = log
    raw = encode(
        records,
        base_offset=base,
        last_offset=last,
        codec=codec,
        attributes=LOG_APPEND_TIME,
        max_timestamp=append_time,
    )

    new = reframe(RecordBatch(memoryview(raw)), base)

    assert new is not None
    assert resealed(new) == expected([one._replace(timestamp=append_time) for one in records])
    assert not header(new.view).attributes & LOG_APPEND_TIME
    assert header(new.view).max_timestamp == append_time


@pytest.mark.parametrize("codec", CODECS)
def test_the_source_view_is_not_changed(codec: int) -> None:
    """A reframed batch has bytes of its own; a second try from the same buffer works."""
    raw = encode([one for one in numbered(0, 9) if one.offset != 4], codec=codec)
    before = bytes(raw)
    new = reframe(RecordBatch(memoryview(raw)), 0)
    assert new is not None
    stamp(new.view, 1, 0, 0)

    assert bytes(raw) == before


def test_runs_break_at_holes() -> None:
    """Offsets 3-5, 7 and 9-10 are three runs."""
    records = [one for one in numbered(0, 11) if one.offset in {3, 4, 5, 7, 9, 10}]

    new = reframe(RecordBatch(memoryview(encode(records, base_offset=0))), 0)

    assert new is not None
    assert new.runs == (OffsetRun(3, 3), OffsetRun(7, 1), OffsetRun(9, 2))


def test_transactional_and_delete_horizon_bits_do_not_reach_the_target() -> None:
    """They survive the cut and are cleared when the batch is stamped."""
    raw = encode(
        [one for one in numbered(0, 5) if one.offset != 2],
        attributes=TRANSACTIONAL | DELETE_HORIZON,
    )
    new = reframe(RecordBatch(memoryview(raw)), 0)
    assert new is not None
    stamp(new.view, 1, 0, 0)

    assert header(new.view).attributes == NONE


def test_only_batches_that_cannot_pass_are_reframed() -> None:
    """Holes, a start in the middle, or LogAppendTime; nothing else."""
    whole = RecordBatch(memoryview(encode(numbered(10, 5))))
    holes = RecordBatch(memoryview(encode(numbered(10, 5), last_offset=20)))
    stamped = RecordBatch(memoryview(encode(numbered(10, 5), attributes=LOG_APPEND_TIME)))

    assert not needs_reframe(whole, 10)
    assert not needs_reframe(whole, 3)
    assert needs_reframe(whole, 11)
    assert needs_reframe(holes, 10)
    assert needs_reframe(stamped, 10)


def test_nothing_is_left_when_all_records_lie_before_the_start() -> None:
    """The last offsets of the batch were compacted away."""
    batch = RecordBatch(memoryview(encode(numbered(0, 3), last_offset=9)))

    assert reframe(batch, 5) is None


def test_fewer_records_than_the_header_counts_are_refused() -> None:
    """The records end too early although the CRC is right."""
    raw = encode(numbered(0, 3), last_offset=9)
    batch = RecordBatch(memoryview(raw))
    batch.count = 4

    with pytest.raises(CorruptRecordBatchError, match="end too early"):
        reframe(batch, 0)


def test_another_codec_is_a_reason_only_if_one_was_chosen() -> None:
    """compression.type unset keeps what the source has."""
    packed = RecordBatch(memoryview(encode(numbered(10, 5), codec=LZ4)))

    assert not needs_reframe(packed, 10)
    assert not needs_reframe(packed, 10, codec=LZ4)
    assert needs_reframe(packed, 10, codec=NONE)


@pytest.mark.parametrize("old", CODECS)
@pytest.mark.parametrize("new", CODECS)
def test_any_codec_becomes_any_other(old: int, new: int) -> None:
    """Records, times and offsets are untouched."""
    records = numbered(10, 50)

    found = reframe(RecordBatch(memoryview(encode(records, codec=old))), 0, codec=new)

    assert found is not None
    assert resealed(found) == expected(records)
    assert found.runs == (OffsetRun(10, 50),)
    assert header(found.view).compression_type == new


def test_more_records_than_the_header_counts_are_refused() -> None:
    """Nothing is cut off silently."""
    batch = RecordBatch(memoryview(encode(numbered(0, 3), last_offset=9)))
    batch.count = 2

    with pytest.raises(CorruptRecordBatchError, match="more than its header says"):
        reframe(batch, 0)


def test_offsets_that_do_not_ascend_are_refused() -> None:
    """The map of offsets could not be right."""
    first, second = numbered(0, 2)
    raw = encode([first._replace(offset=1), second._replace(offset=0)], base_offset=0)

    with pytest.raises(CorruptRecordBatchError, match="invalid lengths"):
        reframe(RecordBatch(memoryview(raw)), 0)
