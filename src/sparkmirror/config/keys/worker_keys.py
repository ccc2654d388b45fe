# SPDX-License-Identifier: Apache-2.0
"""The tables of worker keys: of a dedicated mirror and of a Connect worker.

A mirror's worker keys are written as `B.<key>`, B being the target; its top-level keys are here,
too. A Connect worker's keys are in `connect-distributed.properties`, without a prefix.
"""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.config.keys.config_def import (
    COPIED_RAW,
    FACTOR_REASON,
    NO_JAVA_PLUGIN,
    ConfigKey,
    Importance,
    ParsedValue,
    SettingsField,
    boolean,
    choice,
    class_name,
    factor,
    field_of,
    integer,
    long,
    seconds,
    short,
    string,
    string_list,
)
from sparkmirror.config.keys.rest_keys import REST_KEYS, WORKER_REST_KEYS, listeners
from sparkmirror.config.keys.value_types import (
    MAX_PORT,
    InvalidValueError,
    at_least,
    between,
    not_empty,
    one_of,
    replication_factor,
)
from sparkmirror.config.settings import (
    ExactlyOnce,
    InternalTopics,
    LogFormat,
    LogSettings,
    MetricsSettings,
    PipelineSettings,
    TransactionSettings,
)
from sparkmirror.config.worker_settings import (
    ClientOverrides,
    GroupSettings,
    OverridePolicy,
    SigningSettings,
    WorkerSettings,
)
from sparkmirror.policy.class_loading import ALLOWLIST_KEY, ClassAllowlist, is_dotted

_MOST = 2**31 - 1
_LEAST_LOG_BYTES = 1 << 16  # a trace must fit

_OWN_PROTOCOL = (
    "whole connectors are assigned, by a different protocol, and Kafka admits no Java worker to "
    "the same group"
)
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


def _exactly_once(parsed: ParsedValue) -> ExactlyOnce:
    return ExactlyOnce(parsed.value.lower())


def _log_format(parsed: ParsedValue) -> LogFormat:
    return LogFormat(parsed.value.lower())


def _override_policy(parsed: ParsedValue) -> OverridePolicy:
    return OverridePolicy(override_policy_name(parsed.value))


def _allowlist(parsed: ParsedValue) -> ClassAllowlist:
    return ClassAllowlist(parsed.value)


def _milliseconds(
    name: str, default: int, doc: str, fills: tuple[SettingsField, ...], *, least: int = 1
) -> ConfigKey:
    return integer(
        name, default, doc, between(least, _MOST), fills=fills, importance=Importance.LOW
    )


MEMBERSHIP_KEYS = (
    _milliseconds(
        "session.timeout.ms",
        10_000,
        "A process of the group that sends no heartbeat for this time is removed, and its work "
        "is reassigned.",
        field_of(GroupSettings, "session_timeout_ms"),
    ),
    _milliseconds(
        "heartbeat.interval.ms",
        3_000,
        "How often a process sends a heartbeat to its group.",
        field_of(GroupSettings, "heartbeat_interval_ms"),
    ),
    _milliseconds(
        "rebalance.timeout.ms",
        60_000,
        "How long the members have to join again when the group changes.",
        field_of(GroupSettings, "rebalance_timeout_ms"),
    ),
)


_NO_CONFIGS = "every process reads its configuration from the file"
_NO_REQUESTS = "processes send each other no requests"

# Global keys with these prefixes apply to the worker, and override the `B.` ones, as in MM2.
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
# Keys of a storage that the worker reads; others with its prefix are topic configs.
STORAGE_KEYS = frozenset({"topic", "partitions", "replication.factor", "cleanup.policy"})


def _partitions(value: object) -> None:
    if isinstance(value, int) and (value == 0 or value < -1):
        raise InvalidValueError("must be at least 1, or -1 for the broker's default", value)


def _storage(storage: str, field: str, what: str, partitions: int | None) -> list[ConfigKey]:
    """Return the keys of a topic; the names of its fields in InternalTopics begin with `field`."""
    keys = [
        string(
            f"{storage}.topic",
            None,
            f"Topic on the target with {what}; by default named after the source.",
            not_empty,
            fills=field_of(InternalTopics, field),
            importance=Importance.LOW,
        ),
        short(
            f"{storage}.replication.factor",
            None,
            "Replication factor of that topic. Not set: 3, or what the target can hold.",
            replication_factor,
            fills=field_of(InternalTopics, f"{field}_factor", factor),
            mm2_default="3",
            mm2_difference_reason=FACTOR_REASON,
        ),
    ]
    if partitions is not None:
        keys.append(
            integer(
                f"{storage}.partitions",
                partitions,
                "Number of partitions of that topic when it is created.",
                _partitions,
                fills=field_of(InternalTopics, f"{field}_partitions"),
                importance=Importance.LOW,
            )
        )
    return keys


