# SPDX-License-Identifier: Apache-2.0
"""What Java's workers really told each other through their group: we read it, and write the same.

`tools/capture_group.py` has written the file, and says how.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.formats.connect_protocol import PROTOCOL, Assignment, WorkerMetadata

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "connect_group.json").read_text(encoding="utf-8")
)
MEMBERS = [
    pytest.param(member, id=f"{step['step']}, member {number}")
    for step in GOLDEN["steps"]
    for number, member in enumerate(step["members"])
]


@pytest.mark.parametrize("member", MEMBERS)
def test_members_are_understood_and_written_with_the_same_bytes(member: dict[str, str]) -> None:
    """What each said, and what each was given."""
    metadata, assignment = bytes.fromhex(member["metadata"]), bytes.fromhex(member["assignment"])
    said, given = WorkerMetadata.decode(metadata), Assignment.decode(assignment)
    assert (said.encode(), given.encode()) == (metadata, assignment)


@pytest.mark.parametrize("step", GOLDEN["steps"], ids=lambda step: step["step"])
def test_we_know_who_leads_and_who_runs_what(step: dict[str, Any]) -> None:
    """By what members brought along, what was revoked and what was given."""
    running: dict[str, list[str]] = {}
    leaders = set()
    urls = {}
    for member in step["members"]:
        said = WorkerMetadata.decode(bytes.fromhex(member["metadata"]))
        given = Assignment.decode(bytes.fromhex(member["assignment"]))
        worker = said.url.removeprefix("http://").removesuffix("/")
        running[worker] = sorted(({*said.connectors} - {*given.revoked}) | {*given.connectors})
        leaders.add((given.leader, given.leader_url))
        urls[member["id"]] = said.url
        assert (given.error, given.delay_ms) == (0, 0)
    ((leader, leader_url),) = leaders
    assert urls[leader] == leader_url
    assert sum(map(len, running.values())) == len(set().union(*running.values()))
    if step["told"]:
        assert running == step["told"]


def test_work_and_revocations_were_captured() -> None:
    """Without them the golden file would prove less."""
    said = [WorkerMetadata.decode(bytes.fromhex(param.values[0]["metadata"])) for param in MEMBERS]
    given = [Assignment.decode(bytes.fromhex(param.values[0]["assignment"])) for param in MEMBERS]
    assert any(one.current is None for one in said)
    assert any(one.connectors for one in said)
    assert any(one.connectors for one in given)
    assert any(one.revoked for one in given)
    assert GOLDEN["kafka"] == "4.3.1"


def test_our_groups_have_a_protocol_of_their_own() -> None:
    """So that Java's workers and ours are never in one group."""
    assert PROTOCOL not in {step["protocol"] for step in GOLDEN["steps"]}
