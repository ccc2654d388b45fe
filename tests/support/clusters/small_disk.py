# SPDX-License-Identifier: Apache-2.0
"""A small disk that can be filled: a file system in memory, in a private mount namespace.

The namespace belongs to one process tree; its mounts end with the last process. Needs Linux and
root or user namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_INSIDE = "SPARKMIRROR_TEST_MOUNTS"
_BALLAST = "ballast"
_BLOCK = 1 << 16


def enter_namespace(module: str, arguments: Sequence[str]) -> bool:
    """Run this Python module again inside a mount namespace; False if that is not possible."""
    if os.environ.get(_INSIDE):
        return True
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    prefix = ["unshare", *user, "--mount", "--propagation", "private"]
    probe = [*prefix, "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
    can = (
        shutil.which("unshare")
        and not subprocess.run(probe, capture_output=True, check=False).returncode
    )
    if can:
        again = [*prefix, sys.executable, "-m", module, *arguments]
        os.execvpe("unshare", again, {**os.environ, _INSIDE: "1"})  # noqa: S606 - no shell
    return False


class SmallDisk:
    """A mounted file system of a fixed size."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
            check=True,
            capture_output=True,
        )

    def fill(self) -> None:
        with (self.folder / _BALLAST).open("ab", buffering=0) as ballast:
            for size in (1 << 20, _BLOCK, 1 << 12):
                try:
                    while True:
                        ballast.write(b"\0" * size)
                except OSError:
                    continue  # full for this size; the last one fills it to the brim

    def make_room(self) -> None:
        (self.folder / _BALLAST).unlink(missing_ok=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False, capture_output=True)
