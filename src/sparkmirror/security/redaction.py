# SPDX-License-Identifier: Apache-2.0
"""Removes secrets from broker messages, and limits what libraries log.

A broker's answer to a login may repeat what was sent.

At DEBUG py4j writes each command, and that of a job holds the token of its epoch. botocore,
urllib3, httpx and httpcore write requests and answers. Levels can be set over REST, so a level is
no protection: what a library logs ends at its topmost logger. Records of a sufficient level go on
from there, without their cause, which may quote anything.
"""

from __future__ import annotations

import copy
import logging

from sparkmirror.model import HIDDEN
from sparkmirror.security.settings import SecuritySettings
from sparkmirror.security.token_sources import token_source

_MOST_WORDS = 300


def redact_broker_message(words: str, security: SecuritySettings) -> str:
    """One line, not long, without our password or token."""
    sasl = security.sasl
    if sasl is not None and sasl.password is not None and sasl.password.reveal():
        words = words.replace(sasl.password.reveal(), HIDDEN)
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
