# SPDX-License-Identifier: Apache-2.0
"""Offset syncs, checkpoints and heartbeats: decoding undoes encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.mm2_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.formats.primitives import FieldReader, pack_int16, pack_string
from sparkmirror.model import Flow, TopicPartition

texts = st.text(max_size=300)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
partitions = st.builds(TopicPartition, texts, int32s)


@given(st.builds(OffsetSync, partitions, int64s, int64s))
def test_an_offset_sync_comes_back(record: OffsetSync) -> None:
    """Decoding undoes encoding."""
    assert OffsetSync.from_record(record.key(), record.value()) == record


@given(st.builds(Checkpoint, texts, partitions, int64s, int64s, texts))
def test_a_checkpoint_comes_back(record: Checkpoint) -> None:
    """Decoding undoes encoding."""
    assert Checkpoint.from_record(record.key(), record.value()) == record


@given(st.builds(Heartbeat, st.builds(Flow, texts, texts), int64s))
def test_a_heartbeat_comes_back(record: Heartbeat) -> None:
    """Decoding undoes encoding."""
    assert Heartbeat.from_record(record.key(), record.value()) == record


@given(st.builds(Checkpoint, texts, partitions, int64s, int64s, texts), st.data())
def test_a_cut_value_is_refused(record: Checkpoint, data: st.DataObject) -> None:
    """A truncated value is an error, never a shorter record."""
    value = record.value()
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    with pytest.raises(WireError, match="The value of a checkpoint"):
        Checkpoint.from_record(record.key(), cut)


def test_bytes_after_the_last_field_are_ignored() -> None:
    """Java readers do the same, so that fields can be added."""
    record = OffsetSync(TopicPartition("t", 1), 2, 3)
    assert OffsetSync.from_record(record.key() + b"x", record.value() + b"yz") == record


def test_a_text_that_is_too_long_is_refused() -> None:
    """The length field holds 32,767 bytes; one more must not wrap around."""
    assert len(pack_string("x" * 32_767)) == 32_769
    with pytest.raises(WireError, match="32768 bytes"):
        pack_string("x" * 32_768)


def test_a_number_that_does_not_fit_is_refused() -> None:
    """An overflow is an error."""
    with pytest.raises(WireError, match="40000"):
        pack_int16(40_000)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(b"\xff\xff", "negative length -1"), (b"\x00\x02\xc3\x28", "not UTF-8")],
)
def test_a_broken_text_is_refused(data: bytes, complaint: str) -> None:
    """The error names the record and the problem."""
    with pytest.raises(WireError, match=f"This key .*{complaint}"):
        FieldReader(data, "This key").string()
