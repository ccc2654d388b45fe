# SPDX-License-Identifier: Apache-2.0
"""The table of keys of a Connect worker's own file (`connect-distributed.properties`).

What it shares with the worker of a dedicated mirror stands in `config/keys_worker.py`; here the
keys are written without a cluster before them, and a worker is a member of a group.
"""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.config.key import Importance, Key
from sparkmirror.config.keys_group import milliseconds
from sparkmirror.config.keys_rest import REST_KEYS, WORKER_REST_KEYS
from sparkmirror.config.keys_worker import METRICS_KEYS, WORKER_KEYS
from sparkmirror.config.value_types import Rejected, Type, at_least, not_empty, one_of
from sparkmirror.policy.named_classes import ALLOWLIST_KEY, is_dotted

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

REQUIRED = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
_DOCS = {
    "group.id": "Name of the worker's group: workers with the same one share connectors.",
    "config.storage.topic": "Topic that holds connector configurations.",
    "offset.storage.topic": "Topic that holds the positions of connectors.",
    "status.storage.topic": "Topic that holds connector and task states.",
}


def policy_name(text: str) -> str:
    """The short name of an override policy: Java's class name, full or simple, says the same."""
    return text.strip().removeprefix(_POLICY_PACKAGE).removesuffix(_POLICY_CLASS)


def _policy(value: object) -> None:
    if policy_name(str(value)) not in _POLICIES:
        raise Rejected(f"must be one of {', '.join(_POLICIES)}", value)


def dotted_names(value: object) -> None:
    """Each item names a module or a class; there are no patterns."""
    for item in value if isinstance(value, tuple) else ():
        if not is_dotted(item):
            raise Rejected("must list Python modules or classes such as acme.policies", item)


_SHARED_KEYS = tuple(
    replace(key, required=True, doc=_DOCS[key.name], importance=Importance.HIGH)
    if key.name in REQUIRED
    else key
    for key in WORKER_KEYS
)
_OF_TOPICS = ("offset.", "status.", "config.", "exactly.once.")
TOPIC_KEYS = tuple(key for key in _SHARED_KEYS if key.name.startswith(_OF_TOPICS))

GROUP_KEYS = (
    *(key for key in _SHARED_KEYS if key not in TOPIC_KEYS),
    replace(
        milliseconds(
            "scheduled.rebalance.max.delay.ms",
            0,
            "How long connectors of a worker that left wait for its return.",
            least=0,
        ),
        mm2_default="300000",
        reason="a killed worker is replaced when its session ends, and one that comes back takes "
        "work again without stopping what runs",
    ),
    milliseconds(
        "worker.sync.timeout.ms",
        3_000,
        "How long a worker that lacks configurations tries to catch up before it leaves the group.",
    ),
    milliseconds(
        "worker.unsync.backoff.ms", 300_000, "How long it then stays away from the group."
    ),
    Key(
        name="connect.protocol",
        type=Type.STRING,
        default="sessioned",
        doc="How Java's workers divide their work: sessioned, compatible or eager.",
        importance=Importance.LOW,
        no_effect=_OWN_PROTOCOL,
        checks=(one_of("eager", "compatible", "sessioned", ignore_case=True),),
    ),
    milliseconds(
        "inter.worker.key.ttl.ms",
        3_600_000,
        "How long a key lives that signs requests between workers.",
        least=0,
    ),
    Key(
        name="inter.worker.key.size",
        type=Type.INT,
        default=None,
        doc="Size of such a key in bits; not set: the algorithm's own.",
        importance=Importance.LOW,
        checks=(at_least(1),),
    ),
    *(
        Key(
            name=name,
            type=Type.STRING,
            default="HmacSHA256",
            doc=doc,
            importance=Importance.LOW,
            checks=(one_of("HmacSHA1", "HmacSHA256", "HmacSHA384", "HmacSHA512"),),
        )
        for name, doc in (
            ("inter.worker.key.generation.algorithm", "Algorithm that makes such a key."),
            ("inter.worker.signature.algorithm", "Algorithm that signs with such a key."),
        )
    ),
    Key(
        name="inter.worker.verification.algorithms",
        type=Type.LIST,
        default="HmacSHA256",
        doc="Algorithms that are accepted of other workers.",
        importance=Importance.LOW,
        checks=(not_empty,),
    ),
)

CONNECT_WORKER_KEYS = (
    Key(
        name="connector.client.config.override.policy",
        type=Type.CLASS,
        default="All",
        doc="Which client keys a connector may override: All, None, Principal (who it is) or "
        "Allowlist.",
        checks=(_policy,),
    ),
    Key(
        name="connector.client.config.override.allowlist",
        type=Type.LIST,
        default="",
        doc="Client keys that connectors may override with the policy Allowlist.",
        importance=Importance.LOW,
    ),
    Key(
        name=ALLOWLIST_KEY,
        type=Type.LIST,
        default="",
        doc="Python modules, packages and classes that connectors may name as replication policy "
        "or filter, beside MM2's own. To name a class is to run its code.",
        checks=(dotted_names,),
    ),
    Key(
        name="topic.tracking.enable",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether the topics that a connector writes are remembered.",
        importance=Importance.LOW,
    ),
    Key(
        name="topic.tracking.allow.reset",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether that memory may be emptied by request.",
        importance=Importance.LOW,
    ),
    Key(
        name="config.providers",
        type=Type.LIST,
        default="",
        doc="Names of config providers. In this file file, directory and env also work without "
        "this line, in configurations that come over REST only those that it declares.",
        importance=Importance.LOW,
    ),
    *(
        Key(
            name=f"{part}.converter",
            type=Type.CLASS,
            default=None,
            doc=f"Converter of record {part}s for connectors that name none.",
            importance=Importance.LOW,
        )
        for part in ("key", "value", "header")
    ),
)

SERVER_KEYS = (*REST_KEYS, *WORKER_REST_KEYS, *METRICS_KEYS)

WORKER_FILE_KEYS = (*TOPIC_KEYS, *GROUP_KEYS, *CONNECT_WORKER_KEYS, *SERVER_KEYS)

# Keys of Connect's worker that change nothing here -> why.
IGNORED_WORKER_FILE = {
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
    "internal.key.converter.": IGNORED_WORKER_FILE["internal.key.converter"],
    "internal.value.converter.": IGNORED_WORKER_FILE["internal.value.converter"],
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
