# SPDX-License-Identifier: Apache-2.0
"""Bytes that Java MM2 and Connect write, as published in their formats; ours must be the same."""

import pytest

from sparkmirror.errors import WireError
from sparkmirror.formats.mm2_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.model import Flow, TopicPartition

OFFSET_SYNC = OffsetSync(TopicPartition("topic-1", 2), upstream_offset=3, downstream_offset=4)
OFFSET_SYNC_KEY = bytes.fromhex("00 07 74 6f 70 69 63 2d 31 00 00 00 02")
OFFSET_SYNC_VALUE = bytes.fromhex("00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 04")

CHECKPOINT = Checkpoint("group-1", TopicPartition("topic-2", 3), 4, 5, "metadata-6")
CHECKPOINT_KEY = bytes.fromhex("00 07 67 72 6f 75 70 2d 31 00 07 74 6f 70 69 63 2d 32 00 00 00 03")
CHECKPOINT_VALUE = bytes.fromhex(
    "00 00 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 05 00 0a 6d 65 74 61 64 61 74 61 2d 36"
)

HEARTBEAT = Heartbeat(Flow("source-1", "target-2"), 1234567890)
HEARTBEAT_KEY = bytes.fromhex("00 08 73 6f 75 72 63 65 2d 31 00 08 74 61 72 67 65 74 2d 32")
HEARTBEAT_VALUE = bytes.fromhex("00 00 00 00 00 00 49 96 02 d2")

SOURCE_PARTITION = SourceOffsetKey(
    "MirrorSourceConnector", "primary", TopicPartition("test-topic-1", 0)
)
SOURCE_PARTITION_KEY = bytes.fromhex(
    "5b 22 4d 69 72 72 6f 72 53 6f 75 72 63 65 43 6f 6e 6e 65 63 74 6f 72 22 2c 7b 22 63 6c 75 73"
    "74 65 72 22 3a 22 70 72 69 6d 61 72 79 22 2c 22 70 61 72 74 69 74 69 6f 6e 22 3a 30 2c 22 74"
    "6f 70 69 63 22 3a 22 74 65 73 74 2d 74 6f 70 69 63 2d 31 22 7d 5d"
)
SOURCE_OFFSET_VALUE = bytes.fromhex("7b 22 6f 66 66 73 65 74 22 3a 34 31 7d")


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (OFFSET_SYNC, OFFSET_SYNC_KEY, OFFSET_SYNC_VALUE),
        (CHECKPOINT, CHECKPOINT_KEY, CHECKPOINT_VALUE),
        (HEARTBEAT, HEARTBEAT_KEY, HEARTBEAT_VALUE),
    ],
    ids=["offset sync", "checkpoint", "heartbeat"],
)
def test_binary_records_are_those_of_java(
    record: OffsetSync | Checkpoint | Heartbeat, key: bytes, value: bytes
) -> None:
    """Each record encodes to Java's bytes, and Java's bytes decode to the record."""
    assert (record.key(), record.value()) == (key, value)
    assert type(record).from_record(key, value) == record


def test_a_checkpoint_without_metadata_has_twenty_bytes() -> None:
    """Missing metadata is the empty text, two zero bytes at the end."""
    value = Checkpoint("g", TopicPartition("t", 0), 1, 2).value()
    assert len(value) == 20
    assert value.endswith(b"\x00\x00")


@pytest.mark.parametrize("record", [CHECKPOINT, HEARTBEAT], ids=["checkpoint", "heartbeat"])
def test_an_unknown_version_is_refused(record: Checkpoint | Heartbeat) -> None:
    """A value of a version that we do not know is never read as version 0."""
    newer = b"\x00\x01" + record.value()[2:]
    with pytest.raises(WireError, match="version 1; only version 0 is supported"):
        type(record).from_record(record.key(), newer)


def test_source_offset_keys_are_those_of_connect() -> None:
    """The key has Java's field order and lands in Java's partition."""
    assert SOURCE_PARTITION.key() == SOURCE_PARTITION_KEY
    assert SourceOffsetKey.from_key(SOURCE_PARTITION_KEY) == SOURCE_PARTITION
    assert partition_for_key(SOURCE_PARTITION_KEY, 25) == 14


def test_source_offset_values_are_those_of_connect() -> None:
    """Without a downstream offset the value is Java's; ours follows it as a second field."""
    assert StoredPosition(41).value() == SOURCE_OFFSET_VALUE
    assert StoredPosition.from_value(SOURCE_OFFSET_VALUE) == StoredPosition(41)
    assert StoredPosition(41, 777).value() == b'{"offset":41,"downstream":777}'


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        (b'["MirrorSourceConnector",{"cluster":"a","partition":0,"topic":"orders"}]', 20),
        (b'["MirrorSourceConnector",{"cluster":"a","partition":1,"topic":"orders"}]', 5),
        (b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"a","targetClusterAlias":"b"}]', 23),
    ],
)
def test_keys_lie_where_java_put_them(key: bytes, partition: int) -> None:
    """Keys and their partitions of 25 as found in mm2-offsets.a.internal after Java MM2 4.3.1."""
    assert partition_for_key(key, 25) == partition


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_partitioner_agrees_with_java(key: bytes, expected: int) -> None:
    """Known signed results of Java's hash, with every length of the last word."""
    assert partition_for_key(key, 1 << 31) == expected & 0x7FFFFFFF
