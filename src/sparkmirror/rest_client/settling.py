# SPDX-License-Identifier: Apache-2.0
"""When a connector has arrived in a state, judged from what its status says over time.

A status is written after the fact. Right after a change it still shows the state of before, and a
new connector is RUNNING for a moment without any task. A state that may be stale therefore counts
only once it has lasted; any other one in between proves that the news has arrived.
"""

from __future__ import annotations

from sparkmirror.rest_client.answers import ConnectorStateInfo, State

STALE_SECONDS = 3.0  # Connect takes up a changed configuration within about a second
NO_TASKS_SECONDS = 5.0

_RESTING = frozenset({State.PAUSED, State.STOPPED})


class Settling:
    """Follows one connector; belongs to the thread that polls."""

    def __init__(self, now: float, *, may_be_stale: bool) -> None:
        self._may_be_stale = may_be_stale
        self._since = now
        self._last: State | None = None
        self._began = False

    def look(self, now: float, status: ConnectorStateInfo | None) -> State | None:
        """The state in which it will stay, or None as long as that is not known."""
        verdict = _verdict(status)
        if verdict is not self._last or not self._began:
            if self._began:
                self._may_be_stale = False
            self._last, self._since, self._began = verdict, now, True
        if verdict is None or now - self._since < self._patience(verdict, status):
            return None
        return verdict

    def _patience(self, verdict: State, status: ConnectorStateInfo | None) -> float:
        has_no_task = verdict is State.RUNNING and status is not None and not status.tasks
        return max(
            STALE_SECONDS if self._may_be_stale else 0.0,
            NO_TASKS_SECONDS if has_no_task else 0.0,
        )


def _verdict(status: ConnectorStateInfo | None) -> State | None:
    if status is None:
        return None
    if State.FAILED in status.states:
        return State.FAILED
    if status.states == {State.RUNNING}:
        return State.RUNNING
    if len(status.states) == 1 and status.connector.state in _RESTING:
        return State(status.connector.state)
    return None
