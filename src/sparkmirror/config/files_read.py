# SPDX-License-Identifier: Apache-2.0
"""Remembers which files a configuration was read from, so that all of them can be watched.

Whoever reads says `noting_files`; whatever is read meanwhile, in the same thread, is noted by
`read_bounded`, through which all of it passes: properties files, stores, login files, what config
providers look up. A file is noted before it is opened: a change in between is seen as one later.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

Mark = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class FileState:
    """How a file looked; `digest` is empty where its content is not known."""

    mark: Mark | None  # None: there is no such file
    digest: bytes = b""


FilesRead = dict[Path, FileState]
_noted: ContextVar[FilesRead | None] = ContextVar("files_read", default=None)


@contextmanager
def noting_files() -> Iterator[FilesRead]:
    """The files that are read until the end of the block, as they were when first looked at."""
    files: FilesRead = {}
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def note_file(path: Path) -> None:
    """Say that a file is about to be read, whether it is there or not."""
    files = _noted.get()
    if files is not None and path not in files:
        files[path] = FileState(mark_of(path))


def note_content(path: Path, content: bytes | bytearray) -> None:
    """Say what was read from it."""
    files = _noted.get()
    if files is not None and path in files and not files[path].digest:
        files[path] = FileState(files[path].mark, sha256(content).digest())


def mark_of(path: Path) -> Mark | None:
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
