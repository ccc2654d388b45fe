# SPDX-License-Identifier: Apache-2.0
"""Pauses grow, stay bounded and begin again."""

from __future__ import annotations

import pytest

from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.error_codes import Remedy


@pytest.mark.parametrize(("slow", "first", "longest"), [(False, 0.1, 5.0), (True, 5.0, 60.0)])
def test_pauses_double_up_to_a_bound(*, slow: bool, first: float, longest: float) -> None:
    """Each within a fifth of its plan, so that many partitions do not come at once."""
    backoff = Backoff()

    for attempt in range(12):
        planned = min(first * 2**attempt, longest)
        assert 0.8 * planned <= backoff.next_pause(slow=slow) <= 1.2 * planned


def test_a_reset_begins_with_short_pauses_again() -> None:
    """One success forgets the past."""
    backoff = Backoff()
    assert not backoff.has_failed
    for _ in range(8):
        backoff.next_pause()
    assert backoff.has_failed

    backoff.reset()

    assert not backoff.has_failed
    assert backoff.next_pause() <= 0.12


def test_a_slow_pause_after_quick_ones_is_long() -> None:
    """A partition that turns out hopeless is left alone for seconds at once."""
    backoff = Backoff()
    backoff.next_pause()

    assert backoff.next_pause(slow=True) >= 4.0


def test_unknown_error_codes_are_quarantined_not_ignored() -> None:
    """A code that a newer broker invents is reported and tried again much later."""
    assert error_codes.remedy(9_999) is Remedy.QUARANTINE
    assert not error_codes.is_retriable(9_999)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (1, Remedy.OUT_OF_RANGE),
        (6, Remedy.REFRESH),
        (7, Remedy.RETRY),
        (10, Remedy.REFUSED),
        (20, Remedy.RETRY),
        (29, Remedy.QUARANTINE),
        (45, Remedy.COMPARE),
        (error_codes.CONNECTION_LOST, Remedy.REFRESH),
        (error_codes.CORRUPT_SOURCE_BATCH, Remedy.RETRY),
    ],
)
def test_each_code_has_its_remedy(code: int, remedy: Remedy) -> None:
    """In particular: what may be in the log already is sent again, never renumbered."""
    assert error_codes.remedy(code) is remedy


@pytest.mark.parametrize(
    ("code", "name"), [(6, "NOT_LEADER"), (29, "TOPIC_AUTHORIZATION_FAILED"), (-1001, "CORRUPT")]
)
def test_names_are_those_users_know(code: int, name: str) -> None:
    """Kafka's own names, and ours for what Kafka has no code for."""
    assert error_codes.name(code).startswith(name)
