# SPDX-License-Identifier: Apache-2.0
"""The tables of worker keys (`B.<key>`, B being the target) and of the file's top level."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.config.key import Importance, Key
from sparkmirror.config.keys_group import PLACE_KEYS
from sparkmirror.config.keys_rest import REST_KEYS, listeners
from sparkmirror.config.value_types import (
    Rejected,
    Type,
    at_least,
    between,
    not_empty,
    one_of,
    replication_factor,
)

_HELD = "a small cluster should work without a line about it; set factors are kept to the letter"
_NO_CONFIGS = "the file says what runs, nobody has to read it in the group"
_NO_REQUESTS = "processes send each other no requests"
_LAST_PORT = 65_535

# Global keys with these beginnings reach the worker, and beat the `B.` ones: MM2's rule.
GLOBAL_WORKER_PREFIXES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
)

STORAGES = ("offset.storage", "status.storage", "config.storage")
# What a storage's keys mean to the worker; any other key below it is a topic config.
STORAGE_OWN = frozenset({"topic", "partitions", "replication.factor", "cleanup.policy"})


def _partitions(value: object) -> None:
    if isinstance(value, int) and (value == 0 or value < -1):
        raise Rejected("must be at least 1, or -1 for the broker's default", value)


def _storage(storage: str, what: str, partitions: int | None) -> tuple[Key, ...]:
    keys = [
        Key(
            name=f"{storage}.topic",
            type=Type.STRING,
            default=None,
            doc=f"Topic on the target that holds {what}; by default named after the source.",
            checks=(not_empty,),
            importance=Importance.LOW,
        ),
        Key(
            name=f"{storage}.replication.factor",
            type=Type.SHORT,
            default=None,
            doc="Replication factor of that topic. Not set: 3, or what the target can hold.",
            checks=(replication_factor,),
            mm2_default="3",
            reason=_HELD,
        ),
    ]
    if partitions is not None:
        keys.append(
            Key(
                name=f"{storage}.partitions",
                type=Type.INT,
                default=str(partitions),
                doc="Number of partitions of that topic when it is created.",
                checks=(_partitions,),
                importance=Importance.LOW,
            )
        )
    return tuple(keys)


WORKER_KEYS = (
    *_storage("offset.storage", "the positions of flows", 25),
    *_storage("status.storage", "connector and task states", 5),
    *_storage("config.storage", "connector configurations", None),
    Key(
        name="offset.flush.interval.ms",
        type=Type.LONG,
        default="5000",
        doc="How often positions are stored; duplicates after a crash are bounded by it.",
        checks=(at_least(1),),
        mm2_default="60000",
        reason="a crash should repeat seconds of work, not a minute",
    ),
    Key(
        name="exactly.once.source.support",
        type=Type.STRING,
        default="disabled",
        doc="Whether flows into this cluster write records and positions together in "
        "transactions (enabled). preparing changes nothing yet, as in Connect.",
        checks=(one_of("disabled", "preparing", "enabled", ignore_case=True),),
        importance=Importance.HIGH,
    ),
    Key(
        name="group.id",
        type=Type.STRING,
        default=None,
        doc="Group in which processes agree on who runs a pair, and first part of the "
        "transactional ids of exactly-once flows; by default the source's alias and -mm2.",
        checks=(not_empty,),
        importance=Importance.LOW,
    ),
    *PLACE_KEYS,
)

# Keys of Connect's worker that change nothing here -> why.
IGNORED_WORKER = {
    "client.id": "client ids are named after the flow",
    "worker.sync.timeout.ms": _NO_CONFIGS,
    "worker.unsync.backoff.ms": _NO_CONFIGS,
    "scheduled.rebalance.max.delay.ms": "a pair whose process is gone is taken over at once",
    "connect.protocol": "the group has a protocol of its own",
    "inter.worker.key.ttl.ms": _NO_REQUESTS,
    "inter.worker.key.size": _NO_REQUESTS,
    "inter.worker.key.generation.algorithm": _NO_REQUESTS,
    "inter.worker.signature.algorithm": _NO_REQUESTS,
    "inter.worker.verification.algorithms": _NO_REQUESTS,
    "offset.flush.timeout.ms": "a flush that fails is tried again",
    "task.shutdown.graceful.timeout.ms": "tasks end within seconds when told so",
    "topic.creation.enable": "remote topics are created as the source connector says",
    "topic.tracking.enable": "topics are those that a flow copies now, nothing is remembered",
    "topic.tracking.allow.reset": "topics are those that a flow copies now",
    "internal.topics.automatic.creation.enable": "internal topics are created when missing",
    "connector.client.config.override.policy": "client overrides are always allowed",
    "key.converter": "record batches are copied byte for byte, nothing converts them",
    "value.converter": "record batches are copied byte for byte, nothing converts them",
    "header.converter": "record batches are copied byte for byte, nothing converts them",
    "plugin.path": "there is no Java plugin here",
    "plugin.discovery": "there is no Java plugin here",
    "rest.extension.classes": "there is no Java plugin here",
}

METRICS_KEYS = (
    Key(
        name="metrics.port",
        type=Type.INT,
        default=None,
        doc="Port on which the figures of all flows are served for Prometheus; not set: nowhere.",
        checks=(between(1, _LAST_PORT),),
    ),
    Key(
        name="metrics.host",
        type=Type.STRING,
        default="127.0.0.1",
        doc="Address on which they are served; 0.0.0.0 for every interface of the machine.",
        checks=(not_empty,),
        importance=Importance.LOW,
    ),
)


def _of_a_run(key: Key) -> Key:
    """A worker's REST key, where a mirror serves the API."""
    if key.name != "listeners":
        return key
    return replace(
        key,
        doc="Where the REST API is served; empty: nowhere. By default on this machine only, and "
        "on any free port if 8083 is taken.",
        checks=(listeners,),
    )


RUN_REST_KEYS = tuple(map(_of_a_run, REST_KEYS))

DRIVER_KEYS = (
    Key(
        name="clusters",
        type=Type.LIST,
        default=None,
        doc="Aliases of the clusters that this file is about.",
        importance=Importance.HIGH,
        required=True,
        checks=(not_empty,),
    ),
    *METRICS_KEYS,
    Key(
        name="dedicated.mode.enable.internal.rest",
        type=Type.BOOLEAN,
        default="false",
        doc="Whether several MM2 processes work together through an internal REST server.",
        importance=Importance.LOW,
        no_effect="processes with the same file find each other through Kafka",
    ),
    *RUN_REST_KEYS,
    Key(
        name="plugin.path",
        type=Type.LIST,
        default=None,
        doc="Where Connect looks for Java plugins.",
        importance=Importance.LOW,
        no_effect="there is no Java plugin here",
    ),
)
