# SPDX-License-Identifier: Apache-2.0
"""The table of keys of MM2's source, checkpoint and heartbeat connectors."""

from __future__ import annotations

from sparkmirror.config.keys.config_def import (
    FACTOR_REASON,
    Importance,
    boolean,
    choice,
    class_name,
    factor,
    field_of,
    integer,
    interval,
    long,
    short,
    string_list,
)
from sparkmirror.config.keys.value_types import not_empty, not_zero, replication_factor
from sparkmirror.config.settings import CheckpointSettings, HeartbeatSettings, SourceSettings
from sparkmirror.policy.settings import PolicySettings

_MIRROR = "org.apache.kafka.connect.mirror."
_SOONER = "changes should be detected within seconds, and a check costs one request"

SOURCE_KEYS = (
    string_list(
        "topics",
        ".*",
        "Topics to copy: names or Java regexes that match a whole name.",
        fills=field_of(PolicySettings, "topics"),
        importance=Importance.HIGH,
    ),
    string_list(
        "topics.exclude",
        r"mm2.*\.internal, .*\.replica, __.*",
        "Topics that are never copied; wins over topics.",
        fills=field_of(PolicySettings, "topics_exclude"),
        importance=Importance.HIGH,
    ),
    string_list(
        "config.properties.exclude",
        "follower.replication.throttled.replicas, "
        "leader.replication.throttled.replicas, message.timestamp.difference.max.ms, "
        "log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, "
        "message.timestamp.type, unclean.leader.election.enable, min.insync.replicas",
        "Topic configs (names or regexes) that are not copied to the remote topic.",
        fills=field_of(PolicySettings, "config_properties_exclude"),
    ),
    class_name(
        "topic.filter.class",
        _MIRROR + "DefaultTopicFilter",
        "Which topics are copied: MM2's default filter or the dotted path of a Python class.",
        not_empty,
        fills=field_of(PolicySettings, "topic_filter_class"),
        importance=Importance.LOW,
    ),
    class_name(
        "config.property.filter.class",
        _MIRROR + "DefaultConfigPropertyFilter",
        "Which topic configs are copied: MM2's default filter or the dotted path of a Python "
        "class.",
        not_empty,
        fills=field_of(PolicySettings, "config_property_filter_class"),
        importance=Importance.LOW,
    ),
    long(
        "consumer.poll.timeout.ms",
        1_000,
        "How long one poll of MM2's consumer waits.",
        importance=Importance.LOW,
        no_effect="consumer.fetch.max.wait.ms applies instead",
    ),
    boolean(
        "refresh.topics.enabled",
        True,
        "Whether new topics and partitions are detected while running.",
    ),
    long(
        "refresh.topics.interval.seconds",
        5,
        "How often new topics and partitions are detected.",
        not_zero,
        fills=field_of(SourceSettings, "refresh_topics_seconds", interval),
        switch="refresh.topics.enabled",
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    boolean(
        "sync.topic.configs.enabled",
        True,
        "Whether changed topic configs are synced to the remote topic.",
    ),
    long(
        "sync.topic.configs.interval.seconds",
        5,
        "How often topic configs are compared.",
        not_zero,
        fills=field_of(SourceSettings, "sync_configs_seconds", interval),
        switch="sync.topic.configs.enabled",
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    boolean("sync.topic.acls.enabled", True, "Whether topic ACLs are synced to the remote topic."),
    long(
        "sync.topic.acls.interval.seconds",
        10,
        "How often topic ACLs are compared.",
        not_zero,
        fills=field_of(SourceSettings, "sync_acls_seconds", interval),
        switch="sync.topic.acls.enabled",
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    integer(
        "replication.factor",
        None,
        "Replication factor of remote topics that are created; -1 leaves it to the broker. "
        "Not set: 2, or what the target can hold.",
        replication_factor,
        fills=field_of(SourceSettings, "replication_factor", factor),
        importance=Importance.HIGH,
        mm2_default="2",
        mm2_difference_reason=FACTOR_REASON,
    ),
    short(
        "offset-syncs.topic.replication.factor",
        None,
        "Replication factor of the offset-syncs topic. Not set: 3, or what the cluster can hold.",
        replication_factor,
        fills=field_of(SourceSettings, "offset_syncs_factor", factor),
        mm2_default="3",
        mm2_difference_reason=FACTOR_REASON,
    ),
    choice(
        "offset-syncs.topic.location",
        (
            "source",
            "target",
        ),
        "Cluster of the offset-syncs topic.",
        fills=field_of(SourceSettings, "offset_syncs_location"),
        importance=Importance.LOW,
    ),
    long(
        "offset.lag.max",
        100,
        "How far a translated offset may lag before an offset sync is due.",
        fills=field_of(SourceSettings, "offset_lag_max"),
        importance=Importance.LOW,
    ),
    boolean(
        "emit.offset-syncs.enabled",
        True,
        "Whether offset syncs are written; without them there are no checkpoints either.",
        fills=field_of(SourceSettings, "offset_syncs_enabled"),
        importance=Importance.LOW,
    ),
    boolean(
        "heartbeats.replication.enabled",
        True,
        "Whether heartbeats topics are copied even where the topic filter rejects them.",
        fills=field_of(PolicySettings, "heartbeats_replication_enabled"),
    ),
)

CHECKPOINT_KEYS = (
    string_list(
        "groups",
        ".*",
        "Consumer groups whose positions are translated: names or Java regexes.",
        fills=field_of(PolicySettings, "groups"),
    ),
    string_list(
        "groups.exclude",
        "console-consumer-.*, connect-.*, __.*",
        "Consumer groups that are excluded; wins over groups.",
        fills=field_of(PolicySettings, "groups_exclude"),
    ),
    class_name(
        "group.filter.class",
        _MIRROR + "DefaultGroupFilter",
        "Which groups are translated: MM2's default filter or the dotted path of a Python class.",
        not_empty,
        fills=field_of(PolicySettings, "group_filter_class"),
        importance=Importance.LOW,
    ),
    boolean("refresh.groups.enabled", True, "Whether new groups are detected while running."),
    long(
        "refresh.groups.interval.seconds",
        10,
        "How often new groups are detected.",
        not_zero,
        fills=field_of(CheckpointSettings, "refresh_groups_seconds", interval),
        switch="refresh.groups.enabled",
        mm2_default="600",
        mm2_difference_reason=_SOONER,
    ),
    boolean(
        "emit.checkpoints.enabled",
        True,
        "Whether translated group positions are written to the checkpoints topic.",
        fills=field_of(CheckpointSettings, "enabled"),
    ),
    long(
        "emit.checkpoints.interval.seconds",
        5,
        "How often checkpoints are written.",
        not_zero,
        fills=field_of(CheckpointSettings, "emit_seconds", interval),
        switch="emit.checkpoints.enabled",
        mm2_default="60",
        mm2_difference_reason=_SOONER,
    ),
    boolean(
        "sync.group.offsets.enabled",
        False,
        "Whether translated positions are also committed for idle groups on the target.",
    ),
    long(
        "sync.group.offsets.interval.seconds",
        5,
        "How often group positions are committed on the target.",
        not_zero,
        fills=field_of(CheckpointSettings, "sync_group_offsets_seconds", interval),
        switch="sync.group.offsets.enabled",
        mm2_default="60",
        mm2_difference_reason=_SOONER,
    ),
    short(
        "checkpoints.topic.replication.factor",
        None,
        "Replication factor of the checkpoints topic. Not set: 3, or what the target can hold.",
        replication_factor,
        fills=field_of(CheckpointSettings, "factor", factor),
        mm2_default="3",
        mm2_difference_reason=FACTOR_REASON,
    ),
)

HEARTBEAT_KEYS = (
    boolean(
        "emit.heartbeats.enabled",
        True,
        "Whether the flow writes heartbeats to its target, enabled or not.",
    ),
    long(
        "emit.heartbeats.interval.seconds",
        1,
        "How often a heartbeat is written.",
        not_zero,
        fills=field_of(HeartbeatSettings, "interval_seconds", interval),
        switch="emit.heartbeats.enabled",
    ),
    short(
        "heartbeats.topic.replication.factor",
        None,
        "Replication factor of the heartbeats topic. Not set: 3, or what the target can hold.",
        replication_factor,
        fills=field_of(HeartbeatSettings, "factor", factor),
        mm2_default="3",
        mm2_difference_reason=FACTOR_REASON,
    ),
)
