# SPDX-License-Identifier: Apache-2.0
"""When a connector has arrived in a state, judged from what its status says over time.

A status is written after the fact. Right after a change of its configuration a connector still
shows the state of before; soon its own state follows, and only then those of its tasks. A new one
is RUNNING for a moment without any task. What may be too early therefore counts only once it has
lasted. FAILED after anything else is news, and counts at once.
"""

from __future__ import annotations

from sparkmirror.rest_client.answers import ConnectorStateInfo, State

STALE_SECONDS = 3.0  # Java's worker needs about one
NO_TASKS_SECONDS = 5.0

_RESTING = frozenset({State.PAUSED, State.STOPPED})


class Settling:
    """Follows one connector; belongs to the thread that polls."""

    def __init__(self, *, is_update: bool) -> None:
        self._is_update = is_update
        self._changes = 0
        self._last: State | None = None
        self._since = 0.0

    def look(self, now: float, status: ConnectorStateInfo | None) -> State | None:
        """The state in which it will stay, or None as long as that is not known."""
        verdict = _verdict(status)
        if self._changes == 0 or verdict is not self._last:
            self._changes += 1
            self._last, self._since = verdict, now
        if verdict is None or now - self._since < self._patience(verdict, status):
            return None
        return verdict

    def _patience(self, verdict: State, status: ConnectorStateInfo | None) -> float:
        is_news = verdict is State.FAILED and self._changes > 1
        has_no_task = verdict is State.RUNNING and status is not None and not status.tasks
        return max(
            STALE_SECONDS if self._is_update and not is_news else 0.0,
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
