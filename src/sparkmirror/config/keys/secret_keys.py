# SPDX-License-Identifier: Apache-2.0
"""Determines which keys hold secrets, and hides them in configurations.

A client reads a configuration, changes a line and sends it back: `[hidden]` then means the stored
value. A reference such as `${file:...}` is not a secret and is not hidden.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from sparkmirror.config.keys.table import all_keys
from sparkmirror.model import HIDDEN

_REFERENCE = re.compile(r"\$\{[\w.-]+:[^{}]+\}")


def is_secret(name: str) -> bool:
    """Whether a key holds a secret, with or without a prefix.

    The table decides for known keys; the name decides for unknown ones.
    """
    parts = name.split(".")
    endings = (".".join(parts[at:]) for at in range(len(parts)))
    known = next((_KNOWN[one] for one in endings if one in _KNOWN), None)
    if known is not None:
        return known
    return _SECRET_PATTERN.search(name) is not None and not _NOT_SECRET_PATTERN.search(name)


_KNOWN = {key.name: key.is_secret for key in all_keys()}
_SECRET_PATTERN = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|user.?info|authorization|keystore.?key"
    r"|(private|api|access|account|shared).?key",
    re.IGNORECASE,
)
_NOT_SECRET_PATTERN = re.compile(
    r"\.(class|url|uri|location|path|file|type|source|algorithm|enabled?|ms|seconds)$",
    re.IGNORECASE,
)


def redact_config(
    config: Mapping[str, str | None], passwords: Collection[str] = ()
) -> dict[str, str | None]:
    """Return the configuration for clients; `passwords` are further keys that hold secrets."""
    return {
        key: HIDDEN if text and _must_redact(key, text, passwords) else text
        for key, text in config.items()
    }


def _must_redact(key: str, text: str, passwords: Collection[str]) -> bool:
    return (key in passwords or is_secret(key)) and not _is_reference(text)


def _is_reference(text: str) -> bool:
    """Whether the text is exactly one reference."""
    return _REFERENCE.fullmatch(text) is not None


def restore_secrets(
    config: Mapping[str, str | None], stored: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Replace hidden values by the stored ones."""
    return {
        key: stored.get(key, text) if text == HIDDEN and is_secret(key) else text
        for key, text in config.items()
    }
