# SPDX-License-Identifier: Apache-2.0
"""Whoever is refused asks again, but slowly."""

from __future__ import annotations

import pytest

from sparkmirror.errors import UnreachableError
from sparkmirror.wire.dialer import Address
from sparkmirror.wire.refusals import Refusals

HERE, THERE = Address("here", 1), Address("there", 1)
ERROR = UnreachableError("not you", cluster="b")


def pause(refusals: Refusals, now: float) -> float:
    """For how long nobody may ask."""
    waited = 0.0
    while True:
        try:
            refusals.check(HERE, now + waited)
        except UnreachableError:
            waited += 0.5
        else:
            return waited


def test_pauses_grow_and_have_an_end() -> None:
    """From a second to half a minute."""
    refusals, now, pauses = Refusals(), 100.0, []
    for _ in range(7):
        refusals.note(HERE, ERROR, now)
        pauses.append(pause(refusals, now))
        now += pauses[-1]

    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_connections_that_are_refused_at_once_count_once() -> None:
    """A task has several to one broker."""
    refusals = Refusals()
    for _ in range(5):
        refusals.note(HERE, ERROR, 100.0)

    assert pause(refusals, 100.0) == 1


def test_an_old_refusal_is_forgotten() -> None:
    """What comes long after is a new story."""
    refusals = Refusals()
    refusals.note(HERE, ERROR, 100.0)
    refusals.note(HERE, ERROR, 102.0)
    refusals.note(HERE, ERROR, 200.0)

    assert pause(refusals, 200.0) == 1


def test_other_brokers_may_be_asked() -> None:
    """One with an expired certificate says nothing about the others."""
    refusals = Refusals()
    refusals.note(HERE, ERROR, 100.0)

    refusals.check(THERE, 100.0)
    with pytest.raises(UnreachableError, match="not you"):
        refusals.check(HERE, 100.0)
