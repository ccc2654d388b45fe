# SPDX-License-Identifier: Apache-2.0
"""Every pair has its own group: MM2's, wherever MM2 could have one."""

from __future__ import annotations

import pytest

from sparkmirror.config.config_changes import FlowPart, compare_runs, parse_run
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow

AB = Flow("a", "b")
FILE = """
clusters = a, b, c
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
c.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
"""


def config(*lines: str) -> MirrorConfig:
    """The file with further lines."""
    return MirrorConfig.parse(FILE + "\n".join(lines))


def groups(*lines: str) -> dict[str, str]:
    """The groups on b, by pair."""
    found = parse_run(config(*lines), ["b"]).groups
    return {str(flow): group.group_id for flow, group in found.items()}


def test_groups_are_those_of_mm2() -> None:
    """Named after the source."""
    assert groups() == {"a->b": "a-mm2", "c->b": "c-mm2"}


def test_a_group_that_is_written_for_a_target_is_divided() -> None:
    """Or two pairs would be one piece of work; a pair alone keeps the name as it is."""
    assert groups("b.group.id=g") == {"a->b": "g-a", "c->b": "g-c"}
    assert groups("b.group.id=g", "emit.heartbeats.enabled=false") == {"a->b": "g"}


def test_times_are_the_targets() -> None:
    """With Connect's defaults; nobody waits for the return of a process that has gone."""
    found = parse_run(config("b.session.timeout.ms=6000", "b.heartbeat.interval.ms=500")).groups
    assert (found[AB].session_timeout_ms, found[AB].heartbeat_interval_ms) == (6_000, 500)
    assert (found[AB].rebalance_timeout_ms, found[AB].rebalance_delay_ms) == (60_000, 0)


def test_a_session_shorter_than_its_heartbeats_is_refused() -> None:
    """Every process would count as gone."""
    problems = [str(one) for one in config("b.session.timeout.ms=3000").all_notices()]
    assert any("must be less than session.timeout.ms (3000)" in one for one in problems)


@pytest.mark.parametrize("line", ["b.group.id=g", "b.session.timeout.ms=6000"])
def test_flows_restart_when_the_group_of_their_target_changes(line: str) -> None:
    """And only those into that target."""
    changes = compare_runs(parse_run(config()), parse_run(config(line)))
    assert {str(one.flow) for one in changes.changed} == {"a->b", "c->b"}
    assert all(one.parts == {FlowPart.ALL} for one in changes.changed)
    assert all(line.partition("=")[0] in one.keys for one in changes.changed)
