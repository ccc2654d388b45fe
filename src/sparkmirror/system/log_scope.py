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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


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
