# SPDX-License-Identifier: Apache-2.0
"""The table of connector keys: set globally or per flow (`A->B.<key>`).

The names are those of MM2's three connector definitions and our own. Only these names are inherited
by flows from the global level of a file.

The incident policies determine what a flow does about an incident that it cannot repair. The
defaults lose no record that can still be copied, and continue if waiting cannot help. Every
incident is logged, counted and shown. It is recorded in the ledger if source and target differ
afterwards.
"""

from __future__ import annotations

from sparkmirror.config.keys.config_def import (
    COPIED_RAW,
    NO_JAVA_PLUGIN,
    ConfigKey,
    Importance,
    ParsedValue,
    boolean,
    choice,
    class_name,
    field_of,
    integer,
    interval,
    long,
    seconds,
    string,
    string_list,
)
from sparkmirror.config.keys.mirror_keys import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS
from sparkmirror.config.keys.service_profiles import (
    NO_PROFILE,
    PROFILE_NAMES,
    SOURCE_KEY,
    TARGET_KEY,
)
from sparkmirror.config.keys.value_types import (
    ConfigType,
    InvalidValueError,
    at_least,
    between,
    connector_name,
    list_of,
    not_empty,
    one_of,
    valid_topic_characters,
)
from sparkmirror.config.settings import (
    FlowSettings,
    IncidentPolicies,
    PipelineSettings,
    SourceSettings,
)
from sparkmirror.policy.settings import PolicySettings, ReplicationPolicySettings


def _is_in_file(parsed: ParsedValue) -> bool:
    return parsed.is_in_file


def _float(parsed: ParsedValue) -> float:
    return float(parsed.value)


INCIDENT_POLICY_KEYS = (
    choice(
        "gap.policy",
        ("continue", "stop"),
        "The source deleted records before they were copied: continue at the earliest remaining "
        "one (the others are lost), or stop the partition.",
        fills=field_of(IncidentPolicies, "gap"),
    ),
    choice(
        "source.recreated.policy",
        ("stop", "restart"),
        "A source topic was deleted and created again, so its offsets refer to other records: "
        "stop the topic (the remote topic may have the only copy of the old records), or restart "
        "at the new topic's beginning and append to the old records.",
        fills=field_of(IncidentPolicies, "source_recreated"),
    ),
    choice(
        "source.truncated.policy",
        ("continue", "stop"),
        "The source lost records that were already copied (unclean leader election): continue "
        "where its log diverges (the target keeps the lost records), or stop the partition.",
        fills=field_of(IncidentPolicies, "source_truncated"),
    ),
    choice(
        "target.recreated.policy",
        ("continue", "restart", "stop"),
        "A remote topic was deleted and created again: continue with the next record (the "
        "deletion is assumed to be intended), restart at the source's beginning, or stop the "
        "topic.",
        fills=field_of(IncidentPolicies, "target_recreated"),
    ),
    choice(
        "target.truncated.policy",
        ("recopy", "stop"),
        "The target lost records that it had acknowledged: recopy them, or stop the partition.",
        fills=field_of(IncidentPolicies, "target_truncated"),
    ),
    choice(
        "corrupt.batch.policy",
        ("stop", "skip"),
        "A record batch on the source repeatedly fails its checksum: stop the partition and retry "
        "from time to time (another replica may be intact), or skip it.",
        fills=field_of(IncidentPolicies, "corrupt_batch"),
    ),
    choice(
        "refused.record.policy",
        ("dead-letter", "skip", "stop"),
        "The target refuses a record (too large, a timestamp out of range): write it to the "
        "dead-letter topic on the target, skip it, or stop the partition.",
        fills=field_of(IncidentPolicies, "refused_record"),
    ),
    long(
        "open.transaction.warning.ms",
        120_000,
        "How long an open transaction on the source may block later records before its producer "
        "is reported; by default twice the transaction timeout of Kafka's producers.",
        at_least(1),
        fills=field_of(IncidentPolicies, "open_transaction_seconds", seconds),
        importance=Importance.LOW,
    ),
)


