# SPDX-License-Identifier: Apache-2.0
"""Notices that a file has other content now, by looking at it again and again.

A look is a stat, which follows symbolic links: Kubernetes swaps one to replace a whole directory.
A file that is still being written changes from look to look, so only one that stayed the same for
two looks counts; one that is missing for a moment, as editors do it, is waited for.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from pathlib import Path

_Mark = tuple[int, int, int, int]
_MISSED_LOOKS = 20


class Seen(Enum):
    """What a look at the file found."""

    SAME = "same"
    CHANGED = "changed"
    GONE = "gone"  # said once


class FileWatch:
    """One file; `look` about twice a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = self._known = self._mark()
        self._digest = self._content()
        self._missed = 0

    def look(self) -> Seen:
        """Whether there is something new to read, or nothing to read any more."""
        mark, before = self._mark(), self._last
        self._last = mark
        if mark is None:
            self._missed += 1
            return Seen.GONE if self._missed == _MISSED_LOOKS else Seen.SAME
        self._missed = 0
        if mark == self._known or mark != before:
            return Seen.SAME
        self._known = mark
        digest = self._content()
        if digest == self._digest:
            return Seen.SAME  # touched, or replaced by its like
        self._digest = digest
        return Seen.CHANGED

    def _mark(self) -> _Mark | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev

    def _content(self) -> bytes:
        try:
            return sha256(self._path.read_bytes()).digest()
        except OSError as error:
            return str(error).encode()  # whoever reads it next says what is wrong
