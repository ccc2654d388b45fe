# SPDX-License-Identifier: Apache-2.0
"""Reads files up to a size limit, records which files were read, and detects their changes.

`record_file_reads` records what the current thread reads through `read_bounded`: properties files,
stores, login files, files of config providers. A file is recorded before it is opened, so a change
in between is detected later. The size limit stops the reading of a device or a log file that was
named by mistake.

Changes are detected by polling with stat, which follows symbolic links: Kubernetes replaces a
directory by swapping a link. Changes are reported when all files were the same for two polls,
because they may still be written. A missing file is waited for, because some editors replace files.
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
_MAX_DIGEST_BYTES = 64 << 20  # no reader accepts larger files

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The state of a file; `digest` is empty if its content is unknown."""

    stamp: FileStamp | None  # None: the file does not exist
    digest: bytes = b""


RecordedFiles = dict[Path, FileVersion]
_recorded: ContextVar[RecordedFiles | None] = ContextVar("files_read", default=None)


@contextmanager
def record_file_reads() -> Iterator[RecordedFiles]:
    """Record the files that are read in the block, with their state before the first read."""
    files: RecordedFiles = {}
    token = _recorded.set(files)
    try:
        yield files
    finally:
        _recorded.reset(token)


def record_file(path: Path) -> None:
    """Record a file before it is read, whether it exists or not."""
    files = _recorded.get()
    if files is not None and path not in files:
        files[path] = FileVersion(file_stamp(path))


def record_content(path: Path, content: bytes | bytearray) -> None:
    """Record the content that was read from a file."""
    files = _recorded.get()
    if files is not None and path in files and not files[path].digest:
        files[path] = FileVersion(files[path].stamp, sha256(content).digest())


def file_stamp(path: Path) -> FileStamp | None:
    """Return a value that differs when a file was changed or replaced; follows links.

    None if there is no regular file: a pipe, for example, cannot be read twice.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def read_bounded(path: Path, most: int, *, only_files: bool = False) -> bytes | None:
    """Return the file's content; None if it is larger than `most` bytes. Raises OSError as `open`.

    With `only_files`, pipes and terminals also raise OSError, because reading them would block.
    Reads in pieces: a read of `most` bytes would allocate all of them.
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
    """Detects changes of files; call `poll` about twice a second, `watch` after each reload."""

    def __init__(self, files: Mapping[Path, FileVersion]) -> None:
        self._known: RecordedFiles = dict(files)
        self._last = {path: one.stamp for path, one in files.items()}
        self._unsettled_polls = 0

    def poll(self) -> tuple[Path, ...]:
        """Return files with a new content and deleted files; each change is reported once."""
        stamps = {path: file_stamp(path) for path in self._known}
        before, self._last = self._last, stamps
        differing = [path for path, stamp in stamps.items() if stamp != self._known[path].stamp]
        if not differing:
            self._unsettled_polls = 0
            return ()
        is_settled = stamps == before and all(stamps[path] is not None for path in differing)
        self._unsettled_polls += 1
        if not is_settled and self._unsettled_polls < _MAX_UNSETTLED_POLLS:
            return ()
        self._unsettled_polls = 0
        return tuple(path for path in differing if self._has_new_content(path, stamps[path]))

    def watch(self, files: Mapping[Path, FileVersion], *, is_complete: bool) -> None:
        """Watch the files of a reload; after an incomplete one, also those of the previous."""
        known: RecordedFiles = {}
        if not is_complete:
            # Their last polled state counts as known, or each poll would trigger a reload.
            known = {path: self._last_version(path, stamp) for path, stamp in self._last.items()}
        self._known = {**known, **files}
        self._last = {path: one.stamp for path, one in self._known.items()}
        self._unsettled_polls = 0

    def _last_version(self, path: Path, stamp: FileStamp | None) -> FileVersion:
        before = self._known[path]
        return before if before.stamp == stamp else FileVersion(stamp)

    def _has_new_content(self, path: Path, stamp: FileStamp | None) -> bool:
        before = self._known[path]
        digest = _digest(path) if before.digest and stamp is not None else b""
        self._known[path] = FileVersion(stamp, digest)
        return not digest or digest != before.digest  # else touched, or replaced by an equal file


def format_paths(files: Iterable[Path]) -> str:
    return ", ".join(map(str, files))


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return sha256(file.read(_MAX_DIGEST_BYTES)).digest()
    except OSError:
        return b""  # the next reader reports the error
