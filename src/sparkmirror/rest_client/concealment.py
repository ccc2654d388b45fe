# SPDX-License-Identifier: Apache-2.0
"""Which values of a connector's configuration are not shown, for connectors of any kind.

Beside what our own worker hides, and by the same rule, that is what the plugin itself declares as a
password.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkmirror.config.hidden_values import hide
from sparkmirror.rest_client.answers import KeyDefinition


def conceal(
    config: Mapping[str, str | None], definitions: Iterable[KeyDefinition] = ()
) -> dict[str, str | None]:
    """The configuration as it may be shown."""
    return hide(config, {one.name for one in definitions if one.type == "PASSWORD"})
