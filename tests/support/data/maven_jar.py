# SPDX-License-Identifier: Apache-2.0
"""One jar of somebody else's from a Maven repository, kept in the cache; its digest must be known.

Which repository: DEFAULT_ARTIFACT_REPOSITORY, or the mirror in Maven's settings.
"""

from __future__ import annotations

import hashlib
import tempfile
import urllib.request
from pathlib import Path

from sparkmirror.devcluster.maven_repository import maven_repository
from sparkmirror.system.cache_directory import cache_directory, ensure_writable

_SECONDS = 120.0


def maven_jar(path: str, sha256: str) -> Path:
    """The file at a path of the repository."""
    folder = ensure_writable(cache_directory() / "jars")
    jar = folder / path.rpartition("/")[2]
    if not jar.exists():
        root = maven_repository().root
        assert root, "set DEFAULT_ARTIFACT_REPOSITORY to the root of a Maven repository"
        with urllib.request.urlopen(f"{root.rstrip('/')}/{path}", timeout=_SECONDS) as answer:  # noqa: S310
            data = answer.read()
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as partial:
            partial.write(data)
        Path(partial.name).rename(jar)
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == sha256, f"{jar} is another file"
    return jar
