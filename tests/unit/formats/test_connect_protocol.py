# SPDX-License-Identifier: Apache-2.0
"""What Connect's workers tell each other: any value survives the way there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_protocol import Assignment, Metadata, TaskId, Version, Work

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int64s = st.integers(-(2**63), 2**63 - 1)
works = st.builds(
    Work,
    st.lists(names, unique=True, max_size=5).map(tuple),
    st.lists(st.builds(TaskId, names, st.integers(0, 2**31 - 1)), unique=True, max_size=8).map(
        lambda tasks: tuple(sorted(tasks))
    ),
)
incremental = st.sampled_from([Version.COMPATIBLE, Version.SESSIONED])


def assignments(versions: st.SearchStrategy[Version]) -> st.SearchStrategy[Assignment]:
    """Any assignments of these versions."""
    return st.builds(
        Assignment,
        leader=names,
        leader_url=names,
        config_offset=int64s,
        work=works,
        revoked=works,
        delay_ms=st.integers(0, 2**31 - 1),
        error=st.integers(0, 1),
        version=versions,
    )


def content(work: Work) -> tuple[frozenset[str], frozenset[TaskId]]:
    """Tasks come back beside their connectors, so their order may be another one."""
    return frozenset(work.connectors), frozenset(work.tasks)


@given(assignments(incremental))
def test_an_assignment_comes_back(assignment: Assignment) -> None:
    """Decoding undoes encoding, and a second time the bytes are the same."""
    found = Assignment.decode(assignment.encode())
    assert content(found.work) == content(assignment.work)
    assert content(found.revoked) == content(assignment.revoked)
    assert (found.leader, found.leader_url) == (assignment.leader, assignment.leader_url)
    assert (found.config_offset, found.delay_ms) == (assignment.config_offset, assignment.delay_ms)
    assert (found.error, found.version) == (assignment.error, assignment.version)
    assert found.encode() == assignment.encode()


@given(assignments(incremental))
def test_an_eager_assignment_has_no_revocations(assignment: Assignment) -> None:
    """Version 0 ends with the work."""
    found = Assignment.decode(assignment.encode(Version.EAGER))
    assert content(found.work) == content(assignment.work)
    assert (found.revoked, found.delay_ms, found.version) == (Work(), 0, Version.EAGER)


@given(names, int64s, st.none() | assignments(incremental), incremental)
def test_metadata_come_back(
    url: str, offset: int, current: Assignment | None, version: Version
) -> None:
    """With what the worker runs, in the version of the whole."""
    found = Metadata.decode(Metadata(url, offset, current, version).encode())
    assert (found.url, found.config_offset, found.version) == (url, offset, version)
    assert (found.current is None) == (current is None)
    if found.current is not None and current is not None:
        assert found.current.version == version
        assert content(found.work) == content(current.work)


def test_eager_metadata_do_not_tell_what_runs() -> None:
    """Whoever joins eagerly has stopped everything."""
    current = Assignment("l", "u", 1, Work(("c",)))
    assert Metadata.decode(Metadata("u", 3, current).encode(Version.EAGER)) == Metadata(
        "u", 3, None, Version.EAGER
    )


@given(assignments(incremental), st.data())
def test_a_cut_assignment_is_refused(assignment: Assignment, data: st.DataObject) -> None:
    """Bytes that lack their end are an error, never less work."""
    whole = assignment.encode()
    with pytest.raises(WireError, match="assignment of a Connect worker"):
        Assignment.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_null_list_is_empty() -> None:
    """Java's schema allows it."""
    whole = Assignment("l", "u", 1).encode()
    assert whole.endswith(bytes(12))
    null = whole[:-12] + b"\xff" * 4 + b"\xff" * 4 + bytes(4)
    assert Assignment.decode(null) == Assignment("l", "u", 1)


def test_versions_have_the_names_of_the_groups_protocols() -> None:
    """As in Connect; a name that nobody knows is refused."""
    assert [version.protocol for version in Version] == ["default", "compatible", "sessioned"]
    assert [Version.of(version.protocol) for version in Version] == list(Version)
    with pytest.raises(WireError, match="'range'"):
        Version.of("range")


def test_work_is_added_and_taken_away_without_repetition() -> None:
    """In the order in which it came."""
    some = Work(("a", "b"), (TaskId("a", 0), TaskId("b", 0)))
    more = Work(("b", "c"), (TaskId("b", 0), TaskId("c", 0)))
    both = Work(("a", "b", "c"), (TaskId("a", 0), TaskId("b", 0), TaskId("c", 0)))
    assert some.plus(more) == both
    assert both.minus(more) == Work(("a",), (TaskId("a", 0),))