WORKER_KEYS = (
    *_storage("offset.storage", "offsets", "the positions of flows", 25),
    *_storage("status.storage", "status", "connector and task states", 5),
    *_storage("config.storage", "configs", "connector configurations", None),
    long(
        "offset.flush.interval.ms",
        5_000,
        "How often positions are stored; duplicates after a crash are bounded by it.",
        at_least(1),
        fills=field_of(PipelineSettings, "offset_flush_seconds", seconds),
        mm2_default="60000",
        mm2_difference_reason="a crash should repeat seconds of work, not a minute",
    ),
    choice(
        "exactly.once.source.support",
        (
            "disabled",
            "preparing",
            "enabled",
        ),
        "Whether flows into this cluster write records and positions together in "
        "transactions (enabled). preparing changes nothing yet, as in Connect.",
        ignore_case=True,
        fills=field_of(TransactionSettings, "support", _exactly_once)
        + field_of(WorkerSettings, "exactly_once", _exactly_once),
        importance=Importance.HIGH,
    ),
    string(
        "group.id",
        None,
        "Group in which processes agree on who runs a flow, and prefix of the transactional ids "
        "of exactly-once flows; by default the source's alias and -mm2.",
        not_empty,
        fills=field_of(GroupSettings, "group_id"),
        importance=Importance.LOW,
    ),
    *MEMBERSHIP_KEYS,
)

_IGNORED_IN_BOTH = {
    "internal.topics.automatic.creation.enable": "internal topics are created when missing",
    "offset.flush.timeout.ms": "a failed flush is retried",
    "plugin.discovery": NO_JAVA_PLUGIN,
    "plugin.path": NO_JAVA_PLUGIN,
    "task.shutdown.graceful.timeout.ms": "tasks stop within seconds",
    "topic.creation.enable": "the source connector's configuration determines topic creation",
}

# Keys of Connect's worker that change nothing here -> why.
IGNORED_WORKER_KEYS = _IGNORED_IN_BOTH | {
    "client.id": "client ids are named after the flow",
    "worker.sync.timeout.ms": _NO_CONFIGS,
    "worker.unsync.backoff.ms": _NO_CONFIGS,
    "scheduled.rebalance.max.delay.ms": "flows of a process that left are reassigned at once",
    "connect.protocol": "the group uses a different protocol",
    "inter.worker.key.ttl.ms": _NO_REQUESTS,
    "inter.worker.key.size": _NO_REQUESTS,
    "inter.worker.key.generation.algorithm": _NO_REQUESTS,
    "inter.worker.signature.algorithm": _NO_REQUESTS,
    "inter.worker.verification.algorithms": _NO_REQUESTS,
    "topic.tracking.enable": "the active topics are those that a flow copies now",
    "topic.tracking.allow.reset": "the active topics are those that a flow copies now",
    "connector.client.config.override.policy": "client overrides are always allowed",
    "key.converter": COPIED_RAW,
    "value.converter": COPIED_RAW,
    "header.converter": COPIED_RAW,
    "rest.extension.classes": NO_JAVA_PLUGIN,
}

METRICS_KEYS = (
    integer(
        "metrics.port",
        None,
        "Port on which metrics are served for Prometheus without authentication; not set: only at "
        "/metrics of the REST API.",
        between(1, MAX_PORT),
        fills=field_of(MetricsSettings, "port"),
    ),
    string(
        "metrics.host",
        "127.0.0.1",
        "Address on which metrics are served; 0.0.0.0 for every interface of the machine.",
        not_empty,
        fills=field_of(MetricsSettings, "host"),
        importance=Importance.LOW,
    ),
    integer(
        "metrics.max.partitions",
        2_000,
        "Most topic partitions of a process that metrics show one by one; the others are summed.",
        at_least(0),
        fills=field_of(MetricsSettings, "max_partitions"),
        importance=Importance.LOW,
    ),
)

