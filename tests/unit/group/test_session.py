# SPDX-License-Identifier: Apache-2.0
"""How long a member may assume its membership, with a manual clock."""

from __future__ import annotations

import pytest

from sparkmirror.group.session import Session
from sparkmirror.system.clock import steady_clock

TIMEOUT = 10.0
REBALANCE = 60.0


class Hands:
    """A manual clock."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time that it shows."""
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def session(clock: Hands) -> Session:
    """A session without membership."""
    return Session(TIMEOUT, REBALANCE, clock)


def test_there_is_no_place_before_one_is_given(session: Session) -> None:
    session.confirm(100.0, rebalancing=False)
    assert (session.is_alive, session.has_expired) == (False, False)
    assert session.seconds_left == float("inf")


def test_it_counts_from_when_the_question_was_sent(session: Session, clock: Hands) -> None:
    """The coordinator counts from later on."""
    session.begin(98.0)
    assert (session.is_alive, session.seconds_left) == (True, 8.0)
    clock.now = 107.9
    assert session.is_alive
    clock.now = 108.0
    assert (session.is_alive, session.has_expired, session.seconds_left) == (False, True, 0.0)


def test_an_answer_prolongs_it(session: Session, clock: Hands) -> None:
    """A late response does not shorten it."""
    session.begin(100.0)
    session.confirm(105.0, rebalancing=False)
    session.confirm(103.0, rebalancing=False)
    clock.now = 114.9
    assert session.is_alive


def test_what_has_ended_does_not_come_back(session: Session, clock: Hands) -> None:
    """Even if the coordinator still knows the member: its work was given up."""
    session.begin(100.0)
    clock.now = 111.0
    session.confirm(110.9, rebalancing=False)
    session.begin(110.9)
    assert (session.is_alive, session.has_expired) == (False, True)
    session.end()
    assert not session.has_expired
    session.begin(111.0)
    assert session.is_alive


def test_an_assignment_that_comes_too_late_gives_no_place(session: Session, clock: Hands) -> None:
    """The process was suspended between request and response."""
    clock.now = 120.0
    session.begin(100.0)
    assert (session.is_alive, session.has_expired) == (False, True)


def test_who_does_not_join_in_time_has_lost_its_place(session: Session, clock: Hands) -> None:
    """Heartbeats alone do not keep it during a rebalance."""
    session.begin(100.0)
    for sent_at in range(101, 160):
        clock.now = float(sent_at)
        session.confirm(clock.now, rebalancing=sent_at > 105)
        assert session.is_alive
    for sent_at in range(160, 165):
        clock.now = float(sent_at)
        session.confirm(clock.now, rebalancing=True)
        assert session.is_alive
    clock.now = 165.0
    session.confirm(clock.now, rebalancing=True)
    assert (session.is_alive, session.has_expired) == (False, True)


def test_who_has_joined_waits_for_others_as_long_as_they_need(
    session: Session, clock: Hands
) -> None:
    """Heartbeats are enough then, and the next rebalance has its own deadline."""
    session.begin(100.0)
    session.confirm(101.0, rebalancing=True)
    session.start_rejoin()
    for sent_at in range(102, 200):
        clock.now = float(sent_at)
        session.confirm(clock.now, rebalancing=True)
    assert session.is_alive
    session.begin(200.0)
    session.confirm(201.0, rebalancing=True)
    clock.now = 205.0
    assert session.is_alive


def test_the_clock_continues() -> None:
    first = steady_clock()
    assert 0 <= steady_clock() - first < 5
