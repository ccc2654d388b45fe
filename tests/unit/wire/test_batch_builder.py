# SPDX-License-Identifier: Apache-2.0
"""Record batches of our own are read by another implementation as they were meant."""

from __future__ import annotations

from sparkmirror.wire.batch_builder import NewRecord, build_batch
from sparkmirror.wire.record_batch import stamp
from support.data.record_batches import decode, header

RECORDS = [
    NewRecord(b"k", b"v", [(b"a", b"1"), (b"a", b"2"), (b"none", None), (b"empty", b"")]),
    NewRecord(None, None),
    NewRecord(b"", b"x" * 100_000, [(b"long", b"y" * 300)]),
]


def test_keys_values_and_headers_are_all_there() -> None:
    """Null, empty, long; headers in order, repeated ones included."""
    batch = build_batch(RECORDS, 1_700_000_000_000)
    stamp(memoryview(batch), -1, -1, -1)
    read = decode(batch)
    assert [(one.key, one.value) for one in read] == [(one.key, one.value) for one in RECORDS]
    assert read[0].headers == (("a", b"1"), ("a", b"2"), ("none", None), ("empty", b""))
    assert read[1].headers == ()
    assert [one.offset for one in read] == [0, 1, 2]
    assert {one.timestamp for one in read} == {1_700_000_000_000}


def test_a_broker_would_take_the_header() -> None:
    """Offset 0, no holes, no compression."""
    batch = build_batch(RECORDS, 5)
    assert (header(batch).base_offset, header(batch).last_offset_delta) == (0, 2)
    assert header(batch).compression_type == 0
