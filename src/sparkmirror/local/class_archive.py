# SPDX-License-Identifier: Apache-2.0
"""A class-data archive of Kafka's classes, which halves the time a broker or tool needs to start.

The JVM writes it when a broker ends cleanly and no archive is there yet; the file then moves into
the cache, next to the jars it was made from. Its name carries the Java build: it fits only one.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.local.java import java_build

# The archive is a bonus: remarks on classes that do not fit into it would only fill the logs.
_QUIET = ("-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path*=off")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive's place in the cache, whether or not it has been made yet."""

    file: Path

    @classmethod
    def of(cls, java: Path, jars: tuple[Path, ...]) -> ClassArchive:
        """The archive for this java and these jars."""
        build = hashlib.sha256(f"{java}\n{java_build(java)}".encode()).hexdigest()[:16]
        return cls(jars[0].parent / f"classes-{build}.jsa")

    @property
    def wanted(self) -> bool:
        """Whether it is missing and could be put into its place."""
        return not self.file.exists() and os.access(self.file.parent, os.W_OK)

    def use(self) -> tuple[str, ...]:
        """JVM options that read the archive if it is there."""
        return (*_QUIET, f"-XX:SharedArchiveFile={self.file}") if self.file.exists() else ()

    def record(self, scratch: Path) -> tuple[str, ...]:
        """JVM options that write the archive to `scratch` when the JVM ends."""
        return (*_QUIET, f"-XX:ArchiveClassesAtExit={scratch}")

    def publish(self, scratch: Path) -> None:
        """Move a finished recording into place, by way of a copy as it may lie on another disk."""
        if not scratch.exists():
            return
        if self.wanted:
            near = self.file.with_suffix(f".{os.getpid()}.part")
            near.write_bytes(scratch.read_bytes())
            near.replace(self.file)
        scratch.unlink()
