# SPDX-License-Identifier: Apache-2.0
"""The tables of worker keys (`B.<key>`, B being the target) and of the file's top level.

The keys of a place in a group, the same for a worker's file and for the pairs of a mirror's.

The table of keys of a Connect worker's own file (`connect-distributed.properties`).

What it shares with the worker of a dedicated mirror stands above; here the
keys are written without a cluster before them, and a worker is a member of a group.
"""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.config.keys.config_def import (
    ConfigKey,
    ConfigType,
    Importance,
    InvalidValueError,
    at_least,
    between,
    not_empty,
    one_of,
    replication_factor,
)
from sparkmirror.config.keys.rest_keys import REST_KEYS, WORKER_REST_KEYS, listeners
from sparkmirror.policy.class_loading import ALLOWLIST_KEY, is_dotted

_MOST = 2**31 - 1

_NO_JVM = "there is no Java plugin here"
_OWN_PROTOCOL = (
    "connectors are divided as a whole, by a protocol of our own, and Kafka lets no worker of "
    "Java's into the same group"
)
_RAW = "record batches are copied byte for byte, nothing converts them"
_POLICIES = ("All", "None", "Principal", "Allowlist")
_POLICY_PACKAGE = "org.apache.kafka.connect.connector.policy."
_POLICY_CLASS = "ConnectorClientConfigOverridePolicy"
BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
REQUIRED_WORKER_KEYS = (
    "group.id",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
)
_DOCS = {
    "group.id": "Name of the worker's group: workers with the same one share connectors.",
    "config.storage.topic": "Topic that holds connector configurations.",
    "offset.storage.topic": "Topic that holds the positions of connectors.",
    "status.storage.topic": "Topic that holds connector and task states.",
}


def milliseconds_key(name: str, default: int, doc: str, least: int = 1) -> ConfigKey:
    """A time that has a default and is at least `least`."""
    return ConfigKey(
        name=name,
        type=ConfigType.INT,
        default=str(default),
        doc=doc,
        importance=Importance.LOW,
        validators=(between(least, _MOST),),
    )


