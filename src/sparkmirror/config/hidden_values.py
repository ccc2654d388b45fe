# SPDX-License-Identifier: Apache-2.0
"""Passwords in a connector's configuration: never shown, and not lost when what is shown returns.

A client reads a configuration, changes a line and sends it back: `[hidden]` then means the value
that is stored. A reference such as `${file:...}` is no secret and stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from sparkmirror.config.keys import is_secret

HIDDEN = "[hidden]"
_REFERENCE = re.compile(r"\$\{[\w.-]+:[^{}]+\}")


def hide(
    config: Mapping[str, str | None], passwords: Collection[str] = ()
) -> dict[str, str | None]:
    """The configuration as a client may see it; `passwords` are further keys that hold one."""
    return {
        key: HIDDEN if text and _hides(key, text, passwords) else text
        for key, text in config.items()
    }


def _hides(key: str, text: str, passwords: Collection[str]) -> bool:
    return (key in passwords or is_secret(key)) and not _is_reference(text)


def _is_reference(text: str) -> bool:
    """Exactly one, and nothing beside it."""
    return _REFERENCE.fullmatch(text) is not None


def restore(
    config: Mapping[str, str | None], stored: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The configuration with the stored values in the place of those that were hidden."""
    return {
        key: stored.get(key, text) if text == HIDDEN and is_secret(key) else text
        for key, text in config.items()
    }
