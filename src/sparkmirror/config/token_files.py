# SPDX-License-Identifier: Apache-2.0
"""Files for logins with tokens: what is in them goes to an endpoint, or to a broker, as it is.

A connector that came over REST may therefore name only those that Java's workers would read: the
ones that KAFKA_OPTS lists.
"""

from __future__ import annotations

import os
from pathlib import Path

from sparkmirror.config.security_texts import Texts
from sparkmirror.config.stores import read_named
from sparkmirror.security.login_files import token_files_of

_MOST_BYTES = 1 << 20


def read_token_file(place: Texts, name: str, path: str) -> bytes:
    """What is in it; Misfit if it cannot or may not be read."""
    if place.is_foreign(name) and not _is_listed(path):
        raise place.misfit(
            name,
            f"names {place.shown(name)}; over REST only files may be named that "
            "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files in this process's KAFKA_OPTS lists",
        )
    return read_named(place, name, path, _MOST_BYTES)


def _is_listed(path: str) -> bool:
    allowed = token_files_of(os.environ.get("KAFKA_OPTS", ""))
    try:
        real = Path(path).resolve()
        return any(Path(one).resolve() == real for one in allowed)
    except (OSError, ValueError):  # no path at all
        return False