LOG_KEYS = (
    integer(
        "log.progress.seconds",
        60,
        "Seconds between two log lines with the progress of a flow; written while records are "
        "copied, and not on a terminal, which shows a table.",
        at_least(1),
        fills=field_of(LogSettings, "progress_seconds"),
        importance=Importance.LOW,
    ),
    choice(
        "log.format",
        ("text", "json"),
        "Form of log lines: text, or json for one object per line. A terminal always shows text.",
        ignore_case=True,
        fills=field_of(LogSettings, "format", _log_format),
        importance=Importance.LOW,
    ),
    string(
        "log.file",
        None,
        "File that gets the log lines, in addition to standard error; its directory is created. "
        "Processes on one machine need different files.",
        not_empty,
        fills=field_of(LogSettings, "file"),
        importance=Importance.LOW,
    ),
    long(
        "log.file.max.bytes",
        10 << 20,
        "Size at which log.file is renamed to log.file.1, log.file.1 to log.file.2, and so on.",
        at_least(_LEAST_LOG_BYTES),
        fills=field_of(LogSettings, "max_bytes"),
        importance=Importance.LOW,
    ),
    integer(
        "log.file.backups",
        9,
        "How many renamed log files are kept; older ones are deleted.",
        at_least(1),
        fills=field_of(LogSettings, "backups"),
        importance=Importance.LOW,
    ),
)


def _adapt_to_mirror(key: ConfigKey) -> ConfigKey:
    """Adapt a worker's REST key to a mirror."""
    if key.name != "listeners":
        return key
    return replace(
        key,
        doc="Where the REST API is served; empty: not served. By default on this machine only, and "
        "on any free port if 8083 is in use.",
        validators=(listeners,),
    )


RUN_REST_KEYS = tuple(map(_adapt_to_mirror, REST_KEYS))

TOP_LEVEL_KEYS = (
    string_list(
        "clusters",
        None,
        "Aliases of the clusters in this file.",
        not_empty,
        importance=Importance.HIGH,
        required=True,
    ),
    *METRICS_KEYS,
    *LOG_KEYS,
    boolean(
        "dedicated.mode.enable.internal.rest",
        False,
        "Whether several MM2 processes cooperate through an internal REST server.",
        importance=Importance.LOW,
        no_effect="processes with the same file coordinate through Kafka",
    ),
    *RUN_REST_KEYS,
    string_list(
        "plugin.path",
        None,
        "Directories of Java plugins.",
        importance=Importance.LOW,
        no_effect=NO_JAVA_PLUGIN,
    ),
)


def override_policy_name(text: str) -> str:
    """Return the short name of an override policy, given as such or as Java's class name."""
    return text.strip().removeprefix(_POLICY_PACKAGE).removesuffix(_POLICY_CLASS)


def _policy(value: object) -> None:
    if override_policy_name(str(value)) not in _POLICIES:
        raise InvalidValueError(f"must be one of {', '.join(_POLICIES)}", value)


def dotted_names(value: object) -> None:
    """Check that each item is a dotted name; patterns are not supported."""
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


def _algorithm(name: str, doc: str, field: str) -> ConfigKey:
    return string(
        name,
        "HmacSHA256",
        doc,
        one_of("HmacSHA1", "HmacSHA256", "HmacSHA384", "HmacSHA512"),
        fills=field_of(SigningSettings, field),
        importance=Importance.LOW,
    )


GROUP_KEYS = (
    *(key for key in _SHARED_KEYS if key not in TOPIC_KEYS),
    replace(
        _milliseconds(
            "scheduled.rebalance.max.delay.ms",
            0,
            "How long connectors of a worker that left wait for its return before they are "
            "reassigned.",
            field_of(GroupSettings, "rebalance_delay_ms"),
            least=0,
        ),
        mm2_default="300000",
        mm2_difference_reason="a killed worker is replaced when its session expires, and one that "
        "returns gets work again without a stop of running connectors",
    ),
    _milliseconds(
        "worker.sync.timeout.ms",
        3_000,
        "How long a worker that lacks configurations tries to catch up before it leaves the group.",
        field_of(GroupSettings, "sync_timeout_ms"),
    ),
    _milliseconds(
        "worker.unsync.backoff.ms",
        300_000,
        "How long such a worker stays out of the group.",
        field_of(GroupSettings, "unsync_backoff_ms"),
    ),
    string(
        "connect.protocol",
        "sessioned",
        "Rebalance protocol of Java's workers: sessioned, compatible or eager.",
        one_of("eager", "compatible", "sessioned", ignore_case=True),
        importance=Importance.LOW,
        no_effect=_OWN_PROTOCOL,
    ),
    _milliseconds(
        "inter.worker.key.ttl.ms",
        3_600_000,
        "Lifetime of a key that signs requests between workers.",
        field_of(SigningSettings, "key_ttl_ms"),
        least=0,
    ),
    integer(
        "inter.worker.key.size",
        None,
        "Size of such a key in bits; not set: the algorithm's own.",
        at_least(1),
        fills=field_of(SigningSettings, "key_bits"),
        importance=Importance.LOW,
    ),
    _algorithm(
        "inter.worker.key.generation.algorithm",
        "Algorithm that generates such a key.",
        "key_algorithm",
    ),
    _algorithm(
        "inter.worker.signature.algorithm",
        "Algorithm that signs with such a key.",
        "signature_algorithm",
    ),
    string_list(
        "inter.worker.verification.algorithms",
        "HmacSHA256",
        "Signature algorithms that are accepted from other workers.",
        not_empty,
        fills=field_of(SigningSettings, "accepted_algorithms"),
        importance=Importance.LOW,
    ),
)

