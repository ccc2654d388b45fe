# SPDX-License-Identifier: Apache-2.0
"""The last checkpoint of each group and partition counts; nothing unreadable passes unnoticed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count

import pytest

from sparkmirror.client.checkpoints import (
    LatestCheckpoints,
    OffsetAndMetadata,
    parse_group_argument,
)
from sparkmirror.errors import ArgumentError, UnknownVersionError
from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.model import TopicPartition

T1, T2 = TopicPartition("a.orders", 0), TopicPartition("a.orders", 1)
KeyValue = tuple[bytes | None, bytes | None]


def checkpoint(group: str, tp: TopicPartition, offset: int, metadata: str = "") -> KeyValue:
    """The record of a checkpoint whose upstream offset does not matter."""
    written = Checkpoint(group, tp, offset + 1000, offset, metadata)
    return written.key(), written.value()


def deletion(group: str, tp: TopicPartition) -> KeyValue:
    """The record that deletes a checkpoint."""
    return Checkpoint(group, tp, 0, 0).key(), None


def read(wanted: str | re.Pattern[str], records: Iterable[KeyValue]) -> LatestCheckpoints:
    """What is found in such a topic."""
    found = LatestCheckpoints(wanted)
    offsets = count()
    for key, value in records:
        found.add(LogRecord(0, next(offsets), 0, key, value))
    return found


RECORDS = [
    checkpoint("orders", T1, 5),
    checkpoint("orders", T2, 7, "note"),
    checkpoint("orders-2", T1, 1),
    checkpoint("orders", T1, 9),  # later than the first
    checkpoint("billing", T1, 3),
]


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        (re.compile(".*"), {"orders", "orders-2", "billing"}),
        (re.compile("orders.*"), {"orders", "orders-2"}),
        (re.compile("orders"), {"orders"}),  # a name matches as a whole
        (re.compile("order"), set()),
        (re.compile("nobody|billing"), {"billing"}),
        ("orders", {"orders"}),
        ("orders.*", set()),  # a text is no pattern
        ("nobody", set()),
    ],
)
def test_groups_are_chosen_by_name_or_pattern(
    wanted: str | re.Pattern[str], groups: set[str]
) -> None:
    """A pattern matches whole names, a text is one name; unknown groups are not in the answer."""
    assert read(wanted, RECORDS).offsets.keys() == groups


def test_the_last_checkpoint_wins() -> None:
    """Later ones replace earlier ones of the same partition, backwards as well."""
    expected = {T1: OffsetAndMetadata(9), T2: OffsetAndMetadata(7, "note")}
    assert read("orders", RECORDS).offsets == {"orders": expected}
    back = [*RECORDS, checkpoint("orders", T1, 2)]
    assert read("orders", back).offsets["orders"][T1] == OffsetAndMetadata(2)


def test_a_deletion_removes_a_checkpoint() -> None:
    """A group without any is not in the answer; a later checkpoint is a new one."""
    some = [*RECORDS, deletion("orders", T1), deletion("nobody", T1), deletion("billing", T1)]
    found = read(re.compile(".*"), some)
    assert found.offsets.keys() == {"orders", "orders-2"}
    assert found.offsets["orders"] == {T2: OffsetAndMetadata(7, "note")}
    assert found.malformed == 0
    again = [*some, checkpoint("billing", T1, 4)]
    assert read("billing", again).offsets == {"billing": {T1: OffsetAndMetadata(4)}}


def test_malformed_records_are_passed_over_and_counted() -> None:
    """Cut keys and values, no key, a negative offset; what is behind them is read."""
    key, value = RECORDS[0]
    assert key is not None
    assert value is not None
    bad = [
        (key[:3], value),
        (key, value[:9]),
        (None, value),
        (b"\xff\xff", None),
        checkpoint("orders", T1, -1),
    ]
    found = read("orders", [*bad, checkpoint("orders", T1, 6)])
    assert found.offsets == {"orders": {T1: OffsetAndMetadata(6)}}
    assert found.malformed == len(bad)
    assert found.first_malformed.startswith("at offset 0: The key of a checkpoint ends after 3")


def test_a_newer_version_is_never_passed_over() -> None:
    """What a newer program wrote would be missing from the answer, whichever group it is for."""
    key, value = RECORDS[0]
    assert value is not None
    with pytest.raises(UnknownVersionError, match="version 1"):
        read("somebody", [(key, b"\x00\x01" + value[2:])])


@pytest.mark.parametrize("wrong", [None, 5, re.compile(b"bytes")])
def test_groups_must_be_named(wrong: object) -> None:
    """A ValueError of our own tree says what is expected."""
    with pytest.raises(ArgumentError, match="group_or_pattern must be a group name or a pattern"):
        parse_group_argument(wrong)
    with pytest.raises(ValueError, match="group_or_pattern"):
        parse_group_argument(wrong)
