# SPDX-License-Identifier: Apache-2.0
"""What Java's workers really told each other through their group: we read it, and write the same.

`tools/capture_group.py` has written the file, and says how.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.formats.connect_protocol import Assignment, Metadata, Version, Work

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "connect_group.json").read_text(encoding="utf-8")
)
MEMBERS = [
    pytest.param(member, step["protocol"], id=f"{step['step']}, member {number}")
    for step in GOLDEN["steps"]
    for number, member in enumerate(step["members"])
]


def pieces(work: Work) -> set[tuple[str, int]]:
    """As the golden file tells them."""
    return {*((name, -1) for name in work.connectors), *(tuple(task) for task in work.tasks)}


@pytest.mark.parametrize(("member", "protocol"), MEMBERS)
def test_members_are_understood_and_written_with_the_same_bytes(
    member: dict[str, str], protocol: str
) -> None:
    """What each said, and what each was given."""
    metadata, assignment = bytes.fromhex(member["metadata"]), bytes.fromhex(member["assignment"])
    said, given = Metadata.decode(metadata), Assignment.decode(assignment)
    assert (said.encode(), given.encode()) == (metadata, assignment)
    assert said.version == given.version == Version.of(protocol)


@pytest.mark.parametrize("step", GOLDEN["steps"], ids=lambda step: step["step"])
def test_we_know_who_leads_and_who_runs_what(step: dict[str, Any]) -> None:
    """By what members brought along, what was revoked and what was given."""
    running: dict[str, set[tuple[str, int]]] = {}
    leaders = set()
    urls = {}
    for member in step["members"]:
        said = Metadata.decode(bytes.fromhex(member["metadata"]))
        given = Assignment.decode(bytes.fromhex(member["assignment"]))
        worker = said.url.removeprefix("http://").removesuffix("/")
        running[worker] = pieces(said.work.minus(given.revoked).plus(given.work))
        leaders.add((given.leader, given.leader_url))
        urls[member["id"]] = said.url
        assert (given.error, given.delay_ms) == (0, 0)
    ((leader, leader_url),) = leaders
    assert urls[leader] == leader_url
    assert sum(map(len, running.values())) == len(set().union(*running.values()))
    if step["told"]:
        assert running == {
            worker: {(name, task) for name, task in work} for worker, work in step["told"].items()
        }


def test_every_version_was_captured_with_work_and_revocations() -> None:
    """A file that lacks one would prove less than it seems to."""
    said = [Metadata.decode(bytes.fromhex(param.values[0]["metadata"])) for param in MEMBERS]
    given = [Assignment.decode(bytes.fromhex(param.values[0]["assignment"])) for param in MEMBERS]
    for version in Version:
        assert any(one.work for one in given if one.version == version)
    for version in (Version.COMPATIBLE, Version.SESSIONED):
        mine = [one for one in said if one.version == version]
        assert any(one.current is None for one in mine)
        assert any(one.work for one in mine)
        assert any(one.revoked for one in given if one.version == version)
    assert GOLDEN["kafka"] == "4.3.1"
