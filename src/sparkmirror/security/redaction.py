# SPDX-License-Identifier: Apache-2.0
"""Limits what is shown of messages of other programs, and what libraries log.

At DEBUG py4j logs each command, and a job's command contains the token of its epoch. botocore,
urllib3, httpx and httpcore log requests and responses. Users can set log levels over REST, so a
level is no protection. Instead, the library's top-level logger does not propagate; its handler
forwards records at or above a fixed level to the root, without exceptions, which may quote secrets.
"""

from __future__ import annotations

import copy
import logging

_MAX_CHARS = 300


def one_line(text: str) -> str:
    """Shorten another program's message to one printable line without a final dot."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable[:_MAX_CHARS].strip().rstrip(".")


def limit_library_logs(library: str, level: int) -> None:
    """Drop a library's log records below `level`, whatever level users set later."""
    topmost = logging.getLogger(library)
    topmost.propagate = False
    if not any(isinstance(one, _RootForwarder) for one in topmost.handlers):
        topmost.addHandler(_RootForwarder(level))


class _RootForwarder(logging.Handler):
    """Forwards records to the handlers of the root logger."""

    def emit(self, record: logging.LogRecord) -> None:
        shown = copy.copy(record)
        cause = record.exc_info[0] if record.exc_info else None
        if cause is not None:
            shown.msg, shown.args = f"{record.getMessage()} ({cause.__name__})", ()
        shown.exc_info = shown.exc_text = None
        logging.root.callHandlers(shown)
