# SPDX-License-Identifier: Apache-2.0
"""Notices that files have other content now, by looking at them again and again.

A look is a stat of each, which follows symbolic links: Kubernetes swaps one to replace a whole
directory. Files that are still being written change from look to look, so they count only when all
of them stayed the same for two looks; one that is missing for a moment, as editors do it, is
waited for. Neither is waited for much longer than others take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from sparkmirror.config.files_read import FilesRead, FileState, Mark, mark_of

_PATIENT_LOOKS = 20
_MOST_BYTES = 64 << 20  # nobody reads files that are larger


class FilesWatch:
    """The files of one reading; `look` about twice a second, `follow` after every reading."""

    def __init__(self, files: Mapping[Path, FileState]) -> None:
        self._known: FilesRead = dict(files)
        self._last = {path: one.mark for path, one in files.items()}
        self._waited = 0

    def look(self) -> tuple[Path, ...]:
        """The files with something new to read, or nothing to read any more; each is told once."""
        marks = {path: mark_of(path) for path in self._known}
        before, self._last = self._last, marks
        differing = [path for path, mark in marks.items() if mark != self._known[path].mark]
        if not differing:
            self._waited = 0
            return ()
        is_settled = marks == before and all(marks[path] is not None for path in differing)
        self._waited += 1
        if not is_settled and self._waited < _PATIENT_LOOKS:
            return ()
        self._waited = 0
        return tuple(path for path in differing if self._is_news(path, marks[path]))

    def follow(self, files: Mapping[Path, FileState], *, is_complete: bool) -> None:
        """Watch the files of a newer reading; one that stopped half-way leaves the others, too."""
        known: FilesRead = {}
        if not is_complete:
            # What it did not come to was as it is now, or it would be read again and again.
            known = {path: self._as_it_is(path, mark) for path, mark in self._last.items()}
        self._known = {**known, **files}
        self._last = {path: one.mark for path, one in self._known.items()}
        self._waited = 0

    def _as_it_is(self, path: Path, mark: Mark | None) -> FileState:
        before = self._known[path]
        return before if before.mark == mark else FileState(mark)

    def _is_news(self, path: Path, mark: Mark | None) -> bool:
        before = self._known[path]
        digest = _digest(path) if before.digest and mark is not None else b""
        self._known[path] = FileState(mark, digest)
        return not digest or digest != before.digest  # else touched, or replaced by its like


def listed(files: Iterable[Path]) -> str:
    """For a sentence."""
    return ", ".join(map(str, files))


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return sha256(file.read(_MOST_BYTES)).digest()
    except OSError:
        return b""  # whoever reads it next says what is wrong
