# SPDX-License-Identifier: Apache-2.0
"""The keys of a place in a group, the same for a worker's file and for the pairs of a mirror's."""

from __future__ import annotations

from sparkmirror.config.key import Importance, Key
from sparkmirror.config.value_types import Type, between

_MOST = 2**31 - 1


def milliseconds(name: str, default: int, doc: str, least: int = 1) -> Key:
    """A time that has a default and is at least `least`."""
    return Key(
        name=name,
        type=Type.INT,
        default=str(default),
        doc=doc,
        importance=Importance.LOW,
        checks=(between(least, _MOST),),
    )


PLACE_KEYS = (
    milliseconds(
        "session.timeout.ms",
        10_000,
        "How long a process of the group may be silent before its work goes to others.",
    ),
    milliseconds(
        "heartbeat.interval.ms", 3_000, "How often a process shows its group that it lives."
    ),
    milliseconds(
        "rebalance.timeout.ms",
        60_000,
        "How long the members have to join again when the group changes.",
    ),
)