MEMBERSHIP_KEYS = (
    milliseconds_key(
        "session.timeout.ms",
        10_000,
        "How long a process of the group may be silent before its work goes to others.",
    ),
    milliseconds_key(
        "heartbeat.interval.ms", 3_000, "How often a process shows its group that it lives."
    ),
    milliseconds_key(
        "rebalance.timeout.ms",
        60_000,
        "How long the members have to join again when the group changes.",
    ),
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
STORAGE_KEYS = frozenset({"topic", "partitions", "replication.factor", "cleanup.policy"})


def _partitions(value: object) -> None:
    if isinstance(value, int) and (value == 0 or value < -1):
        raise InvalidValueError("must be at least 1, or -1 for the broker's default", value)


def _storage(storage: str, what: str, partitions: int | None) -> tuple[ConfigKey, ...]:
    keys = [
        ConfigKey(
            name=f"{storage}.topic",
            type=ConfigType.STRING,
            default=None,
            doc=f"Topic on the target that holds {what}; by default named after the source.",
            validators=(not_empty,),
            importance=Importance.LOW,
        ),
        ConfigKey(
            name=f"{storage}.replication.factor",
            type=ConfigType.SHORT,
            default=None,
            doc="Replication factor of that topic. Not set: 3, or what the target can hold.",
            validators=(replication_factor,),
            mm2_default="3",
            mm2_difference_reason=_HELD,
        ),
    ]
    if partitions is not None:
        keys.append(
            ConfigKey(
                name=f"{storage}.partitions",
                type=ConfigType.INT,
                default=str(partitions),
                doc="Number of partitions of that topic when it is created.",
                validators=(_partitions,),
                importance=Importance.LOW,
            )
        )
    return tuple(keys)


WORKER_KEYS = (
    *_storage("offset.storage", "the positions of flows", 25),
    *_storage("status.storage", "connector and task states", 5),
    *_storage("config.storage", "connector configurations", None),
    ConfigKey(
        name="offset.flush.interval.ms",
        type=ConfigType.LONG,
        default="5000",
        doc="How often positions are stored; duplicates after a crash are bounded by it.",
        validators=(at_least(1),),
        mm2_default="60000",
        mm2_difference_reason="a crash should repeat seconds of work, not a minute",
    ),
    ConfigKey(
        name="exactly.once.source.support",
        type=ConfigType.STRING,
        default="disabled",
        doc="Whether flows into this cluster write records and positions together in "
        "transactions (enabled). preparing changes nothing yet, as in Connect.",
        validators=(one_of("disabled", "preparing", "enabled", ignore_case=True),),
        importance=Importance.HIGH,
    ),
    ConfigKey(
        name="group.id",
        type=ConfigType.STRING,
        default=None,
        doc="Group in which processes agree on who runs a pair, and first part of the "
        "transactional ids of exactly-once flows; by default the source's alias and -mm2.",
        validators=(not_empty,),
        importance=Importance.LOW,
    ),
    *MEMBERSHIP_KEYS,
)

# Keys of Connect's worker that change nothing here -> why.
IGNORED_WORKER_KEYS = {
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
    ConfigKey(
        name="metrics.port",
        type=ConfigType.INT,
        default=None,
        doc="Port on which the figures of all flows are served for Prometheus; not set: nowhere.",
        validators=(between(1, _LAST_PORT),),
    ),
    ConfigKey(
        name="metrics.host",
        type=ConfigType.STRING,
        default="127.0.0.1",
        doc="Address on which they are served; 0.0.0.0 for every interface of the machine.",
        validators=(not_empty,),
        importance=Importance.LOW,
    ),
)


def _of_a_run(key: ConfigKey) -> ConfigKey:
    """A worker's REST key, where a mirror serves the API."""
    if key.name != "listeners":
        return key
    return replace(
        key,
        doc="Where the REST API is served; empty: nowhere. By default on this machine only, and "
        "on any free port if 8083 is taken.",
        validators=(listeners,),
    )


RUN_REST_KEYS = tuple(map(_of_a_run, REST_KEYS))

TOP_LEVEL_KEYS = (
    ConfigKey(
        name="clusters",
        type=ConfigType.LIST,
        default=None,
        doc="Aliases of the clusters that this file is about.",
        importance=Importance.HIGH,
        required=True,
        validators=(not_empty,),
    ),
    *METRICS_KEYS,
    ConfigKey(
        name="dedicated.mode.enable.internal.rest",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether several MM2 processes work together through an internal REST server.",
        importance=Importance.LOW,
        no_effect="processes with the same file find each other through Kafka",
    ),
    *RUN_REST_KEYS,
    ConfigKey(
        name="plugin.path",
        type=ConfigType.LIST,
        default=None,
        doc="Where Connect looks for Java plugins.",
        importance=Importance.LOW,
        no_effect="there is no Java plugin here",
    ),
)


def override_policy_name(text: str) -> str:
    """The short name of an override policy: Java's class name, full or simple, says the same."""
    return text.strip().removeprefix(_POLICY_PACKAGE).removesuffix(_POLICY_CLASS)


def _policy(value: object) -> None:
    if override_policy_name(str(value)) not in _POLICIES:
        raise InvalidValueError(f"must be one of {', '.join(_POLICIES)}", value)


def dotted_names(value: object) -> None:
    """Each item names a module or a class; there are no patterns."""
    for item in value if isinstance(value, tuple) else ():
        if not is_dotted(item):
            raise InvalidValueError(
                "must list Python modules or classes such as acme.policies", item
            )


_SHARED_KEYS = tuple(
    replace(key, required=True, doc=_DOCS[key.name], importance=Importance.HIGH)
    if key.name in REQUIRED_WORKER_KEYS
    else key
    for key in WORKER_KEYS
)
_OF_TOPICS = ("offset.", "status.", "config.", "exactly.once.")
TOPIC_KEYS = tuple(key for key in _SHARED_KEYS if key.name.startswith(_OF_TOPICS))

GROUP_KEYS = (
    *(key for key in _SHARED_KEYS if key not in TOPIC_KEYS),
    replace(
        milliseconds_key(
            "scheduled.rebalance.max.delay.ms",
            0,
            "How long connectors of a worker that left wait for its return.",
            least=0,
        ),
        mm2_default="300000",
        mm2_difference_reason="a killed worker is replaced when its session ends, and one that "
        "comes back takes "
        "work again without stopping what runs",
    ),
    milliseconds_key(
        "worker.sync.timeout.ms",
        3_000,
        "How long a worker that lacks configurations tries to catch up before it leaves the group.",
    ),
    milliseconds_key(
        "worker.unsync.backoff.ms", 300_000, "How long it then stays away from the group."
    ),
    ConfigKey(
        name="connect.protocol",
        type=ConfigType.STRING,
        default="sessioned",
        doc="How Java's workers divide their work: sessioned, compatible or eager.",
        importance=Importance.LOW,
        no_effect=_OWN_PROTOCOL,
        validators=(one_of("eager", "compatible", "sessioned", ignore_case=True),),
    ),
    milliseconds_key(
        "inter.worker.key.ttl.ms",
        3_600_000,
        "How long a key lives that signs requests between workers.",
        least=0,
    ),
    ConfigKey(
        name="inter.worker.key.size",
        type=ConfigType.INT,
        default=None,
        doc="Size of such a key in bits; not set: the algorithm's own.",
        importance=Importance.LOW,
        validators=(at_least(1),),
    ),
    *(
        ConfigKey(
            name=name,
            type=ConfigType.STRING,
            default="HmacSHA256",
            doc=doc,
            importance=Importance.LOW,
            validators=(one_of("HmacSHA1", "HmacSHA256", "HmacSHA384", "HmacSHA512"),),
        )
        for name, doc in (
            ("inter.worker.key.generation.algorithm", "Algorithm that makes such a key."),
            ("inter.worker.signature.algorithm", "Algorithm that signs with such a key."),
        )
    ),
    ConfigKey(
        name="inter.worker.verification.algorithms",
        type=ConfigType.LIST,
        default="HmacSHA256",
        doc="Algorithms that are accepted of other workers.",
        importance=Importance.LOW,
        validators=(not_empty,),
    ),
)

CONNECTOR_PERMISSION_KEYS = (
    ConfigKey(
        name="connector.client.config.override.policy",
        type=ConfigType.CLASS,
        default="All",
        doc="Which client keys a connector may override: All, None, Principal (who it is) or "
        "Allowlist.",
        validators=(_policy,),
    ),
    ConfigKey(
        name="connector.client.config.override.allowlist",
        type=ConfigType.LIST,
        default="",
        doc="Client keys that connectors may override with the policy Allowlist.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name=ALLOWLIST_KEY,
        type=ConfigType.LIST,
        default="",
        doc="Python modules, packages and classes that connectors may name as replication policy "
        "or filter, beside MM2's own. To name a class is to run its code.",
        validators=(dotted_names,),
    ),
    ConfigKey(
        name="topic.tracking.enable",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether the topics that a connector writes are remembered.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="topic.tracking.allow.reset",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether that memory may be emptied by request.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="config.providers",
        type=ConfigType.LIST,
        default="",
        doc="Names of config providers. In this file file, directory and env also work without "
        "this line, in configurations that come over REST only those that it declares.",
        importance=Importance.LOW,
    ),
    *(
        ConfigKey(
            name=f"{part}.converter",
            type=ConfigType.CLASS,
            default=None,
            doc=f"Converter of record {part}s for connectors that name none.",
            importance=Importance.LOW,
        )
        for part in ("key", "value", "header")
    ),
)

SERVER_KEYS = (*REST_KEYS, *WORKER_REST_KEYS, *METRICS_KEYS)

WORKER_CONFIG_KEYS = (*TOPIC_KEYS, *GROUP_KEYS, *CONNECTOR_PERMISSION_KEYS, *SERVER_KEYS)

# Keys of Connect's worker that change nothing here -> why.
IGNORED_WORKER_CONFIG_KEYS = {
    "offset.flush.timeout.ms": "a flush that fails is tried again",
    "task.shutdown.graceful.timeout.ms": "tasks end within seconds when told so",
    "topic.creation.enable": "remote topics are created as the source connector says",
    "internal.topics.automatic.creation.enable": "internal topics are created when missing",
    "plugin.path": _NO_JVM,
    "plugin.discovery": _NO_JVM,
    "internal.key.converter": "Kafka has removed it: internal records are JSON without a schema",
    "internal.value.converter": "Kafka has removed it: internal records are JSON without a schema",
    "offset.storage.file.filename": "positions are kept in Kafka; this is a standalone worker's",
    "key.converter.plugin.version": _NO_JVM,
    "value.converter.plugin.version": _NO_JVM,
    "header.converter.plugin.version": _NO_JVM,
}

# Below these nothing is read either -> why.
IGNORED_PREFIXES = {
    "internal.key.converter.": IGNORED_WORKER_CONFIG_KEYS["internal.key.converter"],
    "internal.value.converter.": IGNORED_WORKER_CONFIG_KEYS["internal.value.converter"],
    "key.converter.": _RAW,
    "value.converter.": _RAW,
    "header.converter.": _RAW,
    "consumer.": "in Connect it reaches sink connectors only; for reading a source write "
    "source.consumer. in the connector's configuration",
    "admin.": "in Connect it reaches the worker's creation of topics only; write source.admin. or "
    "target.admin. in the connector's configuration",
    "metrics.context.": "Java's metrics do not exist here",
    "confluent.": "only Confluent's own plugins read it",
}
