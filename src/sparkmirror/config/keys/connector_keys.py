# SPDX-License-Identifier: Apache-2.0
"""The table of connector keys: set globally or per flow (`A->B.<key>`).

The names are the union of MM2's three connector definitions and our own keys; exactly these
names pass from the global level of a file into a flow.

The table of policies: what a flow does when something goes wrong that it cannot mend.

Each default loses nothing that can still be had, and goes on where waiting would gain nothing.
Whatever is chosen, the incident is logged, counted and shown, and recorded in the ledger if
source and target are not the same afterwards.
"""

from __future__ import annotations

from sparkmirror.config.keys.config_def import (
    ConfigKey,
    ConfigType,
    Importance,
    at_least,
    between,
    connector_name,
    list_of,
    not_empty,
    one_of,
    valid_topic_characters,
)
from sparkmirror.config.keys.mirror_keys import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS
from sparkmirror.config.keys.service_profiles import (
    NO_PROFILE,
    PROFILE_NAMES,
    SOURCE_KEY,
    TARGET_KEY,
)


def _policy(name: str, values: tuple[str, ...], doc: str) -> ConfigKey:
    """A choice; the first value is the default."""
    return ConfigKey(
        name=name, type=ConfigType.STRING, default=values[0], doc=doc, validators=(one_of(*values),)
    )


INCIDENT_POLICY_KEYS = (
    _policy(
        "gap.policy",
        ("continue", "stop"),
        "The source deleted records before they were copied: continue at the earliest one left "
        "(nobody can bring the others back), or stop the partition.",
    ),
    _policy(
        "source.recreated.policy",
        ("stop", "restart"),
        "A source topic was deleted and created again, so that its offsets mean other records: "
        "stop the topic (its copy may hold all that is left of the old one), or restart at the "
        "new topic's beginning, behind the old records.",
    ),
    _policy(
        "source.truncated.policy",
        ("continue", "stop"),
        "The source lost records that were copied already (unclean leader election): continue "
        "where its log now differs (the target keeps the lost ones), or stop the partition.",
    ),
    _policy(
        "target.recreated.policy",
        ("continue", "restart", "stop"),
        "A remote topic was deleted and created again: continue with the next record (whoever "
        "deleted the copies meant it), restart at the source's beginning, or stop the topic.",
    ),
    _policy(
        "target.truncated.policy",
        ("recopy", "stop"),
        "The target lost records that it had acknowledged: recopy them, or stop the partition.",
    ),
    _policy(
        "corrupt.batch.policy",
        ("stop", "skip"),
        "A record batch on the source does not match its checksum, however often it is read: stop "
        "the partition and look again now and then (another replica may be whole), or skip it.",
    ),
    _policy(
        "refused.record.policy",
        ("dead-letter", "skip", "stop"),
        "The target refuses a record for what it is (too large, a timestamp out of range): write "
        "it to the dead-letter topic on the target, skip it, or stop the partition.",
    ),
    ConfigKey(
        name="open.transaction.warning.ms",
        type=ConfigType.LONG,
        default="120000",
        doc="How long a transaction on the source may hold back everything behind it before its "
        "producer is named; twice the time that Kafka's producers give a transaction.",
        validators=(at_least(1),),
        importance=Importance.LOW,
    ),
)


_MIRROR = "org.apache.kafka.connect.mirror."
_NOT_YET = "not in this version yet"
_NO_JVM = "there is no Java plugin here"
_BYTES = "record batches are copied byte for byte, nothing converts them"

