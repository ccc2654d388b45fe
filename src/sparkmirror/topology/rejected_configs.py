# SPDX-License-Identifier: Apache-2.0
"""Finds the config that makes a cluster reject a topic: by its message, or by trial requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

# Errors that a config may cause: INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION.
CONFIG_CODES = frozenset({40, 42, 44})


def config_named_in(sentence: str, names: Collection[str]) -> str | None:
    """Return the config that a message names; the longest, as one name may be part of another."""
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", sentence):
            return name
    return None


def find_rejected_config(
    configs: Mapping[str, str | None], is_rejected: Callable[[Mapping[str, str | None]], bool]
) -> str | None:
    """Halve the configs until one is left that causes the rejection.

    Returns None if the topic is also rejected without any config.
    """
    items = list(configs.items())
    if is_rejected({}):
        return None
    good, bad = 0, len(items)
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_rejected(dict(items[:middle])):
            bad = middle
        else:
            good = middle
    return items[bad - 1][0]
