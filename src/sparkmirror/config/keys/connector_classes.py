# SPDX-License-Identifier: Apache-2.0
"""The three mirror connector classes: their names, and their keys as Connect's plugins list them.

A dedicated mirror reads the keys of all three for every flow. A connector on a Connect worker has
only the keys of its class, as MM2 divides them; `GET /connector-plugins/<class>/config` lists
these. The fields of `KeyDefinition` have the names of Connect's answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from sparkmirror.config.keys.config_def import ConfigKey, Importance, string_list
from sparkmirror.config.keys.connector_keys import (
    CONNECT_KEYS,
    FLOW_ONLY_KEYS,
    INCIDENT_POLICY_KEYS,
    SHARED_KEYS,
    SPARKMIRROR_KEYS,
)
from sparkmirror.config.keys.mirror_keys import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS
from sparkmirror.config.keys.security_keys import KAFKA_SECURITY_KEYS
from sparkmirror.config.keys.service_profiles import SOURCE_KEY, TARGET_KEY
from sparkmirror.config.keys.table import CLIENT, SECURITY, by_name
from sparkmirror.config.keys.value_types import ConfigType, parse_list

_SUFFIX = "Connector"

_NOT_OF_HEARTBEATS = ("metric.names.formats",)
_OF_BOTH = ("topic.filter.class", "consumer.poll.timeout.ms", "offset-syncs.topic.location")
_NOT_DEFINED = ("use.defaults.from",)  # read by a filter; not in MM2's definitions
_OWN_OF_ALL = (TARGET_KEY, SOURCE_KEY, "topic.creation.enabled")
# Read by the topic filter of a checkpoint connector; not in its definitions either.
FILTER_KEYS = ("topics", "topics.exclude")
_TOPIC_CREATION = string_list(
    "topic.creation.groups",
    "",
    "Groups of topics that Connect creates with specific settings.",
    importance=Importance.LOW,
    no_effect="remote topics are created as the source connector says",
)
# Keys that differ between a connector on a worker and a dedicated mirror.
_WORKER_CHANGES: dict[str, Callable[[ConfigKey], ConfigKey]] = {
    "name": lambda key: replace(key, required=True, importance=Importance.HIGH),
    "connector.class": lambda key: replace(
        key,
        required=True,
        importance=Importance.HIGH,
        no_effect="",
        doc="Which of the three mirror connectors to run: Java's class name, full or simple, "
        "with or without Connector at its end.",
    ),
    "enabled": lambda key: replace(
        key,
        default="true",
        doc="Whether the connector runs; the heartbeat connector ignores it.",
    ),
    "source.cluster.alias": lambda key: replace(
        key,
        importance=Importance.HIGH,
        doc="Name of the source cluster; the first part of remote topics' names.",
    ),
    "target.cluster.alias": lambda key: replace(
        key, importance=Importance.HIGH, doc="Name of the target cluster."
    ),
    **{
        f"{part}.converter": lambda key: replace(key, no_effect="")  # check_converters reports it
        for part in ("key", "value", "header")
    },
    "config.providers": lambda key: replace(
        key, no_effect="references are resolved with the worker's config providers"
    ),
}

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


class ConnectorClass(Enum):
    """One of MM2's connectors, by its simple class name."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"

    @property
    def java_name(self) -> str:
        return f"org.apache.kafka.connect.mirror.{self.value}"


_ALIASES = {
    name: one
    for one in ConnectorClass
    for name in (one.java_name, one.value, one.value.removesuffix(_SUFFIX))
}


def resolve_class_name(name: str) -> ConnectorClass | None:
    """Find a class by its full name, simple name, or simple name without "Connector"."""
    return _ALIASES.get(name.strip())


def unknown_class_message(name: str, version: str) -> str:
    """Return Connect's message about an unknown class; `version` is that of the plugins."""
    available = ", ".join(
        f"PluginDesc{{klass=class {one.java_name}, name='{one.java_name}', version='{version}', "
        f"encodedVersion={version}, type=source, typeName='source', location='classpath'}}"
        for one in sorted(ConnectorClass, key=lambda one: one.java_name)
    )
    return (
        "Failed to find any class that implements Connector and which name matches "
        f"{name}, available connectors are: {available}"
    )


def plugin_matches_class(path_name: str, class_name: str) -> bool:
    """Whether a validation sent to the plugin `path_name` may be about `class_name`.

    Connect's rule: the class ends with the path's name, both without a trailing "Connector".
    """
    return class_name.removesuffix(_SUFFIX).endswith(path_name.removesuffix(_SUFFIX))


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """One key, as the REST API returns it."""

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
class _FormPosition:
    """The position of a key in a form."""

    group: str
    order: int
    width: str
    label: str


