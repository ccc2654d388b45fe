# SPDX-License-Identifier: Apache-2.0
"""The flow and the connector that a log line is about.

The code that starts a connector enters its scope; `ScopedThread` passes the scope of the starting
thread on. Code of other threads passes `extra=scope_of(label)`. Handlers read both with
`LogScopeFilter`, so records below the level cost nothing.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_MAX_RECENT = 64
_RECENT_SECONDS = 5.0  # between a log line and the status that shows the same


class LogScope(NamedTuple):
    """A flow and a connector; empty: none."""

    flow: str = ""
    connector: str = ""


_current: contextvars.ContextVar[LogScope] = contextvars.ContextVar(
    "log_scope",
    default=LogScope(),  # noqa: B039 - a named tuple is immutable
)


def current_scope() -> LogScope:
    """Return the scope of this thread."""
    return _current.get()


@contextmanager
def log_scope(scope: LogScope) -> Iterator[None]:
    """Log everything of this thread in a scope until the end of the block."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


def scope_of(label: str) -> dict[str, str]:
    """Return `extra` of a log call for a label: `A->B`, or `A->B|name` of a worker's connector."""
    flow, _, connector = label.partition("|")
    return {"flow": flow, "connector": connector}


class ScopedThread(threading.Thread):
    """A thread with the log scope of the thread that starts it."""

    _scope = LogScope()

    def start(self) -> None:
        self._scope = current_scope()
        super().start()

    def run(self) -> None:
        with log_scope(self._scope):
            super().run()


class LogScopeFilter(logging.Filter):
    """Sets `flow` and `connector` of every record; a record's own ones win."""

    def filter(self, record: logging.LogRecord) -> bool:
        scope = current_scope()
        record.flow = getattr(record, "flow", "") or scope.flow
        record.connector = getattr(record, "connector", "") or scope.connector
        return True


class RepeatedProblemFilter(logging.Filter):
    """Drops a problem of a flow's status that a connector has just logged.

    What fails logs its problem, and the flow's status has it too. The view of the statuses logs
    problems with `extra={"problem": ...}`, because some are only there. Needs a LogScopeFilter
    before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recent: deque[logging.LogRecord] = deque(maxlen=_MAX_RECENT)

    def filter(self, record: logging.LogRecord) -> bool:
        problem = getattr(record, "problem", "")
        if not problem:
            if record.levelno >= logging.WARNING:
                self._recent.append(record)
            return True
        return not any(
            problem in one.getMessage() and _scope_flow(one) == _scope_flow(record)
            for one in self._recent
            if record.created - one.created < _RECENT_SECONDS
        )


def _scope_flow(record: logging.LogRecord) -> str:
    return str(getattr(record, "flow", ""))
