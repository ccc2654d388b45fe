# SPDX-License-Identifier: Apache-2.0
"""The table of connector keys: set globally or per flow (`A->B.<key>`).

The names are the union of MM2's three connector definitions and our own keys; exactly these
names pass from the global level of a file into a flow.
"""

from __future__ import annotations

from sparkmirror.config.key import Importance, Key
from sparkmirror.config.keys_mirror import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS
from sparkmirror.config.keys_policies import POLICY_KEYS
from sparkmirror.config.profiles import NO_PROFILE, PROFILE_NAMES, SOURCE_KEY, TARGET_KEY
from sparkmirror.config.value_types import (
    Type,
    at_least,
    between,
    connector_name,
    items_among,
    not_empty,
    one_of,
    topic_characters,
)

_MIRROR = "org.apache.kafka.connect.mirror."
_NOT_YET = "not in this version yet"
_NO_JVM = "there is no Java plugin here"
_BYTES = "record batches are copied byte for byte, nothing converts them"

CONNECT_KEYS = (
    Key(
        name="name",
        type=Type.STRING,
        default=None,
        doc="Connector name, also the first part of the keys in the offsets topic; by default "
        "the connector's simple class name.",
        importance=Importance.LOW,
        checks=(connector_name,),
    ),
    Key(
        name="connector.class",
        type=Type.STRING,
        default=None,
        doc="Java class name of the connector, kept for compatibility.",
        importance=Importance.LOW,
        no_effect="each flow runs the three mirror connectors",
    ),
    Key(
        name="connector.plugin.version",
        type=Type.STRING,
        default=None,
        doc="Version of the Java plugin.",
        importance=Importance.LOW,
        no_effect=_NO_JVM,
    ),
    Key(
        name="tasks.max",
        type=Type.INT,
        default="1",
        doc="The largest number of splits (Spark tasks) that copy a flow at the same time.",
        importance=Importance.HIGH,
        checks=(at_least(1),),
    ),
    Key(
        name="tasks.max.enforce",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether more tasks than tasks.max are an error.",
        importance=Importance.LOW,
        no_effect="tasks.max is never exceeded",
    ),
    *(
        Key(
            name=f"{part}.converter{suffix}",
            type=Type.STRING if suffix else Type.CLASS,
            default=None,
            doc=f"Converter of record {part}s{' (its version)' if suffix else ''}.",
            importance=Importance.LOW,
            no_effect=_BYTES,
        )
        for part in ("key", "value", "header")
        for suffix in ("", ".plugin.version")
    ),
    Key(
        name="transforms",
        type=Type.LIST,
        default="",
        doc="Single message transforms; a flow that names any is refused.",
        importance=Importance.LOW,
    ),
    Key(
        name="predicates",
        type=Type.LIST,
        default="",
        doc="Predicates of single message transforms.",
        importance=Importance.LOW,
        no_effect="they select records for transforms only",
    ),
    Key(
        name="config.action.reload",
        type=Type.STRING,
        default="restart",
        doc="What to do when a config provider's value changes.",
        importance=Importance.LOW,
        checks=(one_of("none", "restart"),),
        no_effect="files that values come from are watched in any case, and what uses them begins "
        "anew when they change",
    ),
    Key(
        name="errors.retry.timeout",
        type=Type.LONG,
        default="0",
        doc="How long Connect retries a failed conversion.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
    Key(
        name="errors.retry.delay.max.ms",
        type=Type.LONG,
        default="60000",
        doc="The longest pause between such retries.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
    Key(
        name="errors.tolerance",
        type=Type.STRING,
        default="none",
        doc="Whether Connect skips records that cannot be converted.",
        importance=Importance.LOW,
        checks=(one_of("none", "all"),),
        no_effect=_BYTES,
    ),
    Key(
        name="errors.log.enable",
        type=Type.BOOLEAN,
        default="false",
        doc="Whether Connect logs records that cannot be converted.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
    Key(
        name="errors.log.include.messages",
        type=Type.BOOLEAN,
        default="false",
        doc="Whether such log lines show the record.",
        importance=Importance.LOW,
        no_effect=_BYTES,
    ),
)

SHARED_KEYS = (
    Key(
        name="enabled",
        type=Type.BOOLEAN,
        default="false",
        doc="Whether the flow copies records; a pair that is not enabled only emits heartbeats.",
        importance=Importance.HIGH,
    ),
    Key(
        name="source.cluster.alias",
        type=Type.STRING,
        default=None,
        doc="Name of the source cluster; taken from the pair.",
        importance=Importance.LOW,
        checks=(topic_characters,),
        required=True,
    ),
    Key(
        name="target.cluster.alias",
        type=Type.STRING,
        default="target",
        doc="Name of the target cluster; taken from the pair.",
        importance=Importance.LOW,
        checks=(topic_characters,),
    ),
    Key(
        name="admin.timeout.ms",
        type=Type.LONG,
        default="60000",
        doc="How long one administrative step, such as creating topics, may take.",
        checks=(at_least(1),),
        no_effect="not in this version yet",
    ),
    Key(
        name="replication.policy.class",
        type=Type.CLASS,
        default=_MIRROR + "DefaultReplicationPolicy",
        doc="How remote topics are named: MM2's DefaultReplicationPolicy or "
        "IdentityReplicationPolicy, or the dotted path of a Python class of yours.",
        importance=Importance.HIGH,
        checks=(not_empty,),
    ),
    Key(
        name="replication.policy.separator",
        type=Type.STRING,
        default=".",
        doc="What stands between the source's alias and the topic in a remote topic's name.",
        checks=(topic_characters,),
    ),
    Key(
        name="replication.policy.internal.topic.separator.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether a separator that is set also shapes the names of the offset-syncs and "
        "checkpoints topics.",
        importance=Importance.LOW,
    ),
    Key(
        name="forwarding.admin.class",
        type=Type.CLASS,
        default="org.apache.kafka.clients.admin.ForwardingAdmin",
        doc="Java class through which MM2 sends its administrative requests.",
        importance=Importance.LOW,
        no_effect=_NO_JVM,
    ),
    Key(
        name="metric.reporters",
        type=Type.LIST,
        default="org.apache.kafka.common.metrics.JmxReporter",
        doc="Java classes that report metrics.",
        importance=Importance.LOW,
        no_effect=_NO_JVM,
    ),
    Key(
        name="metric.names.formats",
        type=Type.LIST,
        default="legacy",
        doc="Which names MM2's metrics carry.",
        importance=Importance.LOW,
        checks=(items_among("legacy", "new"),),
        no_effect=_NOT_YET,
    ),
    Key(
        name="config.providers",
        type=Type.LIST,
        default="",
        doc="Names of config providers; file, directory and env also work without this line, but "
        "not in what comes over REST.",
        importance=Importance.LOW,
    ),
)

_LEAST_BUFFER = 4 * 1024 * 1024
_LONGEST_EPOCH = 86_400

OWN_KEYS = (
    Key(
        name="sync.topic.deletions.enabled",
        type=Type.BOOLEAN,
        default="false",
        doc="Whether the remote topic is deleted after its source topic was. MM2 never does.",
    ),
    Key(
        name="sync.topic.deletions.grace.seconds",
        type=Type.LONG,
        default="86400",
        doc="How long after it was noticed that a source topic is gone its remote topic is "
        "deleted; counted anew when sparkmirror starts.",
        checks=(at_least(5, "tasks need a moment to let go of a topic"),),
    ),
    Key(
        name="epoch.seconds",
        type=Type.INT,
        default="300",
        doc="How long one Spark job of a flow runs before the next one takes over.",
        checks=(between(1, _LONGEST_EPOCH),),
        importance=Importance.LOW,
    ),
    Key(
        name="task.buffer.bytes",
        type=Type.LONG,
        default=str(64 * 1024 * 1024),
        doc="The most record data that one task holds in memory.",
        checks=(at_least(_LEAST_BUFFER, "a task must hold a few record batches at once"),),
    ),
    Key(
        name="sync.acls.scope",
        type=Type.STRING,
        default="topics",
        doc="Which ACLs are carried over: topics (literal ones of mirrored topics, as MM2 does), "
        "or all (prefixed ones as well, and those of groups, transactional ids and the cluster).",
        checks=(one_of("topics", "all"),),
    ),
    Key(
        name="sync.acls.removals.enabled",
        type=Type.BOOLEAN,
        default="false",
        doc="Whether ACLs that the source no longer has are taken away on the target; only those "
        "that the flow itself created.",
    ),
    Key(
        name="initial.offsets.group",
        type=Type.STRING,
        default="",
        doc="A consumer group on the source whose committed offsets are where partitions without "
        "a stored position begin, such as that of an old MirrorMaker 1; the others begin as "
        "auto.offset.reset says.",
        importance=Importance.LOW,
    ),
    Key(
        name=TARGET_KEY,
        type=Type.STRING,
        default=NO_PROFILE,
        doc="What the target is, if it is a service that refuses some things: a set of values, "
        "weaker than any line, that it takes (see profiles.md).",
        checks=(one_of(*PROFILE_NAMES),),
    ),
    Key(
        name=SOURCE_KEY,
        type=Type.STRING,
        default=NO_PROFILE,
        doc="The same about the source.",
        checks=(one_of(*PROFILE_NAMES),),
    ),
    Key(
        name="config.properties.include",
        type=Type.LIST,
        default=".*",
        doc="Topic configs (names or regexes) that the remote topic may take over; "
        "config.properties.exclude wins over this.",
    ),
    Key(
        name="topic.creation.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether topics are created and grown, remote and internal ones. If not, each missing "
        "one is named in the status with the shape to create it in, and what is there flows.",
    ),
)

# Read by a flow, but lost when set globally: MM2's definitions lack them, and so do ours.
FLOW_ONLY_KEYS = (
    Key(
        name="use.defaults.from",
        type=Type.STRING,
        default="target",
        doc="Whose defaults a remote topic gets for configs that the source topic does not set.",
        importance=Importance.LOW,
    ),
    Key(
        name="exactly.once.support",
        type=Type.STRING,
        default="requested",
        doc="Whether the flow must be exactly-once: required refuses to run it without "
        "exactly.once.source.support=enabled and isolation.level=read_committed.",
        importance=Importance.LOW,
        checks=(one_of("required", "requested", ignore_case=True),),
    ),
    Key(
        name="transaction.boundary",
        type=Type.STRING,
        default="poll",
        doc="When the transactions of an exactly-once flow are committed: poll (about ten times a "
        "second while records arrive) or interval. connector is refused: MM2's connector sets no "
        "boundaries.",
        importance=Importance.LOW,
        checks=(one_of("poll", "interval", "connector", ignore_case=True),),
    ),
    Key(
        name="transaction.boundary.interval.ms",
        type=Type.LONG,
        default=None,
        doc="With transaction.boundary=interval: how long a transaction stays open; by default "
        "offset.flush.interval.ms.",
        importance=Importance.LOW,
        checks=(at_least(1),),
    ),
    Key(
        name="offsets.storage.topic",
        type=Type.STRING,
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
    *OWN_KEYS,
    *POLICY_KEYS,
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
