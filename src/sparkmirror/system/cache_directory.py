# SPDX-License-Identifier: Apache-2.0
"""The directory for downloads and other files that can be rebuilt.

All checkouts of a user share it, so a fresh clone downloads nothing twice.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sparkmirror.errors import SetupError

_REMEDY = "Make it writable, or set SPARKMIRROR_CACHE to a directory that is."


def cache_directory() -> Path:
    """SPARKMIRROR_CACHE, else XDG_CACHE_HOME/sparkmirror, else ~/.cache/sparkmirror."""
    chosen = os.environ.get("SPARKMIRROR_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    root = Path(xdg) if xdg else Path.home() / ".cache"
    return root.absolute() / "sparkmirror"


def ensure_writable(directory: Path, *, remedy: str = _REMEDY) -> Path:
    """Create the directory if needed and return it. Raises SetupError if it is not writable."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Try a write: mode bits do not show read-only mounts or quotas, and do not limit root.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise SetupError(f"Cannot write to {directory} ({reason}).", remedy=remedy) from error
    return directory
