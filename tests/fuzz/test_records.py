# SPDX-License-Identifier: Apache-2.0
"""Records of internal topics, as whoever may write there could have written them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_config_records import read_config_record
from sparkmirror.formats.connect_fields import UnreadableRecord
from sparkmirror.formats.connect_protocol import Assignment, WorkerMetadata
from sparkmirror.formats.connect_status_records import read_status_record
from sparkmirror.formats.map_chunk import CopiedBefore, MapChunk, MappedRun, read_header
from sparkmirror.formats.mm2_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.formats.producer_registry import RegisteredFlow, RegisteredProducer
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.model import ProducerState
from sparkmirror.state.granted_acls import _binding, _key
from sparkmirror.state.ledger import LedgerEntry, parse_entry
from sparkmirror.state.offset_resets import OffsetReset
from support.fuzzing import Parser, attempt, damaged, fuzzed

TESTS = Path(__file__).parent.parent
WIRE = (WireError,)
LONG = range(-(2**63), 2**63)


def golden(name: str) -> Any:
    """What Java wrote."""
    return json.loads((TESTS / name).read_text())


MM2 = golden("contract/golden/mm2.json")["records"]
CONNECT = golden("contract/golden/connect.json")["records"]
GROUP = [
    m for step in golden("contract/golden/connect_group.json")["steps"] for m in step["members"]
]


def of_mm2(kind: str, part: str) -> tuple[bytes, ...]:
    """Keys or values of one kind of MM2's records."""
    found = [one[part] for one in MM2 if one["kind"] == kind and one[part]]
    return tuple(map(bytes.fromhex, dict.fromkeys(found)))


# --- records of internal topics


def pair(kind: str, read: Callable[[bytes, bytes], object]) -> list[Parser]:
    """A record's key and its value, each with the other one as it should be."""
    keys, values = of_mm2(kind, "key"), of_mm2(kind, "value")
    return [
        Parser(f"{kind}, key", lambda data: read(data, values[0]), WIRE, keys),
        Parser(f"{kind}, value", lambda data: read(keys[0], data), WIRE, values),
    ]


def connect_pairs(kind: str, read: Callable[[bytes | None, bytes | None], Any]) -> list[Parser]:
    """Records of a topic of Connect's: never an exception, and what is read can be written."""
    mine = [one for one in CONNECT if one["kind"] == kind and one["value"]]
    by_prefix = {one["key"].split("-")[0] + str(len(one["value"]) > 90): one for one in mine}

    def copied(key: bytes, value: bytes) -> None:
        found = read(key, value)
        if not isinstance(found, UnreadableRecord):
            again = read(found.key(), found.value())
            assert again == found, "what was read is written as something else"

    return [
        parser
        for one in by_prefix.values()
        for key, value in [(one["key"].encode(), one["value"].encode())]
        for parser in (
            Parser(f"{kind} {one['key']}", lambda d, k=key: copied(k, d), (), (value,)),
            Parser(f"{kind} {one['key']}, key", lambda d, v=value: copied(d, v), (), (key,)),
        )
    ]


def stored_partition(data: bytes) -> object:
    """None for keys that are not ours, and never an exception."""
    found = SourceOffsetKey.from_key(data)
    if found is not None:
        assert found.key() == data
        assert 0 <= found.topic_partition.partition < 2**31
    return found


def stored_position(data: bytes) -> object:
    """Numbers that fit into the requests they will be part of."""
    found = StoredPosition.from_value(data)
    assert found.offset in LONG
    assert found.downstream is None or found.downstream in LONG
    StoredPosition.from_value(found.value())
    return found


CHUNK = MapChunk(10, 100, 60, 300, (MappedRun(12, 100, 20), MappedRun(40, 130, 1)))
AGAIN = CopiedBefore(200, 300)
POSITION = StoredPosition(7, 90, ProducerState(4, 0, 8), 3, "source-id", "target-id")


def chunk(data: bytes) -> object:
    """Offsets that a consumer group could be sent to."""
    read_header(10, data)
    found = MapChunk.from_value(10, data)
    assert found.target_end in LONG
    assert all(run.source_end in LONG for run in found.runs)
    found.value()
    return found


ENTRY = LedgerEntry("a->b", "gap", "t", 0, 10, 19, 10, "why", "continue", "2026-01-01T00:00:00Z")
ACL = AclBinding(
    ResourceType.TOPIC,
    "a.orders",
    PatternType.LITERAL,
    "User:reader",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
PRODUCER = RegisteredProducer(7, "id-b", "A->B", "id-a", "A-mm2-0")
FLOW = RegisteredFlow("A->B", "id-a", "id-b", ("orders.*",), ("orders-x",), True, 5, 6)
RECORDS = [
    *pair("offset sync", OffsetSync.from_record),
    *pair("checkpoint", Checkpoint.from_record),
    *pair("heartbeat", Heartbeat.from_record),
    *connect_pairs("config", read_config_record),
    *connect_pairs("status", read_status_record),
    Parser("stored offset, key", stored_partition, (), of_mm2("stored offset", "key")),
    Parser(
        "stored offset, value",
        stored_position,
        WIRE,
        (*of_mm2("stored offset", "value"), POSITION.value()),
    ),
    Parser("offset map", chunk, WIRE, (CHUNK.value(),)),
    Parser("offset map, copied before", CopiedBefore.from_value, WIRE, (AGAIN.value(),)),
    Parser("offset reset", OffsetReset.from_value, WIRE, (OffsetReset(7, 1_000).value(),)),
    Parser(
        "group metadata",
        WorkerMetadata.decode,
        WIRE,
        tuple(bytes.fromhex(one["metadata"]) for one in GROUP),
    ),
    Parser(
        "group assignment",
        Assignment.decode,
        WIRE,
        tuple(bytes.fromhex(one["assignment"]) for one in GROUP),
    ),
    Parser("ledger, key", lambda data: parse_entry(data, ENTRY.value()), WIRE, (ENTRY.key(),)),
    Parser("ledger, value", lambda data: parse_entry(ENTRY.key(), data), WIRE, (ENTRY.value(),)),
    Parser("granted ACL", _binding, WIRE, (_key(ACL),)),
    *(
        one
        for made in (PRODUCER, FLOW)
        for one in (
            Parser(
                f"{type(made).__name__}, key",
                partial(type(made).from_record, value=made.value()),
                WIRE,
                (made.key(),),
            ),
            Parser(
                f"{type(made).__name__}, value",
                partial(type(made).from_record, made.key()),
                WIRE,
                (made.value(),),
            ),
        )
    ),
]


@pytest.mark.parametrize("parser", RECORDS, ids=str)
def test_good_records_are_read(parser: Parser) -> None:
    """Or damage would be done to what nobody reads anyway."""
    for seed in parser.seeds:
        parser.parse(seed)


@pytest.mark.parametrize("parser", RECORDS, ids=str)
@given(data=st.data())
@fuzzed()
def test_only_what_is_promised(parser: Parser, data: st.DataObject) -> None:
    """A value, or one of its errors with a sentence; in little memory and time."""
    attempt(parser.parse, data.draw(damaged(parser.seeds)), parser.promised)
