# SPDX-License-Identifier: Apache-2.0
"""A digest of a flow's settings, as far as a plan depends on them.

It contains no secret, not even hashed: fields without repr are left out, and so are connections.
Intervals count only as set or not set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkmirror.config.settings import FlowSettings

_WITHOUT_EFFECT = frozenset({"tasks_max", "offset_lag_max"})
_DIGITS = 32


def settings_digest(settings: FlowSettings) -> str:
    """Return a digest that changes when the settings would lead to another plan."""
    relevant = {
        "flow": str(settings.flow),
        "enabled": settings.enabled,
        "policy": settings.policy,
        "source": settings.source,
        "heartbeat": settings.heartbeat,
        "checkpoint": settings.checkpoint,
        "internal_topics": settings.internal_topics,
        "initial_offsets_group": settings.pipeline.initial_offsets_group,
        "isolation_level": settings.fetch.isolation_level,
        "auto_offset_reset": settings.fetch.auto_offset_reset,
    }
    text = json.dumps(_plain(relevant), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {
            one.name: _field(one.name, getattr(value, one.name))
            for one in fields(value)
            if one.repr and one.name not in _WITHOUT_EFFECT
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list, frozenset, set)):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.name
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _field(name: str, value: object) -> object:
    return value is not None if name.endswith("_seconds") else _plain(value)
