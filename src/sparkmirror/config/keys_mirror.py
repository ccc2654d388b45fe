# SPDX-License-Identifier: Apache-2.0
"""The table of keys of MM2's source, checkpoint and heartbeat connectors."""

from __future__ import annotations

from sparkmirror.config.key import Importance, Key
from sparkmirror.config.value_types import Type, not_empty, not_zero, one_of, replication_factor

_MIRROR = "org.apache.kafka.connect.mirror."
_SOONER = "changes should be noticed within seconds, and looking costs one request"
_HELD = "a small cluster should work without a line about it; set factors are kept to the letter"

SOURCE_KEYS = (
    Key(
        name="topics",
        type=Type.LIST,
        default=".*",
        doc="Topics to copy: names or Java regexes that match a whole name.",
        importance=Importance.HIGH,
    ),
    Key(
        name="topics.exclude",
        type=Type.LIST,
        default=r"mm2.*\.internal, .*\.replica, __.*",
        doc="Topics never to copy; this wins over topics.",
        importance=Importance.HIGH,
    ),
    Key(
        name="config.properties.exclude",
        type=Type.LIST,
        default="follower.replication.throttled.replicas, "
        "leader.replication.throttled.replicas, message.timestamp.difference.max.ms, "
        "log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, "
        "message.timestamp.type, unclean.leader.election.enable, min.insync.replicas",
        doc="Topic configs (names or regexes) that the remote topic does not take over.",
    ),
    Key(
        name="topic.filter.class",
        type=Type.CLASS,
        default=_MIRROR + "DefaultTopicFilter",
        doc="Which topics are copied: MM2's default filter or the dotted path of a Python class.",
        importance=Importance.LOW,
        checks=(not_empty,),
    ),
    Key(
        name="config.property.filter.class",
        type=Type.CLASS,
        default=_MIRROR + "DefaultConfigPropertyFilter",
        doc="Which topic configs are copied: MM2's default filter or the dotted path of a Python "
        "class.",
        importance=Importance.LOW,
        checks=(not_empty,),
    ),
    Key(
        name="consumer.poll.timeout.ms",
        type=Type.LONG,
        default="1000",
        doc="How long one poll of MM2's consumer waits.",
        importance=Importance.LOW,
        no_effect="tasks wait for the source as consumer.fetch.max.wait.ms says",
    ),
    Key(
        name="refresh.topics.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether to look for new topics and partitions while running.",
    ),
    Key(
        name="refresh.topics.interval.seconds",
        type=Type.LONG,
        default="5",
        doc="How often to look for new topics and partitions.",
        checks=(not_zero,),
        mm2_default="600",
        reason=_SOONER,
    ),
    Key(
        name="sync.topic.configs.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether changed topic configs are carried over to the remote topic.",
    ),
    Key(
        name="sync.topic.configs.interval.seconds",
        type=Type.LONG,
        default="5",
        doc="How often topic configs are compared.",
        checks=(not_zero,),
        mm2_default="600",
        reason=_SOONER,
    ),
    Key(
        name="sync.topic.acls.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether topic ACLs are carried over to the remote topic.",
    ),
    Key(
        name="sync.topic.acls.interval.seconds",
        type=Type.LONG,
        default="10",
        doc="How often topic ACLs are compared.",
        checks=(not_zero,),
        mm2_default="600",
        reason=_SOONER,
    ),
    Key(
        name="replication.factor",
        type=Type.INT,
        default=None,
        doc="Replication factor of remote topics that are created; -1 leaves it to the broker. "
        "Not set: 2, or what the target can hold.",
        checks=(replication_factor,),
        importance=Importance.HIGH,
        mm2_default="2",
        reason=_HELD,
    ),
    Key(
        name="offset-syncs.topic.replication.factor",
        type=Type.SHORT,
        default=None,
        doc="Replication factor of the offset-syncs topic. Not set: 3, or what the cluster can "
        "hold.",
        checks=(replication_factor,),
        mm2_default="3",
        reason=_HELD,
    ),
    Key(
        name="offset-syncs.topic.location",
        type=Type.STRING,
        default="source",
        doc="On which cluster the offset-syncs topic lives.",
        checks=(one_of("source", "target"),),
        importance=Importance.LOW,
    ),
    Key(
        name="offset.lag.max",
        type=Type.LONG,
        default="100",
        doc="How far a translated offset may lag before an offset sync is due.",
        importance=Importance.LOW,
    ),
    Key(
        name="emit.offset-syncs.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether offset syncs are written; without them there are no checkpoints either.",
        importance=Importance.LOW,
    ),
    Key(
        name="heartbeats.replication.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether heartbeats topics are copied even where the topic filter rejects them.",
    ),
)

CHECKPOINT_KEYS = (
    Key(
        name="groups",
        type=Type.LIST,
        default=".*",
        doc="Consumer groups whose positions are translated: names or Java regexes.",
    ),
    Key(
        name="groups.exclude",
        type=Type.LIST,
        default="console-consumer-.*, connect-.*, __.*",
        doc="Consumer groups left out; this wins over groups.",
    ),
    Key(
        name="group.filter.class",
        type=Type.CLASS,
        default=_MIRROR + "DefaultGroupFilter",
        doc="Which groups take part: MM2's default filter or the dotted path of a Python class.",
        importance=Importance.LOW,
        checks=(not_empty,),
    ),
    Key(
        name="refresh.groups.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether to look for new groups while running.",
    ),
    Key(
        name="refresh.groups.interval.seconds",
        type=Type.LONG,
        default="10",
        doc="How often to look for new groups.",
        checks=(not_zero,),
        mm2_default="600",
        reason=_SOONER,
    ),
    Key(
        name="emit.checkpoints.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether translated group positions are written to the checkpoints topic.",
    ),
    Key(
        name="emit.checkpoints.interval.seconds",
        type=Type.LONG,
        default="5",
        doc="How often checkpoints are written.",
        checks=(not_zero,),
        mm2_default="60",
        reason=_SOONER,
    ),
    Key(
        name="sync.group.offsets.enabled",
        type=Type.BOOLEAN,
        default="false",
        doc="Whether translated positions are also committed for idle groups on the target.",
    ),
    Key(
        name="sync.group.offsets.interval.seconds",
        type=Type.LONG,
        default="5",
        doc="How often group positions are committed on the target.",
        checks=(not_zero,),
        mm2_default="60",
        reason=_SOONER,
    ),
    Key(
        name="checkpoints.topic.replication.factor",
        type=Type.SHORT,
        default=None,
        doc="Replication factor of the checkpoints topic. Not set: 3, or what the target can hold.",
        checks=(replication_factor,),
        mm2_default="3",
        reason=_HELD,
    ),
)

HEARTBEAT_KEYS = (
    Key(
        name="emit.heartbeats.enabled",
        type=Type.BOOLEAN,
        default="true",
        doc="Whether the pair writes heartbeats to its target, enabled or not.",
    ),
    Key(
        name="emit.heartbeats.interval.seconds",
        type=Type.LONG,
        default="1",
        doc="How often a heartbeat is written.",
        checks=(not_zero,),
    ),
    Key(
        name="heartbeats.topic.replication.factor",
        type=Type.SHORT,
        default=None,
        doc="Replication factor of the heartbeats topic. Not set: 3, or what the target can hold.",
        checks=(replication_factor,),
        mm2_default="3",
        reason=_HELD,
    ),
)
