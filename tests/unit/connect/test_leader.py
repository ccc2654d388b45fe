# SPDX-License-Identifier: Apache-2.0
"""Writes of a leader, with topics and a group in memory; with real brokers: integration."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sparkmirror.config.worker_settings import GroupSettings, SigningSettings
from sparkmirror.connect.api import ApiError, ForwardTo
from sparkmirror.connect.leader import GroupLeader
from sparkmirror.connect.startup import Startup
from sparkmirror.errors import ClusterError, LeadershipLostError
from sparkmirror.state.connect_configs import ClusterConfigState
from sparkmirror.state.connect_statuses import ClusterStatusState


class Log:
    """A config topic that may refuse."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def fail(self, error: Exception) -> None:
        """As a broker."""
        raise error

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)


class State:
    """Both topics of a group."""

    def __init__(self) -> None:
        self.log = Log()
        self.lock = threading.Lock()
        self.published = 0
        self.statuses = ClusterStatusState()
        self.configs = ClusterConfigState()

    @contextmanager
    def writing(self) -> Iterator[Log]:
        """As GroupState."""
        with self.lock:
            try:
                yield self.log
            finally:
                self.published += 1

    def refresh_statuses(self) -> None:
        """Nothing to read."""


class Place:
    """A place in the group."""

    is_leader = True
    is_member = True
    is_standby = False
    leader_url = "http://other:1/"


def leading() -> tuple[GroupLeader, State, Place]:
    """A worker that leads."""
    state, place, startup = State(), Place(), Startup(is_started=True)
    leader = GroupLeader(
        GroupSettings(group_id="g"),
        SigningSettings(),
        state,  # type: ignore[arg-type]
        place,  # type: ignore[arg-type]
        startup,
    )
    leader.maintain()
    return leader, state, place


def test_a_write_reads_the_topic_to_its_end_first() -> None:
    """And gives the log back."""
    leader, state, _ = leading()
    state.log.calls.clear()
    with leader.writing() as log:
        log.put_target_state("x", None)  # type: ignore[arg-type]
    assert state.log.calls == ["read_new", "put_target_state"]
    assert not state.lock.locked()


@pytest.mark.parametrize(
    ("error", "status", "leads"),
    [
        (LeadershipLostError("fenced", cluster="b"), 409, False),
        (ClusterError("gone", cluster="b"), 500, True),
    ],
)
def test_a_refused_write_is_an_error_of_the_request(
    error: ClusterError, status: int, leads: bool
) -> None:
    """A leader that was fenced takes the lead again before it writes."""
    leader, state, _ = leading()
    with pytest.raises(ApiError) as refused, leader.writing() as log:
        log.fail(error)  # type: ignore[attr-defined]
    assert (refused.value.status, leader.is_ready) == (status, leads)
    assert not state.lock.locked()


def test_a_worker_that_lost_the_lead_writes_nothing() -> None:
    """The group may have another leader by the time that the topic was read."""
    leader, state, place = leading()
    state.log.calls.clear()
    place.is_leader = False
    with pytest.raises(ApiError) as refused, leader.writing():
        pytest.fail("the body ran")
    assert (refused.value.status, state.log.calls) == (409, ["read_new"])
    with pytest.raises(ForwardTo) as elsewhere:
        leader.require()
    assert elsewhere.value.is_current()
    place.leader_url = "http://third:1/"
    assert not elsewhere.value.is_current()


def test_an_error_of_the_request_passes_through() -> None:
    """The lock is free afterwards."""
    leader, state, _ = leading()
    with pytest.raises(ApiError) as refused, leader.exclusive(), leader.writing():
        raise ApiError(404, "no such connector")
    assert refused.value.status == 404
    with leader.exclusive():
        assert not state.lock.locked()
