# SPDX-License-Identifier: Apache-2.0
"""Definitions of a connector class's keys, as `GET /connector-plugins/<class>/config` has them.

They are made from the key table; only where a form shows Connect's own keys is written here. The
fields are called as in Connect's answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.key import Key
from sparkmirror.config.keys import CLIENT, SECURITY
from sparkmirror.config.keys_classes import CLASS_KEYS, OWN_NAMES
from sparkmirror.config.value_types import Type, parse_list

OWN_GROUP = "Sparkmirror"
_OFFSETS_GROUP = "offsets.topic"
GROUPS = (
    "Common",
    "Transforms",
    "Predicates",
    "Error Handling",
    "Topic Creation",
    "Exactly Once Support",
    _OFFSETS_GROUP,
    OWN_GROUP,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """One key, as a client of the REST API sees it."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None = None
    order_in_group: int = -1
    width: str = "NONE"
    display_name: str = ""
    dependents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a form shows a key."""

    group: str
    order: int
    width: str
    label: str


# Connect's own keys, in Connect's order.
_PLACES = {
    "name": _Place("Common", 1, "MEDIUM", "Connector name"),
    "connector.class": _Place("Common", 2, "LONG", "Connector class"),
    "connector.plugin.version": _Place("Common", 3, "MEDIUM", "Connector version"),
    "tasks.max": _Place("Common", 4, "SHORT", "Tasks max"),
    "tasks.max.enforce": _Place("Common", 5, "SHORT", "Enforce tasks max"),
    "key.converter": _Place("Common", 6, "SHORT", "Key converter class"),
    "key.converter.plugin.version": _Place("Common", 7, "SHORT", "Key converter version"),
    "value.converter": _Place("Common", 8, "SHORT", "Value converter class"),
    "value.converter.plugin.version": _Place("Common", 9, "SHORT", "Value converter version"),
    "header.converter": _Place("Common", 10, "SHORT", "Header converter class"),
    "header.converter.plugin.version": _Place("Common", 11, "SHORT", "Header converter version"),
    "transforms": _Place("Transforms", 12, "LONG", "Transforms"),
    "predicates": _Place("Predicates", 13, "LONG", "Predicates"),
    "config.action.reload": _Place("Common", 14, "MEDIUM", "Reload Action"),
    "errors.retry.timeout": _Place("Error Handling", 1, "MEDIUM", "Retry Timeout for Errors"),
    "errors.retry.delay.max.ms": _Place(
        "Error Handling", 2, "MEDIUM", "Maximum Delay Between Retries for Errors"
    ),
    "errors.tolerance": _Place("Error Handling", 3, "SHORT", "Error Tolerance"),
    "errors.log.enable": _Place("Error Handling", 4, "SHORT", "Log Errors"),
    "errors.log.include.messages": _Place("Error Handling", 5, "SHORT", "Log Error Details"),
    "topic.creation.groups": _Place("Topic Creation", 1, "LONG", "Topic Creation Groups"),
    "exactly.once.support": _Place("Exactly Once Support", 2, "SHORT", "Exactly once support"),
    "transaction.boundary": _Place("Exactly Once Support", 3, "SHORT", "Transaction Boundary"),
    "transaction.boundary.interval.ms": _Place(
        "Exactly Once Support", 4, "SHORT", "Transaction boundary interval"
    ),
    "offsets.storage.topic": _Place(_OFFSETS_GROUP, 1, "LONG", "Offsets topic"),
}


def definitions(kind: ConnectorClass) -> tuple[Definition, ...]:
    """Every key of a class."""
    own = [name for name in CLASS_KEYS[kind] if name in OWN_NAMES]
    return tuple(
        _define(key, own.index(key.name) + 1 if key.name in OWN_NAMES else 0)
        for key in CLASS_KEYS[kind].values()
    )


def client_definition(name: str) -> Definition | None:
    """The definition of a client's key behind a prefix, such as `producer.override.acks`."""
    for prefix, keys in _CLIENT_KEYS.items():
        short = name.removeprefix(prefix)
        if short != name and short in keys:
            return replace(_define(keys[short], 0), name=name, display_name=short)
    return None


_CLIENT_KEYS = {
    "source.cluster.": SECURITY,
    "target.cluster.": SECURITY,
    **{f"{role}.override.": keys for role, keys in CLIENT.items()},
}


def default_text(key: Key) -> str | None:
    """A default as Connect writes it: items of a list without blanks between them."""
    if key.default is not None and key.type is Type.LIST:
        return ",".join(parse_list(key.default)[0])
    return key.default


def _define(key: Key, own_order: int) -> Definition:
    place = _PLACES.get(key.name)
    if place is None and own_order:
        place = _Place(OWN_GROUP, own_order, "MEDIUM", key.name)
    documentation = key.doc
    if key.no_effect:
        documentation += f" No effect here: {key.no_effect}."
    return Definition(
        name=key.name,
        type=key.type.name,
        required=key.required,
        default_value=None if key.required else default_text(key),
        importance=key.importance.name,
        documentation=documentation,
        group=place.group if place else None,
        order_in_group=place.order if place else -1,
        width=place.width if place else "NONE",
        display_name=place.label if place else key.name,
    )
