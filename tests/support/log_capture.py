# SPDX-License-Identifier: Apache-2.0
"""Captures the log of a program, and restores what a program sets up."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sparkmirror.connect.log_levels import LogLevels


@contextmanager
def captured_log(logger: str = "root", level: str = "DEBUG") -> Iterator[io.StringIO]:
    """The text of the log of a program that has just begun; every logger is as before afterwards.

    pytest's own looks behind loggers that do not propagate, where no program's log does.
    """
    known = [*map(logging.getLogger, list(logging.root.manager.loggerDict)), logging.root]
    before = [(one, one.level, one.propagate, list(one.handlers)) for one in known]
    for one in known:
        one.propagate, one.handlers = True, []
    text = io.StringIO()
    logging.root.handlers = [logging.StreamHandler(text)]
    LogLevels().set(logger, level)
    try:
        yield text
    finally:
        for one, number, propagates, handlers in before:
            one.setLevel(number)
            one.propagate, one.handlers = propagates, handlers


@contextmanager
def restored_logging() -> Iterator[None]:
    """Restore handlers, levels and hooks, which a command sets for its whole process."""
    loggers = [logging.getLogger(name) for name in ("", "sparkmirror", "py4j")]
    handlers, hook = [*logging.root.handlers], threading.excepthook
    levels = [one.level for one in loggers]
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.captureWarnings(capture=False)
        threading.excepthook = hook
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
