# SPDX-License-Identifier: Apache-2.0
"""Which config a cluster means when it refuses a topic: told by its words, or found by asking."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

# Refusals that a config may be to blame for: INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION.
CONFIG_CODES = frozenset({40, 42, 44})


def config_named_in(sentence: str, names: Collection[str]) -> str | None:
    """The config that a refusal names; the longest, as one name may be the end of another."""
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", sentence):
            return name
    return None


def find_rejected_config(
    configs: Mapping[str, str | None], is_refused: Callable[[Mapping[str, str | None]], bool]
) -> str | None:
    """Halve the configs until one is left that turns something good into something refused.

    None: it is refused without any config, too.
    """
    pairs = list(configs.items())
    if is_refused({}):
        return None
    good, bad = 0, len(pairs)
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_refused(dict(pairs[:middle])):
            bad = middle
        else:
            good = middle
    return pairs[bad - 1][0]
