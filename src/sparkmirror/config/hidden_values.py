# SPDX-License-Identifier: Apache-2.0
"""Passwords in a connector's configuration: never shown, and not lost when what is shown returns.

A client reads a configuration, changes a line and sends it back: `[hidden]` then means the value
that is stored. A reference such as `${file:...}` is no secret and stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkmirror.config.keys import is_secret

HIDDEN = "[hidden]"
_REFERENCE = re.compile(r"\$\{[\w.-]+:[^{}]+\}")


def hide(config: Mapping[str, str | None]) -> dict[str, str | None]:
    """The configuration as a client may see it."""
    return {key: _hidden(key, text) for key, text in config.items()}


def _hidden(key: str, text: str | None) -> str | None:
    is_shown = not text or not is_secret(key) or _is_reference(text)
    return text if is_shown else HIDDEN


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
