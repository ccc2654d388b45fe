# SPDX-License-Identifier: Apache-2.0
"""When a connector has arrived in a state."""

from __future__ import annotations

import pytest

from sparkmirror.rest_client.deployment import NO_TASKS_SECONDS, STALE_SECONDS, StateSettling
from sparkmirror.rest_client.responses import ConnectorStateInfo, StateInfo


def status(connector: str, *tasks: str) -> ConnectorStateInfo:
    """A connector in a state, and its tasks."""
    states = {index: StateInfo(state) for index, state in enumerate(tasks)}
    return ConnectorStateInfo("m", StateInfo(connector), "source", states)


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (None, None),
        (status("RUNNING", "RUNNING", "RUNNING"), "RUNNING"),
        (status("RUNNING", "RUNNING", "UNASSIGNED"), None),
        (status("UNASSIGNED", "RUNNING"), None),
        (status("RESTARTING"), None),
        (status("RUNNING", "RUNNING", "FAILED"), "FAILED"),
        (status("FAILED"), "FAILED"),
        (status("PAUSED", "PAUSED"), "PAUSED"),
        (status("PAUSED", "RUNNING"), None),
        (status("PAUSED"), "PAUSED"),
        (status("STOPPED"), "STOPPED"),
        (status("NEWER", "NEWER"), None),
    ],
)
def test_a_new_connector_settles_in_the_state_that_all_share(
    seen: ConnectorStateInfo | None, verdict: str | None
) -> None:
    """One task that failed is enough for FAILED."""
    assert StateSettling(is_update=False).observe(0.1, seen) == verdict


def test_running_without_a_task_counts_once_it_lasts() -> None:
    """A connector runs before its tasks are made; one without topics has none for good."""
    settling = StateSettling(is_update=False)
    assert settling.observe(1, status("RUNNING")) is None
    assert settling.observe(1 + NO_TASKS_SECONDS / 2, status("RUNNING")) is None
    assert settling.observe(1 + NO_TASKS_SECONDS, status("RUNNING")) == "RUNNING"


def test_tasks_that_appear_end_the_wait() -> None:
    """They are what was waited for."""
    settling = StateSettling(is_update=False)
    assert settling.observe(1, status("RUNNING")) is None
    assert settling.observe(1.1, status("RUNNING", "RUNNING")) == "RUNNING"


@pytest.mark.parametrize("state", ["RUNNING", "FAILED"])
def test_a_state_of_before_counts_only_once_it_lasts(state: str) -> None:
    """After a change the status is still the old one for a moment."""
    settling = StateSettling(is_update=True)
    assert settling.observe(1, status(state, state)) is None
    assert settling.observe(0.9 + STALE_SECONDS, status(state, state)) is None
    assert settling.observe(1 + STALE_SECONDS, status(state, state)) == state


def test_failed_after_anything_else_is_news() -> None:
    """Nobody waits for a second failure."""
    settling = StateSettling(is_update=True)
    assert settling.observe(0.1, status("RUNNING", "RUNNING")) is None
    assert settling.observe(0.2, status("RUNNING", "FAILED")) == "FAILED"


def test_tasks_follow_their_connector() -> None:
    """It runs again at once, and the state of its tasks is still that of before."""
    settling = StateSettling(is_update=True)
    assert settling.observe(0.1, status("FAILED", "RUNNING")) is None
    assert settling.observe(0.2, status("UNASSIGNED", "RUNNING")) is None
    assert settling.observe(0.3, status("RUNNING", "RUNNING")) is None
    assert settling.observe(0.3 + STALE_SECONDS, status("RUNNING", "RUNNING")) == "RUNNING"
