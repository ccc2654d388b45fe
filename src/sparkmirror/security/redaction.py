# SPDX-License-Identifier: Apache-2.0
"""What a broker said to our login, fit to be shown: it may repeat what we sent.

Logs of libraries, of which only that is let through which shows no secrets.

At DEBUG py4j writes each command, and that of a job holds the token of its epoch; botocore and
urllib3 write requests and answers. Whoever may set levels over REST must not get these, so a
level is no protection: what a library logs ends at its topmost logger, whichever logger below wrote
it, and what is serious enough goes on from there, without its cause, which may quote anything.
"""

from __future__ import annotations

import copy
import logging

from sparkmirror.security.settings import SecuritySettings
from sparkmirror.security.token_sources import token_source

_MOST_WORDS = 300


def redact_broker_message(words: str, security: SecuritySettings) -> str:
    """One line, not long, without our password or token."""
    sasl = security.sasl
    if sasl is not None and sasl.password is not None and sasl.password.reveal():
        words = words.replace(sasl.password.reveal(), "[hidden]")
    if sasl is not None and sasl.oauth is not None:
        words = token_source(sasl.oauth).redact(words)
    words = "".join(char if char.isprintable() else " " for char in words)
    return words[:_MOST_WORDS].strip().rstrip(".")


def limit_library_logs(library: str, level: int) -> None:
    """Of what a library logs show only this level and above, from now on and for good."""
    topmost = logging.getLogger(library)
    topmost.propagate = False
    if not any(isinstance(one, _RootForwarder) for one in topmost.handlers):
        topmost.addHandler(_RootForwarder(level))


class _RootForwarder(logging.Handler):
    """Hands on to whoever listens at the root."""

    def emit(self, record: logging.LogRecord) -> None:
        shown = copy.copy(record)
        cause = record.exc_info[0] if record.exc_info else None
        if cause is not None:
            shown.msg, shown.args = f"{record.getMessage()} ({cause.__name__})", ()
        shown.exc_info = shown.exc_text = None
        logging.root.callHandlers(shown)
