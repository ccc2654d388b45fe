# SPDX-License-Identifier: Apache-2.0
"""A directory like a mounted Kubernetes secret: links to a version, and a link that is swapped.

me.p12   -> ..data/me.p12
..data   -> ..version-2
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class MountedSecret:
    """Every `publish` replaces all files at once, under the same names."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self._version = 0

    def publish(self, fill: Callable[[Path], object]) -> None:
        """Write the files of the next version with a callback, then swap the link."""
        self._version += 1
        version = self.path / f"..version-{self._version}"
        version.mkdir()
        fill(version)
        for file in version.iterdir():
            link = self.path / file.name
            if not link.is_symlink():
                link.symlink_to(f"..data/{file.name}")
        (self.path / "..new").symlink_to(version.name)
        (self.path / "..new").rename(self.path / "..data")
