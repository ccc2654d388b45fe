# SPDX-License-Identifier: Apache-2.0
"""Whether this process runs a pair, by what its group says; real groups: integration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Flow
from sparkmirror.runtime import ownership as ownership_file
from sparkmirror.runtime.ownership import FlowOwnership, OwnershipStatus
from sparkmirror.spark.flow_status import FlowState

SETTINGS = MirrorConfig.parse(
    "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\n"
).flow_settings(Flow("a", "b"))


class FakeMembership:
    """Does as the test says."""

    def __init__(self, *_: object, on_assigned: Callable[..., None], on_revoked: Any) -> None:
        self.assign, self.revoke = on_assigned, on_revoked
        self.is_member = False
        self.is_standby = False
        self.problem: str | None = None
        self.error: Exception | None = None
        self.assignment: tuple[str, ...] = ()
        self.leader_url = "http://leader/"
        self.owner: str | None = None

    def owner_url(self, _name: str) -> str | None:
        return self.owner


class Bench:
    """An ownership, and what it has called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.ownership = FlowOwnership(
            SETTINGS,
            GroupSettings("a-mm2"),
            "host/1",
            on_change=lambda: self.calls.append(f"change {self.ownership.is_owner}"),
            release=lambda: self.calls.append(f"release {self.ownership.is_owner}"),
        )

    @property
    def member(self) -> Any:
        return self.ownership._membership


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(ownership_file, "Membership", FakeMembership)
    return Bench()


def test_a_revoked_flow_has_no_owner_before_it_is_released(bench: Bench) -> None:
    """Or the supervisor would start it again."""
    bench.member.is_member = True
    bench.member.assign(("a->b",))
    bench.member.revoke(("a->b",))
    bench.member.assign(("x->y",))
    bench.member.revoke(("x->y",))
    assert bench.calls == ["change True", "release False"]


def test_a_place_that_may_be_lost_is_not_owned(bench: Bench) -> None:
    bench.member.is_member = True
    bench.member.assign(("a->b",))
    bench.member.is_member = False
    assert not bench.ownership.is_owner


def test_the_status_names_the_owner_or_the_obstacle(bench: Bench) -> None:
    joining = "joining group a-mm2 on b"
    assert bench.ownership.status() == OwnershipStatus(FlowState.STARTING, joining)
    bench.member.is_member = True
    found = bench.ownership.status()
    assert found.state is FlowState.STANDBY
    assert "a process of group a-mm2, led by http://leader/," in found.reason
    bench.member.owner = "host/2"
    assert bench.ownership.status().reason == "stands by: host/2 runs it"
    bench.member.assignment = ("a->b",)
    assert bench.ownership.status().state is FlowState.STARTING
    bench.member.problem = "cannot join"
    assert bench.ownership.status() == OwnershipStatus(FlowState.RETRYING, "cannot join")
    bench.member.error = AuthenticationError("no", cluster="b", retriable=False)
    assert bench.ownership.status().state is FlowState.FAILED
    bench.member.is_standby = True
    assert bench.ownership.status().state is FlowState.STANDBY
