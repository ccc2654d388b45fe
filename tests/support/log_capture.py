# SPDX-License-Identifier: Apache-2.0
"""Captures the log of a program while a test changes levels over REST."""

from __future__ import annotations

import io
import logging
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
