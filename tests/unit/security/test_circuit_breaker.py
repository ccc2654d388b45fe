# SPDX-License-Identifier: Apache-2.0
"""Refused logins are retried after growing pauses."""

from __future__ import annotations

from sparkmirror.errors import UnreachableError
from sparkmirror.security.circuit_breaker import CircuitBreaker

HERE, THERE = "here:1", "there:1"
ERROR = UnreachableError("not you", cluster="b")


def refusals_with(*times: float) -> CircuitBreaker[str, UnreachableError]:
    """Refused at these times."""
    made = CircuitBreaker[str, UnreachableError]()
    for now in times:
        made.record_failure(HERE, ERROR, now)
    return made


def pause(refusals: CircuitBreaker[str, UnreachableError], now: float) -> float:
    """The pause after a refusal."""
    return next(n for n in range(100) if refusals.current_error(HERE, now + n) is None)


def test_pauses_grow_and_have_an_end() -> None:
    """From a second to half a minute."""
    refusals, now, pauses = refusals_with(), 100.0, []
    for _ in range(7):
        refusals.record_failure(HERE, ERROR, now)
        pauses.append(pause(refusals, now))
        now += pauses[-1]

    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_connections_that_are_refused_at_once_count_once() -> None:
    """A task has several to one broker."""
    assert pause(refusals_with(*[100.0] * 5), 100.0) == 1


def test_an_old_refusal_is_forgotten() -> None:
    """What comes long after is a new story."""
    assert pause(refusals_with(100.0, 102.0, 200.0), 200.0) == 1


def test_other_brokers_may_be_asked() -> None:
    """One with an expired certificate says nothing about the others."""
    refusals = refusals_with(100.0)

    assert refusals.current_error(THERE, 100.0) is None
    assert refusals.current_error(HERE, 100.0) is ERROR


def test_after_the_pause_one_tries_and_the_others_wait_for_it() -> None:
    """Else ten clients would send the same wrong password at once; a refusal doubles the pause."""
    refusals = refusals_with(100.0)
    assert refusals.begin_trial(HERE, 100.5) is ERROR
    assert refusals.begin_trial(HERE, 101.0) is None
    assert refusals.begin_trial(HERE, 101.0) is ERROR
    assert refusals.current_error(HERE, 102.0) is ERROR

    refusals.record_failure(HERE, ERROR, 102.0)
    assert pause(refusals, 102.0) == 2


def test_who_is_let_in_opens_the_door_for_all() -> None:
    """At once, also while others wait."""
    refusals = refusals_with(100.0)
    refusals.begin_trial(HERE, 101.0)
    refusals.record_success(HERE)

    assert refusals.current_error(HERE, 101.0) is None
    refusals.record_failure(HERE, ERROR, 101.0)
    assert pause(refusals, 101.0) == 1


def test_a_trial_that_comes_to_nothing_is_another_s_turn() -> None:
    """The broker was gone; a trial without a result ends after a time."""
    refusals = refusals_with(100.0)
    refusals.begin_trial(HERE, 101.0)
    refusals.cancel_trial(HERE, 102.0)
    assert refusals.begin_trial(HERE, 102.0) is None

    assert refusals.current_error(HERE, 103.0) is ERROR
    assert refusals.current_error(HERE, 140.0) is None


def test_what_time_heals_has_shorter_pauses() -> None:
    """As the caller says."""
    refusals, now, pauses = refusals_with(), 100.0, []
    for longest in (0.0, 5.0, 5.0, 5.0, 5.0):
        refusals.record_failure(HERE, ERROR, now, longest)
        pauses.append(pause(refusals, now))
        now += pauses[-1]

    assert pauses == [0, 1, 2, 4, 5]