# Connect's own keys, in Connect's order.
_PLACES = {
    "name": _FormPosition("Common", 1, "MEDIUM", "Connector name"),
    "connector.class": _FormPosition("Common", 2, "LONG", "Connector class"),
    "connector.plugin.version": _FormPosition("Common", 3, "MEDIUM", "Connector version"),
    "tasks.max": _FormPosition("Common", 4, "SHORT", "Tasks max"),
    "tasks.max.enforce": _FormPosition("Common", 5, "SHORT", "Enforce tasks max"),
    "key.converter": _FormPosition("Common", 6, "SHORT", "Key converter class"),
    "key.converter.plugin.version": _FormPosition("Common", 7, "SHORT", "Key converter version"),
    "value.converter": _FormPosition("Common", 8, "SHORT", "Value converter class"),
    "value.converter.plugin.version": _FormPosition(
        "Common", 9, "SHORT", "Value converter version"
    ),
    "header.converter": _FormPosition("Common", 10, "SHORT", "Header converter class"),
    "header.converter.plugin.version": _FormPosition(
        "Common", 11, "SHORT", "Header converter version"
    ),
    "transforms": _FormPosition("Transforms", 12, "LONG", "Transforms"),
    "predicates": _FormPosition("Predicates", 13, "LONG", "Predicates"),
    "config.action.reload": _FormPosition("Common", 14, "MEDIUM", "Reload Action"),
    "errors.retry.timeout": _FormPosition(
        "Error Handling", 1, "MEDIUM", "Retry Timeout for Errors"
    ),
    "errors.retry.delay.max.ms": _FormPosition(
        "Error Handling", 2, "MEDIUM", "Maximum Delay Between Retries for Errors"
    ),
    "errors.tolerance": _FormPosition("Error Handling", 3, "SHORT", "Error Tolerance"),
    "errors.log.enable": _FormPosition("Error Handling", 4, "SHORT", "Log Errors"),
    "errors.log.include.messages": _FormPosition("Error Handling", 5, "SHORT", "Log Error Details"),
    "topic.creation.groups": _FormPosition("Topic Creation", 1, "LONG", "Topic Creation Groups"),
    "exactly.once.support": _FormPosition(
        "Exactly Once Support", 2, "SHORT", "Exactly once support"
    ),
    "transaction.boundary": _FormPosition(
        "Exactly Once Support", 3, "SHORT", "Transaction Boundary"
    ),
    "transaction.boundary.interval.ms": _FormPosition(
        "Exactly Once Support", 4, "SHORT", "Transaction boundary interval"
    ),
    "offsets.storage.topic": _FormPosition(_OFFSETS_GROUP, 1, "LONG", "Offsets topic"),
}


def definitions(kind: ConnectorClass) -> tuple[KeyDefinition, ...]:
    own = [name for name in CONNECTOR_CLASS_KEYS[kind] if name in SPARKMIRROR_KEY_NAMES]
    return tuple(
        _define(key, own.index(key.name) + 1 if key.name in SPARKMIRROR_KEY_NAMES else 0)
        for key in CONNECTOR_CLASS_KEYS[kind].values()
    )


def client_definition(name: str) -> KeyDefinition | None:
    """Return the definition of a client key with a prefix, such as `producer.override.acks`."""
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


def connect_default(key: ConfigKey) -> str | None:
    """Return a default in Connect's format: items of a list without spaces between them."""
    if key.default is not None and key.type is ConfigType.LIST:
        return ",".join(parse_list(key.default)[0])
    return key.default


def _define(key: ConfigKey, own_order: int) -> KeyDefinition:
    place = _PLACES.get(key.name)
    if place is None and own_order:
        place = _FormPosition(OWN_GROUP, own_order, "MEDIUM", key.name)
    documentation = key.doc
    if key.no_effect:
        documentation += f" No effect here: {key.no_effect}."
    return KeyDefinition(
        name=key.name,
        type=key.type.name,
        required=key.required,
        default_value=None if key.required else connect_default(key),
        importance=key.importance.name,
        documentation=documentation,
        group=place.group if place else None,
        order_in_group=place.order if place else -1,
        width=place.width if place else "NONE",
        display_name=place.label if place else key.name,
    )


def _adapt_to_worker(key: ConfigKey) -> ConfigKey:
    change = _WORKER_CHANGES.get(key.name)
    return key if change is None else change(key)


COMMON_KEYS = tuple(
    _adapt_to_worker(key)
    for key in (
        *CONNECT_KEYS,
        _TOPIC_CREATION,
        *(key for key in FLOW_ONLY_KEYS if key.name not in _NOT_DEFINED),
    )
)
_SECURITY = tuple(key for key in KAFKA_SECURITY_KEYS if key.name != "bootstrap.servers")
_SHARED = (*(_adapt_to_worker(key) for key in SHARED_KEYS), *_SECURITY)
_OWN = tuple(key for key in SPARKMIRROR_KEYS if key.name in _OWN_OF_ALL)
_OWN_OF_SOURCES = (
    *(key for key in SPARKMIRROR_KEYS if key.name not in _OWN_OF_ALL),
    *INCIDENT_POLICY_KEYS,
)
SPARKMIRROR_KEY_NAMES = frozenset(key.name for key in (*SPARKMIRROR_KEYS, *INCIDENT_POLICY_KEYS))


CONNECTOR_CLASS_KEYS: dict[ConnectorClass, dict[str, ConfigKey]] = {
    ConnectorClass.SOURCE: by_name((*COMMON_KEYS, *_SHARED, *SOURCE_KEYS, *_OWN, *_OWN_OF_SOURCES)),
    ConnectorClass.CHECKPOINT: by_name(
        (
            *COMMON_KEYS,
            *_SHARED,
            *(key for key in SOURCE_KEYS if key.name in _OF_BOTH),
            *CHECKPOINT_KEYS,
            *_OWN,
        )
    ),
    ConnectorClass.HEARTBEAT: by_name(
        (
            *COMMON_KEYS,
            *(key for key in _SHARED if key.name not in _NOT_OF_HEARTBEATS),
            *HEARTBEAT_KEYS,
            *_OWN,
        )
    ),
}
