# SPDX-License-Identifier: Apache-2.0
"""Which keys belong to which connector class, as MM2 divides them; our own keys with them.

A dedicated mirror reads all of them for every flow; a connector on a Connect worker has the keys of
its class only, and these are what its plugin's definitions list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.key import Importance, Key
from sparkmirror.config.keys_connector import CONNECT_KEYS, FLOW_ONLY_KEYS, OWN_KEYS, SHARED_KEYS
from sparkmirror.config.keys_mirror import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS
from sparkmirror.config.keys_policies import POLICY_KEYS
from sparkmirror.config.keys_security import SECURITY_KEYS
from sparkmirror.config.profiles import SOURCE_KEY, TARGET_KEY
from sparkmirror.config.value_types import Type

_NOT_OF_HEARTBEATS = ("metric.names.formats",)
_OF_BOTH = ("topic.filter.class", "consumer.poll.timeout.ms", "offset-syncs.topic.location")
_NOT_DEFINED = ("use.defaults.from",)  # read by a filter; MM2's definitions do not name it
_OWN_OF_ALL = (TARGET_KEY, SOURCE_KEY, "topic.creation.enabled")
# Read through the topic filter of a checkpoint connector, and not defined there either.
FILTER_KEYS = ("topics", "topics.exclude")

_TOPIC_CREATION = Key(
    name="topic.creation.groups",
    type=Type.LIST,
    default="",
    doc="Groups of topics that Connect creates with settings of their own.",
    importance=Importance.LOW,
    no_effect="remote topics are created as the source connector says",
)

# What every connector on a worker must say, and what is otherwise the pair's in a dedicated mirror.
_ON_A_WORKER: dict[str, Callable[[Key], Key]] = {
    "name": lambda key: replace(key, required=True, importance=Importance.HIGH),
    "connector.class": lambda key: replace(
        key,
        required=True,
        importance=Importance.HIGH,
        no_effect="",
        doc="Which of the three mirror connectors to run: Java's class name, full or simple, "
        "also without Connector at its end.",
    ),
    "enabled": lambda key: replace(
        key,
        default="true",
        doc="Whether the connector does anything; the heartbeat connector does not ask.",
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
        f"{part}.converter": lambda key: replace(key, no_effect="")  # what is in effect decides
        for part in ("key", "value", "header")
    },
    "config.providers": lambda key: replace(
        key, no_effect="references are resolved with the worker's config providers"
    ),
}


def _on_a_worker(key: Key) -> Key:
    change = _ON_A_WORKER.get(key.name)
    return key if change is None else change(key)


COMMON_KEYS = tuple(
    _on_a_worker(key)
    for key in (
        *CONNECT_KEYS,
        _TOPIC_CREATION,
        *(key for key in FLOW_ONLY_KEYS if key.name not in _NOT_DEFINED),
    )
)
_SECURITY = tuple(key for key in SECURITY_KEYS if key.name != "bootstrap.servers")
_SHARED = (*(_on_a_worker(key) for key in SHARED_KEYS), *_SECURITY)
_OWN = tuple(key for key in OWN_KEYS if key.name in _OWN_OF_ALL)
_OWN_OF_SOURCES = (*(key for key in OWN_KEYS if key.name not in _OWN_OF_ALL), *POLICY_KEYS)
OWN_NAMES = frozenset(key.name for key in (*OWN_KEYS, *POLICY_KEYS))


def _by_name(*keys: Key) -> dict[str, Key]:
    return {key.name: key for key in keys}


CLASS_KEYS: dict[ConnectorClass, dict[str, Key]] = {
    ConnectorClass.SOURCE: _by_name(*COMMON_KEYS, *_SHARED, *SOURCE_KEYS, *_OWN, *_OWN_OF_SOURCES),
    ConnectorClass.CHECKPOINT: _by_name(
        *COMMON_KEYS,
        *_SHARED,
        *(key for key in SOURCE_KEYS if key.name in _OF_BOTH),
        *CHECKPOINT_KEYS,
        *_OWN,
    ),
    ConnectorClass.HEARTBEAT: _by_name(
        *COMMON_KEYS,
        *(key for key in _SHARED if key.name not in _NOT_OF_HEARTBEATS),
        *HEARTBEAT_KEYS,
        *_OWN,
    ),
}