_MIRROR = "org.apache.kafka.connect.mirror."
_NOT_YET = "not in this version yet"

CONNECT_KEYS = (
    string(
        "name",
        None,
        "Connector name, also the first part of the keys in the offsets topic; by default "
        "the connector's simple class name.",
        connector_name,
        fills=field_of(SourceSettings, "name"),
        importance=Importance.LOW,
    ),
    string(
        "connector.class",
        None,
        "Java class name of the connector, kept for compatibility.",
        importance=Importance.LOW,
        no_effect="each flow runs the three mirror connectors",
    ),
    string(
        "connector.plugin.version",
        None,
        "Version of the Java plugin.",
        importance=Importance.LOW,
        no_effect=NO_JAVA_PLUGIN,
    ),
    integer(
        "tasks.max",
        1,
        "The largest number of splits (Spark tasks) that copy a flow at the same time.",
        at_least(1),
        fills=field_of(SourceSettings, "tasks_max"),
        importance=Importance.HIGH,
    ),
    boolean(
        "tasks.max.enforce",
        True,
        "Whether more tasks than tasks.max are an error.",
        importance=Importance.LOW,
        no_effect="tasks.max is never exceeded",
    ),
    *(
        ConfigKey(
            name=f"{part}.converter{suffix}",
            type=ConfigType.STRING if suffix else ConfigType.CLASS,
            default=None,
            doc=f"Converter of record {part}s{' (its version)' if suffix else ''}.",
            importance=Importance.LOW,
            no_effect=COPIED_RAW,
        )
        for part in ("key", "value", "header")
        for suffix in ("", ".plugin.version")
    ),
    string_list(
        "transforms",
        "",
        "Single message transforms; not supported: a flow that sets any is rejected.",
        importance=Importance.LOW,
    ),
    string_list(
        "predicates",
        "",
        "Predicates of single message transforms.",
        importance=Importance.LOW,
        no_effect="they select records for transforms only",
    ),
    string(
        "config.action.reload",
        "restart",
        "What to do when a config provider's value changes.",
        one_of("none", "restart"),
        importance=Importance.LOW,
        no_effect="files of config providers are always watched, and flows that use them restart "
        "when they change",
    ),
    long(
        "errors.retry.timeout",
        0,
        "How long Connect retries a failed conversion.",
        importance=Importance.LOW,
        no_effect=COPIED_RAW,
    ),
    long(
        "errors.retry.delay.max.ms",
        60_000,
        "The longest pause between such retries.",
        importance=Importance.LOW,
        no_effect=COPIED_RAW,
    ),
    choice(
        "errors.tolerance",
        (
            "none",
            "all",
        ),
        "Whether Connect skips records that cannot be converted.",
        importance=Importance.LOW,
        no_effect=COPIED_RAW,
    ),
    boolean(
        "errors.log.enable",
        False,
        "Whether Connect logs records that cannot be converted.",
        importance=Importance.LOW,
        no_effect=COPIED_RAW,
    ),
    boolean(
        "errors.log.include.messages",
        False,
        "Whether such log lines show the record.",
        importance=Importance.LOW,
        no_effect=COPIED_RAW,
    ),
)