CONNECT_KEYS = (
    ConfigKey(
        name="name",
        type=ConfigType.STRING,
        default=None,
        doc="Connector name, also the first part of the keys in the offsets topic; by default "
        "the connector's simple class name.",
        importance=Importance.LOW,
        validators=(connector_name,),
    ),
    ConfigKey(
        name="connector.class",
        type=ConfigType.STRING,
        default=None,
        doc="Java class name of the connector, kept for compatibility.",
        importance=Importance.LOW,
        no_effect="each flow runs the three mirror connectors",
    ),
    ConfigKey(
        name="connector.plugin.version",
        type=ConfigType.STRING,
        default=None,
        doc="Version of the Java plugin.",
        importance=Importance.LOW,
        no_effect=_NO_JVM,
    ),
    ConfigKey(
        name="tasks.max",
        type=ConfigType.INT,
        default="1",
        doc="The largest number of splits (Spark tasks) that copy a flow at the same time.",
        importance=Importance.HIGH,
        validators=(at_least(1),),
    ),
    ConfigKey(
        name="tasks.max.enforce",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether more tasks than tasks.max are an error.",
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
            no_effect=_BYTES,
        )
        for part in ("key", "value", "header")
        for suffix in ("", ".plugin.version")
    ),
    ConfigKey(
        name="transforms",
        type=ConfigType.LIST,
        default="",
        doc="Single message transforms; a flow that names any is refused.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="predicates",
        type=ConfigType.LIST,
        default="",
        doc="Predicates of single message transforms.",
        importance=Importance.LOW,
        no_effect="they select records for transforms only",
    ),
    ConfigKey(
        name="config.action.reload",
        type=ConfigType.STRING,
        default="restart",
        doc="What to do when a config provider's value changes.",
        importance=Importance.LOW,
        validators=(one_of("none", "restart"),),
        no_effect="files that values come from are watched in any case, and what uses them begins "
        "anew when they change",
    ),
    ConfigKey(
        name="errors.retry.timeout",
        type=ConfigType.LONG,
        default="0",
        doc="How long Connect retries a failed conversion.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
    ConfigKey(
        name="errors.retry.delay.max.ms",
        type=ConfigType.LONG,
        default="60000",
        doc="The longest pause between such retries.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
    ConfigKey(
        name="errors.tolerance",
        type=ConfigType.STRING,
        default="none",
        doc="Whether Connect skips records that cannot be converted.",
        importance=Importance.LOW,
        validators=(one_of("none", "all"),),
        no_effect=_BYTES,
    ),
    ConfigKey(
        name="errors.log.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether Connect logs records that cannot be converted.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
    ConfigKey(
        name="errors.log.include.messages",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether such log lines show the record.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
)

SHARED_KEYS = (
    ConfigKey(
        name="enabled",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether the flow copies records; a pair that is not enabled only emits heartbeats.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        name="source.cluster.alias",
        type=ConfigType.STRING,
        default=None,
        doc="Name of the source cluster; taken from the pair.",
        importance=Importance.LOW,
        validators=(valid_topic_characters,),
        required=True,
    ),
    ConfigKey(
        name="target.cluster.alias",
        type=ConfigType.STRING,
        default="target",
        doc="Name of the target cluster; taken from the pair.",
        importance=Importance.LOW,
        validators=(valid_topic_characters,),
    ),
    ConfigKey(
        name="admin.timeout.ms",
        type=ConfigType.LONG,
        default="60000",
        doc="How long one administrative step, such as creating topics, may take.",
        validators=(at_least(1),),
        no_effect="not in this version yet",
    ),
    ConfigKey(
        name="replication.policy.class",
        type=ConfigType.CLASS,
        default=_MIRROR + "DefaultReplicationPolicy",
        doc="How remote topics are named: MM2's DefaultReplicationPolicy or "
        "IdentityReplicationPolicy, or the dotted path of a Python class of yours.",
        importance=Importance.HIGH,
        validators=(not_empty,),
    ),
    ConfigKey(
        name="replication.policy.separator",
        type=ConfigType.STRING,
        default=".",
        doc="What stands between the source's alias and the topic in a remote topic's name.",
        validators=(valid_topic_characters,),
    ),
    ConfigKey(
        name="replication.policy.internal.topic.separator.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether a separator that is set also shapes the names of the offset-syncs and "
        "checkpoints topics.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="forwarding.admin.class",
        type=ConfigType.CLASS,
        default="org.apache.kafka.clients.admin.ForwardingAdmin",
        doc="Java class through which MM2 sends its administrative requests.",
        importance=Importance.LOW,
        no_effect=_NO_JVM,
    ),
    ConfigKey(
        name="metric.reporters",
        type=ConfigType.LIST,
        default="org.apache.kafka.common.metrics.JmxReporter",
        doc="Java classes that report metrics.",
        importance=Importance.LOW,
        no_effect=_NO_JVM,
    ),
    ConfigKey(
        name="metric.names.formats",
        type=ConfigType.LIST,
        default="legacy",
        doc="Which names MM2's metrics carry.",
        importance=Importance.LOW,
        validators=(list_of("legacy", "new"),),
        no_effect=_NOT_YET,
    ),
    ConfigKey(
        name="config.providers",
        type=ConfigType.LIST,
        default="",
        doc="Names of config providers; file, directory and env also work without this line, but "
        "not in what comes over REST.",
        importance=Importance.LOW,
    ),
)

_LEAST_BUFFER = 4 * 1024 * 1024
_LONGEST_EPOCH = 86_400

SPARKMIRROR_KEYS = (
    ConfigKey(
        name="sync.topic.deletions.enabled",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether the remote topic is deleted after its source topic was. MM2 never does.",
    ),
    ConfigKey(
        name="sync.topic.deletions.grace.seconds",
        type=ConfigType.LONG,
        default="86400",
        doc="How long after it was noticed that a source topic is gone its remote topic is "
        "deleted; counted anew when sparkmirror starts.",
        validators=(at_least(5, "tasks need a moment to let go of a topic"),),
    ),
    ConfigKey(
        name="epoch.seconds",
        type=ConfigType.INT,
        default="300",
        doc="How long one Spark job of a flow runs before the next one takes over.",
        validators=(between(1, _LONGEST_EPOCH),),
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="task.buffer.bytes",
        type=ConfigType.LONG,
        default=str(64 * 1024 * 1024),
        doc="The most record data that one task holds in memory.",
        validators=(at_least(_LEAST_BUFFER, "a task must hold a few record batches at once"),),
    ),
    ConfigKey(
        name="sync.acls.scope",
        type=ConfigType.STRING,
        default="topics",
        doc="Which ACLs are carried over: topics (literal ones of mirrored topics, as MM2 does), "
        "or all (prefixed ones as well, and those of groups, transactional ids and the cluster).",
        validators=(one_of("topics", "all"),),
    ),
    ConfigKey(
        name="sync.acls.removals.enabled",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether ACLs that the source no longer has are taken away on the target; only those "
        "that the flow itself created.",
    ),
    ConfigKey(
        name="initial.offsets.group",
        type=ConfigType.STRING,
        default="",
        doc="A consumer group on the source whose committed offsets are where partitions without "
        "a stored position begin, such as that of an old MirrorMaker 1; the others begin as "
        "auto.offset.reset says.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name=TARGET_KEY,
        type=ConfigType.STRING,
        default=NO_PROFILE,
        doc="What the target is, if it is a service that refuses some things: a set of values, "
        "weaker than any line, that it takes (see profiles.md).",
        validators=(one_of(*PROFILE_NAMES),),
    ),
    ConfigKey(
        name=SOURCE_KEY,
        type=ConfigType.STRING,
        default=NO_PROFILE,
        doc="The same about the source.",
        validators=(one_of(*PROFILE_NAMES),),
    ),
    ConfigKey(
        name="config.properties.include",
        type=ConfigType.LIST,
        default=".*",
        doc="Topic configs (names or regexes) that the remote topic may take over; "
        "config.properties.exclude wins over this.",
    ),
    ConfigKey(
        name="topic.creation.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether topics are created and grown, remote and internal ones. If not, each missing "
        "one is named in the status with the shape to create it in, and what is there flows.",
    ),
)

# Read by a flow, but lost when set globally: MM2's definitions lack them, and so do ours.
FLOW_ONLY_KEYS = (
    ConfigKey(
        name="use.defaults.from",
        type=ConfigType.STRING,
        default="target",
        doc="Whose defaults a remote topic gets for configs that the source topic does not set.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="exactly.once.support",
        type=ConfigType.STRING,
        default="requested",
        doc="Whether the flow must be exactly-once: required refuses to run it without "
        "exactly.once.source.support=enabled and isolation.level=read_committed.",
        importance=Importance.LOW,
        validators=(one_of("required", "requested", ignore_case=True),),
    ),
    ConfigKey(
        name="transaction.boundary",
        type=ConfigType.STRING,
        default="poll",
        doc="When the transactions of an exactly-once flow are committed: poll (about ten times a "
        "second while records arrive) or interval. connector is refused: MM2's connector sets no "
        "boundaries.",
        importance=Importance.LOW,
        validators=(one_of("poll", "interval", "connector", ignore_case=True),),
    ),
    ConfigKey(
        name="transaction.boundary.interval.ms",
        type=ConfigType.LONG,
        default=None,
        doc="With transaction.boundary=interval: how long a transaction stays open; by default "
        "offset.flush.interval.ms.",
        importance=Importance.LOW,
        validators=(at_least(1),),
    ),
    ConfigKey(
        name="offsets.storage.topic",
        type=ConfigType.STRING,
        default=None,
        doc="An offsets topic of the connector's own.",
        importance=Importance.LOW,
        no_effect="positions are kept in the topic that offset.storage.topic names",
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

# Old spelling -> the name it has had since 3.0; accepted with a warning.
DEPRECATED = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}

# Removed from MM2 in 4.0: recognised, so that nobody is sent to a similar name.
REMOVED = {
    "use.incremental.alter.configs": "incremental changes are the only way since Kafka 4.0",
    "add.source.alias.to.metrics": "metrics always name the source since Kafka 4.0",
}
