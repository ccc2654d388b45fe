# SPDX-License-Identifier: Apache-2.0
"""Which values of a connector's configuration are not shown, for connectors of any kind.

Secret is what the plugin itself declares as a password, what Kafka's clients do, and, because a
transformation's or a vendor's key may be in neither list, what sounds like one. A reference such
as `${file:...}` is no secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sparkmirror.config.hidden_values import HIDDEN, hide
from sparkmirror.rest_client.answers import KeyDefinition

_SOUNDS_SECRET = re.compile(
    r"passw|passphrase|secret|token|credential|private.?key|api.?key|access.?key|jaas",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_HARMLESS = re.compile(r"\.(class|url|uri|location|path|enabled?|ms|seconds)$", re.IGNORECASE)


def conceal(
    config: Mapping[str, str | None], definitions: Iterable[KeyDefinition] = ()
) -> dict[str, str | None]:
    """The configuration as it may be shown."""
    declared = {one.name for one in definitions if one.type == "PASSWORD"}
    return {
        key: HIDDEN if value and _is_secret(key, value, declared) else value
        for key, value in hide(config).items()
    }


def _is_secret(key: str, value: str, declared: set[str]) -> bool:
    if _REFERENCE.fullmatch(value):
        return False
    sounds_so = _SOUNDS_SECRET.search(key) is not None and not _HARMLESS.search(key)
    return key in declared or sounds_so
