# SPDX-License-Identifier: Apache-2.0
"""What workers tell each other: any value survives the way there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_protocol import Assignment, WorkerMetadata

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int64s = st.integers(-(2**63), 2**63 - 1)
connectors = st.lists(names, unique=True, max_size=5).map(tuple)
assignments = st.builds(
    Assignment,
    leader=names,
    leader_url=names,
    config_offset=int64s,
    connectors=connectors,
    revoked=connectors,
    delay_ms=st.integers(0, 2**31 - 1),
    error=st.integers(0, 1),
)


@given(assignments)
def test_an_assignment_comes_back(assignment: Assignment) -> None:
    """Decoding undoes encoding."""
    assert Assignment.decode(assignment.encode()) == assignment


@given(names, int64s, st.none() | assignments, st.none() | names)
def test_metadata_come_back(
    url: str, offset: int, current: Assignment | None, piece: str | None
) -> None:
    """With what the worker runs, and what it could run only."""
    metadata = WorkerMetadata(url, offset, current, piece)
    assert WorkerMetadata.decode(metadata.encode()) == metadata
    assert metadata.connectors == (() if current is None else current.connectors)


@given(assignments, st.data())
def test_a_cut_assignment_is_refused(assignment: Assignment, data: st.DataObject) -> None:
    """Bytes that lack their end are an error, never less work."""
    whole = assignment.encode()
    with pytest.raises(WireError, match="assignment of a worker"):
        Assignment.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_null_list_is_empty() -> None:
    """Java's schema allows it."""
    whole = Assignment("l", "u", 1).encode()
    assert whole.endswith(bytes(12))
    null = whole[:-12] + b"\xff" * 4 + b"\xff" * 4 + bytes(4)
    assert Assignment.decode(null) == Assignment("l", "u", 1)


def test_tasks_are_no_matter_of_the_group() -> None:
    """Whoever divides a connector is not one of ours, and is not misunderstood."""
    whole = Assignment("l", "u", 1, ("c",)).encode()
    itself = (1).to_bytes(4, "big") + b"\xff" * 4
    assert whole.count(itself) == 1
    with pytest.raises(WireError, match=r"tasks \[0\] of connector 'c'"):
        Assignment.decode(whole.replace(itself, itself[:4] + bytes(4)))


@pytest.mark.parametrize("version", [-1, 0, 1])
def test_older_versions_are_refused(version: int) -> None:
    """They have other fields; newer ones are read as far as we know them."""
    written = version.to_bytes(2, "big", signed=True)
    with pytest.raises(WireError, match=f"metadata of a worker has version {version}"):
        WorkerMetadata.decode(written + WorkerMetadata("u", 1).encode()[2:])
    with pytest.raises(WireError, match=f"assignment of a worker has version {version}"):
        Assignment.decode(written + Assignment("l", "u", 1).encode()[2:])
    newer = (3).to_bytes(2, "big") + WorkerMetadata("u", 1).encode()[2:] + b"more"
    assert WorkerMetadata.decode(newer) == WorkerMetadata("u", 1)