SHARED_KEYS = (
    boolean(
        "enabled",
        False,
        "Whether the flow copies records; a flow that is not enabled only emits heartbeats.",
        fills=field_of(FlowSettings, "enabled"),
        importance=Importance.HIGH,
    ),
    string(
        "source.cluster.alias",
        None,
        "Name of the source cluster; by default that of the flow.",
        valid_topic_characters,
        importance=Importance.LOW,
        required=True,
    ),
    string(
        "target.cluster.alias",
        "target",
        "Name of the target cluster; by default that of the flow.",
        valid_topic_characters,
        importance=Importance.LOW,
    ),
    long(
        "admin.timeout.ms",
        60_000,
        "How long one administrative step, such as creating topics, may take.",
        at_least(1),
        no_effect="not in this version yet",
    ),
    class_name(
        "replication.policy.class",
        _MIRROR + "DefaultReplicationPolicy",
        "How remote topics are named: MM2's DefaultReplicationPolicy or "
        "IdentityReplicationPolicy, or the dotted path of a Python class.",
        not_empty,
        fills=field_of(ReplicationPolicySettings, "replication_policy_class"),
        importance=Importance.HIGH,
    ),
    string(
        "replication.policy.separator",
        ".",
        "Separator between the source's alias and the topic in a remote topic's name.",
        valid_topic_characters,
        fills=field_of(ReplicationPolicySettings, "separator")
        + field_of(ReplicationPolicySettings, "separator_is_explicit", _is_in_file),
    ),
    boolean(
        "replication.policy.internal.topic.separator.enabled",
        True,
        "Whether a separator that is set also applies to the names of the offset-syncs and "
        "checkpoints topics.",
        fills=field_of(ReplicationPolicySettings, "internal_topic_separator_enabled"),
        importance=Importance.LOW,
    ),
    class_name(
        "forwarding.admin.class",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "Java class through which MM2 sends its administrative requests.",
        importance=Importance.LOW,
        no_effect=NO_JAVA_PLUGIN,
    ),
    string_list(
        "metric.reporters",
        "org.apache.kafka.common.metrics.JmxReporter",
        "Java classes that report metrics.",
        importance=Importance.LOW,
        no_effect=NO_JAVA_PLUGIN,
    ),
    string_list(
        "metric.names.formats",
        "legacy",
        "Names of MM2's metrics.",
        list_of("legacy", "new"),
        importance=Importance.LOW,
        no_effect="metrics have the legacy names, which dashboards use",
    ),
    string_list(
        "config.providers",
        "",
        "Names of config providers; file, directory and env also work without this line, but "
        "not in configurations that come over REST.",
        importance=Importance.LOW,
    ),
)

_MIN_BUFFER = 4 * 1024 * 1024
_LONGEST_EPOCH = 86_400


def _loop_policy(value: object) -> None:
    if value == "forward":
        raise InvalidValueError(
            "cannot be forward: a record does not carry the cluster where it was first produced; "
            "enable the missing direct flow, or set ignore"
        )
    one_of("skip", "ignore")(value)


