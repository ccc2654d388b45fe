# SPDX-License-Identifier: Apache-2.0
"""Reads files up to a size limit, records which files were read, and notices their changes.

`record_file_reads` records what the current thread reads through `read_bounded`: properties files,
stores, login files, files of config providers. A file is recorded before it is opened, so that a
change in between is noticed later. The size limit ends the reading of a device or a log that was
named by mistake.

Changes are found by polling with stat, which follows symbolic links: Kubernetes replaces a
directory by swapping a link. Files that are still being written count only when all of them were
the same for two polls. A file that is missing for a moment, as with some editors, is waited for.
Both waits are bounded.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

FileStamp = tuple[int, int, int, int, int]

_MAX_UNSETTLED_POLLS = 20
_MOST_BYTES = 64 << 20  # nobody reads files that are larger

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileVersion:
    """How a file looked; `digest` is empty where its content is not known."""

    mark: FileStamp | None  # None: there is no such file
    digest: bytes = b""


RecordedFiles = dict[Path, FileVersion]
_noted: ContextVar[RecordedFiles | None] = ContextVar("files_read", default=None)


@contextmanager
def record_file_reads() -> Iterator[RecordedFiles]:
    """The files that are read until the end of the block, as they were when first looked at."""
    files: RecordedFiles = {}
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def record_file(path: Path) -> None:
    """Say that a file is about to be read, whether it is there or not."""
    files = _noted.get()
    if files is not None and path not in files:
        files[path] = FileVersion(file_stamp(path))


def record_content(path: Path, content: bytes | bytearray) -> None:
    """Say what was read from it."""
    files = _noted.get()
    if files is not None and path in files and not files[path].digest:
        files[path] = FileVersion(files[path].mark, sha256(content).digest())


def file_stamp(path: Path) -> FileStamp | None:
    """What tells that a file was changed or replaced, links followed; None if there is none.

    Pipes and the like are none: they cannot be read twice.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def read_bounded(path: Path, most: int, *, only_files: bool = False) -> bytes | None:
    """What the file holds; None if that is more than `most` bytes. OSError as `open` raises it.

    With `only_files` also for a pipe or a terminal, on which the program would wait. Room is made
    as it is needed: asking for the bound at once would set all of it aside.
    """
    record_file(path)
    kind = path.stat().st_mode
    if only_files and not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError(errno.EINVAL, "it is not a file")
    content = bytearray()
    with path.open("rb") as file:
        while piece := file.read(min(_PIECE_BYTES, most + 1 - len(content))):
            content += piece
            if len(content) > most:
                return None
    record_content(path, content)
    return bytes(content)


class FileWatcher:
    """The files of one reading; `look` about twice a second, `follow` after every reading."""

    def __init__(self, files: Mapping[Path, FileVersion]) -> None:
        self._known: RecordedFiles = dict(files)
        self._last = {path: one.mark for path, one in files.items()}
        self._waited = 0

    def poll(self) -> tuple[Path, ...]:
        """The files with something new to read, or nothing to read any more; each is told once."""
        marks = {path: file_stamp(path) for path in self._known}
        before, self._last = self._last, marks
        differing = [path for path, mark in marks.items() if mark != self._known[path].mark]
        if not differing:
            self._waited = 0
            return ()
        is_settled = marks == before and all(marks[path] is not None for path in differing)
        self._waited += 1
        if not is_settled and self._waited < _MAX_UNSETTLED_POLLS:
            return ()
        self._waited = 0
        return tuple(path for path in differing if self._has_new_content(path, marks[path]))

    def watch(self, files: Mapping[Path, FileVersion], *, is_complete: bool) -> None:
        """Watch the files of a newer reading; one that stopped half-way leaves the others, too."""
        known: RecordedFiles = {}
        if not is_complete:
            # What it did not come to was as it is now, or it would be read again and again.
            known = {path: self._as_it_is(path, mark) for path, mark in self._last.items()}
        self._known = {**known, **files}
        self._last = {path: one.mark for path, one in self._known.items()}
        self._waited = 0

    def _as_it_is(self, path: Path, mark: FileStamp | None) -> FileVersion:
        before = self._known[path]
        return before if before.mark == mark else FileVersion(mark)

    def _has_new_content(self, path: Path, mark: FileStamp | None) -> bool:
        before = self._known[path]
        digest = _digest(path) if before.digest and mark is not None else b""
        self._known[path] = FileVersion(mark, digest)
        return not digest or digest != before.digest  # else touched, or replaced by its like


def format_paths(files: Iterable[Path]) -> str:
    """For a sentence."""
    return ", ".join(map(str, files))


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return sha256(file.read(_MOST_BYTES)).digest()
    except OSError:
        return b""  # whoever reads it next says what is wrong
