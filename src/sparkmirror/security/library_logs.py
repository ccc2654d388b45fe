# SPDX-License-Identifier: Apache-2.0
"""Logs of libraries, of which only that is let through which shows no secrets.

At DEBUG kafka-python writes whole records, and those of Connect's config topic hold passwords and
the group's key; py4j writes each command, and that of a job holds the token of its epoch; botocore
and urllib3 write requests and answers. Whoever may set levels over REST must not get these, so a
level is no protection: what a library logs ends at its topmost logger, whichever logger below wrote
it, and what is serious enough goes on from there, without its cause, which may quote anything.
"""

from __future__ import annotations

import copy
import logging


def let_through(library: str, level: int) -> None:
    """Of what a library logs show only this level and above, from now on and for good."""
    topmost = logging.getLogger(library)
    topmost.propagate = False
    if not any(isinstance(one, _Outlet) for one in topmost.handlers):
        topmost.addHandler(_Outlet(level))


class _Outlet(logging.Handler):
    """Hands on to whoever listens at the root."""

    def emit(self, record: logging.LogRecord) -> None:
        shown = copy.copy(record)
        cause = record.exc_info[0] if record.exc_info else None
        if cause is not None:
            shown.msg, shown.args = f"{record.getMessage()} ({cause.__name__})", ()
        shown.exc_info = shown.exc_text = None
        logging.root.callHandlers(shown)