SPARKMIRROR_KEYS = (
    string(
        "loop.policy",
        "skip",
        "Where flows form a cycle for a topic that keeps its name (active/active): skip records "
        "that a flow has copied to the source and that the target gets or has otherwise, so that "
        "no record returns; or ignore cycles, and copy every record again.",
        _loop_policy,
        fills=field_of(SourceSettings, "loop_policy"),
    ),
    choice(
        "loop.java.policy",
        ("refuse", "copy"),
        "Java MirrorMaker 2 has copied a topic to the source under the same name, and its records "
        "cannot be recognized: refuse to copy the topic back, or copy what is after the flow's "
        "position (the user has set it behind Java's records).",
        fills=field_of(SourceSettings, "loop_java_policy"),
        importance=Importance.LOW,
    ),
    boolean(
        "sync.topic.deletions.enabled",
        False,
        "Whether a remote topic is deleted after its source topic. MM2 never deletes topics.",
    ),
    long(
        "sync.topic.deletions.grace.seconds",
        86_400,
        "Time from the detection of a deleted source topic to the deletion of its remote topic; "
        "starts again when sparkmirror restarts.",
        at_least(5, "tasks need time to release a topic"),
        fills=field_of(SourceSettings, "deletions_grace_seconds", interval),
        switch="sync.topic.deletions.enabled",
    ),
    integer(
        "epoch.seconds",
        300,
        "How long one Spark job of a flow runs before the next one replaces it.",
        between(1, _LONGEST_EPOCH),
        fills=field_of(PipelineSettings, "epoch_seconds", _float),
        importance=Importance.LOW,
    ),
    long(
        "task.buffer.bytes",
        64 * 1024 * 1024,
        "Maximum record data that one task keeps in memory.",
        at_least(_MIN_BUFFER, "a task must hold a few record batches at once"),
        fills=field_of(PipelineSettings, "task_buffer_bytes"),
    ),
    choice(
        "sync.acls.scope",
        (
            "topics",
            "all",
        ),
        "Which ACLs are synced: topics (literal ones of mirrored topics, as in MM2), "
        "or all (also prefixed ones, and those of groups, transactional ids and the cluster).",
        fills=field_of(SourceSettings, "acls_scope"),
    ),
    boolean(
        "sync.acls.removals.enabled",
        False,
        "Whether ACLs that the source no longer has are deleted on the target; only those "
        "that the flow created.",
        fills=field_of(SourceSettings, "acl_removals"),
    ),
    string(
        "initial.offsets.group",
        "",
        "A consumer group on the source, such as that of an old MirrorMaker 1. Partitions "
        "without a stored position start at its committed offsets, others according to "
        "auto.offset.reset.",
        fills=field_of(PipelineSettings, "initial_offsets_group"),
        importance=Importance.LOW,
    ),
    string(
        TARGET_KEY,
        NO_PROFILE,
        "Profile of the target if it is a managed service: values that it accepts, which any "
        "line overrides (see profiles.md).",
        one_of(*PROFILE_NAMES),
    ),
    string(SOURCE_KEY, NO_PROFILE, "Profile of the source.", one_of(*PROFILE_NAMES)),
    string_list(
        "config.properties.include",
        ".*",
        "Topic configs (names or regexes) that are copied to the remote topic; "
        "config.properties.exclude wins.",
        fills=field_of(PolicySettings, "config_properties_include"),
    ),
    boolean(
        "topic.creation.enabled",
        True,
        "Whether remote and internal topics are created and partitions added. If not, the status "
        "names each missing topic with the partitions and configs to create it with; existing "
        "topics are copied.",
        fills=field_of(SourceSettings, "topic_creation_enabled"),
    ),
)

# Read by a flow, but ignored when set globally: they are not in MM2's definitions.
FLOW_ONLY_KEYS = (
    string(
        "use.defaults.from",
        "target",
        "Cluster whose defaults a remote topic gets for configs that the source topic does not "
        "set.",
        fills=field_of(PolicySettings, "use_defaults_from"),
        importance=Importance.LOW,
    ),
    string(
        "exactly.once.support",
        "requested",
        "Whether the flow must be exactly-once: required rejects it without "
        "exactly.once.source.support=enabled and isolation.level=read_committed.",
        one_of("required", "requested", ignore_case=True),
        importance=Importance.LOW,
    ),
    choice(
        "transaction.boundary",
        (
            "poll",
            "interval",
            "connector",
        ),
        "When the transactions of an exactly-once flow are committed: poll (about ten times a "
        "second while records arrive) or interval. connector is refused: MM2's connector sets no "
        "boundaries.",
        ignore_case=True,
        importance=Importance.LOW,
    ),
    long(
        "transaction.boundary.interval.ms",
        None,
        "With transaction.boundary=interval: how long a transaction stays open; by default "
        "offset.flush.interval.ms.",
        at_least(1),
        importance=Importance.LOW,
    ),
    string(
        "offsets.storage.topic",
        None,
        "A separate offsets topic of the connector.",
        importance=Importance.LOW,
        no_effect="positions are stored in the topic that offset.storage.topic names",
    ),
)

CONNECTOR_KEYS = (
    *SHARED_KEYS,
    *SOURCE_KEYS,
    *CHECKPOINT_KEYS,
    *HEARTBEAT_KEYS,
    *SPARKMIRROR_KEYS,
    *INCIDENT_POLICY_KEYS,
    *CONNECT_KEYS,
)

# Deprecated key -> its name since 3.0; accepted with a warning.
DEPRECATED = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}

# Removed from MM2 in 4.0: known, so that no similar key is suggested.
REMOVED = {
    "use.incremental.alter.configs": "incremental changes are the only way since Kafka 4.0",
    "add.source.alias.to.metrics": "metrics always name the source since Kafka 4.0",
}
