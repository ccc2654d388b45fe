# SPDX-License-Identifier: Apache-2.0
"""The table of keys of MM2's source, checkpoint and heartbeat connectors."""

from __future__ import annotations

from sparkmirror.config.keys.config_def import (
    ConfigKey,
    ConfigType,
    Importance,
    not_empty,
    not_zero,
    one_of,
    replication_factor,
)

_MIRROR = "org.apache.kafka.connect.mirror."
_SOONER = "changes should be noticed within seconds, and looking costs one request"
_HELD = "a small cluster should work without a line about it; set factors are kept to the letter"

SOURCE_KEYS = (
    ConfigKey(
        name="topics",
        type=ConfigType.LIST,
        default=".*",
        doc="Topics to copy: names or Java regexes that match a whole name.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        name="topics.exclude",
        type=ConfigType.LIST,
        default=r"mm2.*\.internal, .*\.replica, __.*",
        doc="Topics never to copy; this wins over topics.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        name="config.properties.exclude",
        type=ConfigType.LIST,
        default="follower.replication.throttled.replicas, "
        "leader.replication.throttled.replicas, message.timestamp.difference.max.ms, "
        "log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, "
        "message.timestamp.type, unclean.leader.election.enable, min.insync.replicas",
        doc="Topic configs (names or regexes) that the remote topic does not take over.",
    ),
    ConfigKey(
        name="topic.filter.class",
        type=ConfigType.CLASS,
        default=_MIRROR + "DefaultTopicFilter",
        doc="Which topics are copied: MM2's default filter or the dotted path of a Python class.",
        importance=Importance.LOW,
        validators=(not_empty,),
    ),
    ConfigKey(
        name="config.property.filter.class",
        type=ConfigType.CLASS,
        default=_MIRROR + "DefaultConfigPropertyFilter",
        doc="Which topic configs are copied: MM2's default filter or the dotted path of a Python "
        "class.",
        importance=Importance.LOW,
        validators=(not_empty,),
    ),
    ConfigKey(
        name="consumer.poll.timeout.ms",
        type=ConfigType.LONG,
        default="1000",
        doc="How long one poll of MM2's consumer waits.",
        importance=Importance.LOW,
        no_effect="tasks wait for the source as consumer.fetch.max.wait.ms says",
    ),
    ConfigKey(
        name="refresh.topics.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether to look for new topics and partitions while running.",
    ),
    ConfigKey(
        name="refresh.topics.interval.seconds",
        type=ConfigType.LONG,
        default="5",
        doc="How often to look for new topics and partitions.",
        validators=(not_zero,),
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    ConfigKey(
        name="sync.topic.configs.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether changed topic configs are carried over to the remote topic.",
    ),
    ConfigKey(
        name="sync.topic.configs.interval.seconds",
        type=ConfigType.LONG,
        default="5",
        doc="How often topic configs are compared.",
        validators=(not_zero,),
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    ConfigKey(
        name="sync.topic.acls.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether topic ACLs are carried over to the remote topic.",
    ),
    ConfigKey(
        name="sync.topic.acls.interval.seconds",
        type=ConfigType.LONG,
        default="10",
        doc="How often topic ACLs are compared.",
        validators=(not_zero,),
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    ConfigKey(
        name="replication.factor",
        type=ConfigType.INT,
        default=None,
        doc="Replication factor of remote topics that are created; -1 leaves it to the broker. "
        "Not set: 2, or what the target can hold.",
        validators=(replication_factor,),
        importance=Importance.HIGH,
        mm2_default="2",
        mm2_difference_reason=_HELD,
    ),
    ConfigKey(
        name="offset-syncs.topic.replication.factor",
        type=ConfigType.SHORT,
        default=None,
        doc="Replication factor of the offset-syncs topic. Not set: 3, or what the cluster can "
        "hold.",
        validators=(replication_factor,),
        mm2_default="3",
        mm2_difference_reason=_HELD,
    ),
    ConfigKey(
        name="offset-syncs.topic.location",
        type=ConfigType.STRING,
        default="source",
        doc="On which cluster the offset-syncs topic lives.",
        validators=(one_of("source", "target"),),
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="offset.lag.max",
        type=ConfigType.LONG,
        default="100",
        doc="How far a translated offset may lag before an offset sync is due.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="emit.offset-syncs.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether offset syncs are written; without them there are no checkpoints either.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="heartbeats.replication.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether heartbeats topics are copied even where the topic filter rejects them.",
    ),
)

CHECKPOINT_KEYS = (
    ConfigKey(
        name="groups",
        type=ConfigType.LIST,
        default=".*",
        doc="Consumer groups whose positions are translated: names or Java regexes.",
    ),
    ConfigKey(
        name="groups.exclude",
        type=ConfigType.LIST,
        default="console-consumer-.*, connect-.*, __.*",
        doc="Consumer groups left out; this wins over groups.",
    ),
    ConfigKey(
        name="group.filter.class",
        type=ConfigType.CLASS,
        default=_MIRROR + "DefaultGroupFilter",
        doc="Which groups take part: MM2's default filter or the dotted path of a Python class.",
        importance=Importance.LOW,
        validators=(not_empty,),
    ),
    ConfigKey(
        name="refresh.groups.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether to look for new groups while running.",
    ),
    ConfigKey(
        name="refresh.groups.interval.seconds",
        type=ConfigType.LONG,
        default="10",
        doc="How often to look for new groups.",
        validators=(not_zero,),
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    ConfigKey(
        name="emit.checkpoints.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether translated group positions are written to the checkpoints topic.",
    ),
    ConfigKey(
        name="emit.checkpoints.interval.seconds",
        type=ConfigType.LONG,
        default="5",
        doc="How often checkpoints are written.",
        validators=(not_zero,),
        mm2_default="60",
        mm2_difference_reason=_SOONER,
    ),
    ConfigKey(
        name="sync.group.offsets.enabled",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether translated positions are also committed for idle groups on the target.",
    ),
    ConfigKey(
        name="sync.group.offsets.interval.seconds",
        type=ConfigType.LONG,
        default="5",
        doc="How often group positions are committed on the target.",
        validators=(not_zero,),
        mm2_default="60",
        mm2_difference_reason=_SOONER,
    ),
    ConfigKey(
        name="checkpoints.topic.replication.factor",
        type=ConfigType.SHORT,
        default=None,
        doc="Replication factor of the checkpoints topic. Not set: 3, or what the target can hold.",
        validators=(replication_factor,),
        mm2_default="3",
        mm2_difference_reason=_HELD,
    ),
)

HEARTBEAT_KEYS = (
    ConfigKey(
        name="emit.heartbeats.enabled",
        type=ConfigType.BOOLEAN,
        default="true",
        doc="Whether the pair writes heartbeats to its target, enabled or not.",
    ),
    ConfigKey(
        name="emit.heartbeats.interval.seconds",
        type=ConfigType.LONG,
        default="1",
        doc="How often a heartbeat is written.",
        validators=(not_zero,),
    ),
    ConfigKey(
        name="heartbeats.topic.replication.factor",
        type=ConfigType.SHORT,
        default=None,
        doc="Replication factor of the heartbeats topic. Not set: 3, or what the target can hold.",
        validators=(replication_factor,),
        mm2_default="3",
        mm2_difference_reason=_HELD,
    ),
)
