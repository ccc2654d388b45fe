# SPDX-License-Identifier: Apache-2.0
"""Files that people name, read up to a bound: a device or a log given by mistake never ends."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from sparkmirror.config.files_read import note_content, note_file

_PIECE_BYTES = 1 << 20


def read_bounded(path: Path, most: int, *, only_files: bool = False) -> bytes | None:
    """What the file holds; None if that is more than `most` bytes. OSError as `open` raises it.

    With `only_files` also for a pipe or a terminal, on which the program would wait. Room is made
    as it is needed: asking for the bound at once would set all of it aside.
    """
    note_file(path)
    kind = path.stat().st_mode
    if only_files and not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError(errno.EINVAL, "it is not a file")
    content = bytearray()
    with path.open("rb") as file:
        while piece := file.read(min(_PIECE_BYTES, most + 1 - len(content))):
            content += piece
            if len(content) > most:
                return None
    note_content(path, content)
    return bytes(content)
