# SPDX-License-Identifier: Apache-2.0
"""Where the runs of a user on this machine serve their REST API, by properties file.

A run may use any free port, so its file does not always tell. Each run keeps one small file in the
cache directory while it serves; the files of ended processes are ignored and removed.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sparkmirror.errors import SetupError
from sparkmirror.system.cache_directory import cache_directory, ensure_writable

DEFAULT_URL = "http://localhost:8083"  # Connect's port
_log = logging.getLogger(__name__)


def publish_url(file: Path, url: str) -> None:
    """Record the URL of this process; without a writable cache directory only log it."""
    try:
        directory = ensure_writable(_directory())
        record = f"{url}\n{file.resolve()}"
        (directory / f"{_digest(file)}-{os.getpid()}").write_text(record, encoding="utf-8")
    except (SetupError, OSError) as error:
        _log.info(f"Commands for {file.name} need --url {url}: {error}")


def withdraw_url(file: Path) -> None:
    """Remove the record of this process."""
    with suppress(OSError):
        (_directory() / f"{_digest(file)}-{os.getpid()}").unlink(missing_ok=True)


def published_url(file: Path) -> str | None:
    """Return the URL of the process that has run this file for longest; None if there is none.

    The others are usually on standby, and know less.
    """
    return next((url for url, _ in _records(f"{_digest(file)}-*")), None)


def all_published() -> list[tuple[str, str]]:
    """Return URL and file of each running process of this user, by file."""
    return sorted(_records("*"), key=lambda one: one[1])


def _records(pattern: str) -> Iterator[tuple[str, str]]:
    records = []
    for path in _directory().glob(pattern):
        with suppress(FileNotFoundError):
            records.append((path.stat().st_mtime_ns, path))
    for _, record in sorted(records):
        with suppress(OSError, UnicodeDecodeError):
            if _is_running(record.name.rpartition("-")[2]):
                url, _, file = record.read_text(encoding="utf-8").partition("\n")
                yield url, file
            else:
                record.unlink(missing_ok=True)


def _directory() -> Path:
    return cache_directory() / "served"


def _digest(file: Path) -> str:
    return hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:32]


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
