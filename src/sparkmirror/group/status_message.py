# SPDX-License-Identifier: Apache-2.0
"""Why a worker is not a member of its group, as a status and once in the log.

Failures are retried; only the first of equal failures is logged.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


class StatusMessage:
    """Written by one thread, read by any."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._what: str | None = None
        self._sentence: str | None = None

    @property
    def text(self) -> str | None:
        """The problem, or None."""
        return self._sentence

    def set(self, what: str, details: str = "") -> None:
        """`what` follows "This worker"; a change of `details` alone is not logged."""
        sentence = f"This worker {what}: {details}" if details else f"This worker {what}."
        if self._what != what:
            log.warning(f"{self._name}: {sentence}")
        self._what, self._sentence = what, sentence

    def clear(self) -> None:
        if self._what is not None:
            log.info(f"{self._name}: joined the group.")
        self._what = self._sentence = None
