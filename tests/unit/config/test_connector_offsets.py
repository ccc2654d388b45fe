# SPDX-License-Identifier: Apache-2.0
"""Offsets set by hand: accepted and refused as by Java's connectors, stored under Java's keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.connect.offset_alterations import OffsetEntry, OffsetRecord, offset_records
from sparkmirror.errors import ArgumentError
from sparkmirror.formats.connect_json import encode
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.model import TopicPartition

CASES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "connect.json").read_text("utf-8")
)["offsets"]
SOURCE = {"topic": "t", "partition": 3, "cluster": "a"}


def entries(case: list[dict[str, Any]]) -> list[OffsetEntry]:
    """A request's entries; what is not there is null."""
    return [OffsetEntry(one.get("partition"), one.get("offset")) for one in case]


@pytest.mark.parametrize("tag", CASES)
def test_a_request_is_answered_as_by_java(tag: str) -> None:
    """The sentence word by word; it becomes the message of an error 500."""
    case = CASES[tag]
    kind = ConnectorClass(case["class"])
    if case["status"] == 200:
        assert offset_records(kind, "x", entries(case["offsets"]))
        return
    with pytest.raises(ArgumentError) as caught:
        offset_records(kind, "x", entries(case["offsets"]))
    assert str(caught.value) == case["message"]


def test_a_position_of_the_source_is_stored_under_javas_key() -> None:
    """Whatever the order of the request's fields."""
    (change,) = offset_records(ConnectorClass.SOURCE, "m", [OffsetEntry(SOURCE, {"offset": 41})])
    assert change.key == SourceOffsetKey("m", "a", TopicPartition("t", 3)).key()
    assert change.value == StoredPosition(41).value()


def test_what_belongs_to_another_offset_is_left_out() -> None:
    """A position of ours, read over REST, changed and sent back."""
    offset = {"offset": 7, "downstream": 9, "producer": 1, "epoch": 0, "sequence": 4}
    (change,) = offset_records(ConnectorClass.SOURCE, "m", [OffsetEntry(SOURCE, offset)])
    assert change.value is not None
    assert StoredPosition.from_value(change.value).is_foreign


def test_the_other_connectors_store_their_fixed_offset() -> None:
    """Under their own keys."""
    (change,) = offset_records(
        ConnectorClass.CHECKPOINT,
        "c",
        [OffsetEntry({"group": "g", "topic": "a.t", "partition": 0}, {"offset": 0})],
    )
    key = encode(["c", {"partition": 0, "topic": "a.t", "group": "g"}])
    assert change == OffsetRecord(key, encode({"offset": 0}))
    (change,) = offset_records(
        ConnectorClass.HEARTBEAT,
        "h",
        [OffsetEntry({"targetClusterAlias": "b", "sourceClusterAlias": "a"}, {"offset": 0})],
    )
    key = encode(["h", {"sourceClusterAlias": "a", "targetClusterAlias": "b"}])
    assert change == OffsetRecord(key, encode({"offset": 0}))


def test_a_null_offset_is_a_tombstone() -> None:
    """For a partition that makes no sense as well."""
    changes = offset_records(
        ConnectorClass.SOURCE,
        "m",
        [OffsetEntry(SOURCE, None), OffsetEntry({"q": 1}, None), OffsetEntry(None, None)],
    )
    assert [change.value for change in changes] == [None, None, None]
    assert changes[0].key == SourceOffsetKey("m", "a", TopicPartition("t", 3)).key()
    assert changes[2].key == b'["m",null]'


def test_of_two_entries_for_a_partition_the_last_counts() -> None:
    """Also if their fields stand in another order."""
    backwards = dict(reversed(SOURCE.items()))
    changes = offset_records(
        ConnectorClass.SOURCE,
        "m",
        [OffsetEntry(SOURCE, {"offset": 1}), OffsetEntry(backwards, {"offset": 2})],
    )
    assert [change.value for change in changes] == [b'{"offset":2}']


def test_one_wrong_entry_changes_nothing() -> None:
    """All or none."""
    wrong = OffsetEntry({}, {"offset": 1})
    with pytest.raises(ArgumentError, match="is missing the 'cluster' key"):
        offset_records(ConnectorClass.SOURCE, "m", [OffsetEntry(SOURCE, None), wrong])


def test_no_entries_are_no_changes() -> None:
    """That a request needs some is for whoever takes it."""
    assert offset_records(ConnectorClass.SOURCE, "m", []) == ()


def test_lists_are_no_primitive_values() -> None:
    """In a tombstone's partition neither."""
    with pytest.raises(ArgumentError, match="but field topic contains ARRAY"):
        offset_records(ConnectorClass.SOURCE, "m", [OffsetEntry({"topic": []}, None)])
