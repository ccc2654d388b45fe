# SPDX-License-Identifier: Apache-2.0
"""Bytes that Java MM2 really wrote: they decode to what Java says of them, and encode back.

`tools/capture_golden.py` has written the file, and says how.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.formats.connect_json import decode, encode
from sparkmirror.formats.mm2_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.model import TopicPartition

GOLDEN = json.loads((Path(__file__).parent / "golden" / "mm2.json").read_text(encoding="utf-8"))
FORMATS: dict[str, type[OffsetSync | Checkpoint | Heartbeat]] = {
    "offset sync": OffsetSync,
    "checkpoint": Checkpoint,
    "heartbeat": Heartbeat,
}
BINARY = [one for one in GOLDEN["records"] if one["kind"] in FORMATS]
STORED = [one for one in GOLDEN["records"] if one["kind"] == "stored offset"]
FIXED_OFFSET = encode({"offset": 0})  # Connect demands an offset of every record


def parts(golden: dict[str, Any]) -> tuple[bytes, bytes]:
    """Key and value."""
    return bytes.fromhex(golden["key"]), bytes.fromhex(golden["value"])


def printed(record: OffsetSync | Checkpoint | Heartbeat) -> str:
    """What MM2's formatters say of a record."""
    match record:
        case OffsetSync(tp, upstream, downstream):
            return (
                f"OffsetSync{{topicPartition={tp}, upstreamOffset={upstream}, "
                f"downstreamOffset={downstream}}}"
            )
        case Checkpoint(group, tp, upstream, downstream, metadata):
            return (
                f"Checkpoint{{consumerGroupId={group}, topicPartition={tp}, "
                f"upstreamOffset={upstream}, downstreamOffset={downstream}, metadata={metadata}}}"
            )
        case Heartbeat(flow, timestamp_ms):
            return (
                f"Heartbeat{{sourceClusterAlias={flow.source}, "
                f"targetClusterAlias={flow.target}, timestamp={timestamp_ms}}}"
            )


@pytest.mark.parametrize("golden", BINARY, ids=lambda golden: golden["printed"])
def test_binary_records_decode_to_what_java_says_and_encode_to_the_same_bytes(
    golden: dict[str, Any],
) -> None:
    """Offset syncs, checkpoints with and without metadata, heartbeats."""
    key, value = parts(golden)
    record = FORMATS[golden["kind"]].from_record(key, value)
    assert printed(record) == golden["printed"]
    assert (record.key(), record.value()) == (key, value)


@pytest.mark.parametrize("golden", STORED, ids=lambda golden: golden["key"])
def test_stored_offsets_decode_and_encode_to_the_same_bytes(golden: dict[str, Any]) -> None:
    """Of all three connectors; and they lie in the partition that we would choose."""
    key, value = parts(golden)
    assert partition_for_key(key, GOLDEN["offsets partitions"]) == golden["partition"]
    assert encode(decode(key, "key")) == key
    connector, fields = json.loads(key)
    match fields:
        case {"cluster": "primary", "partition": partition, "topic": topic}:
            named = SourceOffsetKey(connector, "primary", TopicPartition(topic, partition))
            assert SourceOffsetKey.from_key(key) == named
            position = StoredPosition.from_value(value)
            assert position.is_foreign
            assert position.value() == value
            assert named.key() == key
        case {"partition": partition, "topic": topic, "group": group}:
            fields = {"partition": partition, "topic": topic, "group": group}
            assert (encode([connector, fields]), FIXED_OFFSET) == (key, value)
        case {"sourceClusterAlias": source, "targetClusterAlias": target}:
            fields = {"sourceClusterAlias": source, "targetClusterAlias": target}
            assert (encode([connector, fields]), FIXED_OFFSET) == (key, value)
        case _:
            pytest.fail(f"an unknown key: {key!r}")


def test_every_kind_of_record_was_captured() -> None:
    """A file that lacks a kind would prove less than it seems to."""
    assert {one["kind"] for one in BINARY} == FORMATS.keys()
    checkpoints = [
        Checkpoint.from_record(*parts(one)) for one in BINARY if "Chec" in one["printed"]
    ]
    assert {bool(one.metadata) for one in checkpoints} == {True, False}
    connectors = {json.loads(parts(one)[0])[0] for one in STORED}
    names = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
    assert connectors == set(names)
    assert GOLDEN["kafka"] == "4.3.1"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("\\u001f", rb'"\\u001f"'),
        ("\x1f\t\x7f", b'"\\u001F\\t\x7f"'),
        ("\U0010ffff/", b'"\\uDBFF\\uDFFF/"'),
        ("ü\u2028", '"ü\u2028"'.encode()),
    ],
    ids=["a backslash", "control characters", "beyond the first plane", "in the first plane"],
)
def test_json_has_the_escapes_of_java(text: str, written: bytes) -> None:
    """Upper-case digits, pairs for what lies beyond the first plane, nothing else."""
    assert encode(text) == written
    assert decode(written, "text") == text
