# SPDX-License-Identifier: Apache-2.0
"""Why a worker has no place in its group, or will not keep it: for all who ask, once in the log.

What goes wrong is tried again and again; only the first of many equal failures is news.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


class StatusMessage:
    """Told by one thread, read by any."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._what: str | None = None
        self._sentence: str | None = None

    @property
    def text(self) -> str | None:
        """What is wrong, or None if all is well."""
        return self._sentence

    def set(self, what: str, details: str = "") -> None:
        """`what` follows "This worker"; other details do not make it another trouble."""
        sentence = f"This worker {what}: {details}" if details else f"This worker {what}."
        if self._what != what:
            log.warning(f"{self._name}: {sentence}")
        self._what, self._sentence = what, sentence

    def clear(self) -> None:
        """All is well."""
        if self._what is not None:
            log.info(f"{self._name}: this worker has its place in the group.")
        self._what = self._sentence = None
