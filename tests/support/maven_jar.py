# SPDX-License-Identifier: Apache-2.0
"""One jar of somebody else's from a Maven repository, kept in the cache; its digest must be known.

Which repository: DEFAULT_ARTIFACT_REPOSITORY, or the mirror in Maven's settings.
"""

from __future__ import annotations

import hashlib
import tempfile
import urllib.request
from pathlib import Path

from sparkmirror.local.cache import cache_directory, writable
from sparkmirror.local.registry import maven_registry

_SECONDS = 120.0


def maven_jar(path: str, sha256: str) -> Path:
    """The file at a path of the repository."""
    folder = writable(cache_directory() / "jars")
    jar = folder / path.rpartition("/")[2]
    if not jar.exists():
        root = maven_registry().root
        assert root, "set DEFAULT_ARTIFACT_REPOSITORY to the root of a Maven repository"
        with urllib.request.urlopen(f"{root.rstrip('/')}/{path}", timeout=_SECONDS) as answer:  # noqa: S310
            data = answer.read()
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as partial:
            partial.write(data)
        Path(partial.name).rename(jar)
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == sha256, f"{jar} is another file"
    return jar