CONNECTOR_PERMISSION_KEYS = (
    class_name(
        "connector.client.config.override.policy",
        "All",
        "Which client keys a connector may override: All, None, Principal (only authentication) "
        "or Allowlist.",
        _policy,
        fills=field_of(ClientOverrides, "policy", _override_policy),
    ),
    string_list(
        "connector.client.config.override.allowlist",
        "",
        "Client keys that connectors may override with the policy Allowlist.",
        fills=field_of(ClientOverrides, "allowlist"),
        importance=Importance.LOW,
    ),
    string_list(
        ALLOWLIST_KEY,
        "",
        "Python modules, packages and classes that connectors may name as replication policy "
        "or filter, in addition to MM2's. Naming a class runs its code.",
        dotted_names,
        fills=field_of(WorkerSettings, "allowed_classes", _allowlist),
    ),
    boolean(
        "topic.tracking.enable",
        True,
        "Whether the active topics of connectors are tracked.",
        fills=field_of(WorkerSettings, "topic_tracking"),
        importance=Importance.LOW,
    ),
    boolean(
        "topic.tracking.allow.reset",
        True,
        "Whether a request may reset the active topics of a connector.",
        fills=field_of(WorkerSettings, "topic_tracking_reset"),
        importance=Importance.LOW,
    ),
    string_list(
        "config.providers",
        "",
        "Names of config providers. In this file, file, directory and env also work without "
        "this line; configurations that come over REST may use declared ones only.",
        importance=Importance.LOW,
    ),
    *(
        class_name(
            f"{part}.converter",
            None,
            f"Converter of record {part}s for connectors that set none.",
            importance=Importance.LOW,
        )
        for part in ("key", "value", "header")
    ),
)

SERVER_KEYS = (*REST_KEYS, *WORKER_REST_KEYS, *METRICS_KEYS, *LOG_KEYS)

WORKER_CONFIG_KEYS = (*TOPIC_KEYS, *GROUP_KEYS, *CONNECTOR_PERMISSION_KEYS, *SERVER_KEYS)

# Keys of Connect's worker that change nothing here -> why.
IGNORED_WORKER_CONFIG_KEYS = _IGNORED_IN_BOTH | {
    "internal.key.converter": "Kafka has removed it: internal records are JSON without a schema",
    "internal.value.converter": "Kafka has removed it: internal records are JSON without a schema",
    "offset.storage.file.filename": "positions are stored in Kafka; it is for standalone workers",
    "key.converter.plugin.version": NO_JAVA_PLUGIN,
    "value.converter.plugin.version": NO_JAVA_PLUGIN,
    "header.converter.plugin.version": NO_JAVA_PLUGIN,
}

# Prefixes of keys that have no effect either -> why.
IGNORED_PREFIXES = {
    "internal.key.converter.": IGNORED_WORKER_CONFIG_KEYS["internal.key.converter"],
    "internal.value.converter.": IGNORED_WORKER_CONFIG_KEYS["internal.value.converter"],
    "key.converter.": COPIED_RAW,
    "value.converter.": COPIED_RAW,
    "header.converter.": COPIED_RAW,
    "consumer.": "in Connect it applies to sink connectors only; for reading a source set "
    "source.consumer. in the connector's configuration",
    "admin.": "in Connect it applies to the worker's topic creation only; set source.admin. or "
    "target.admin. in the connector's configuration",
    "metrics.context.": "Java's metrics do not exist here",
    "confluent.": "only Confluent's plugins read it",
}
