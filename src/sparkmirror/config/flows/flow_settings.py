# SPDX-License-Identifier: Apache-2.0
"""The typed settings of one pair, made from the layered texts of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.config_reader import ConfigReader, ConfigReport
from sparkmirror.config.files.layering import (
    LayeredConfig,
    RawProperties,
    connector_config,
    profile_names,
    worker_config,
)
from sparkmirror.config.flows.client_settings import BootstrapKeys, read_clients
from sparkmirror.config.keys.config_def import ConfigKey
from sparkmirror.config.keys.table import CONNECTOR, WORKER
from sparkmirror.config.keys.worker_keys import STORAGE_KEYS, STORAGES
from sparkmirror.config.rules.flow_rules import check_flow, check_group_timeouts, check_profiles
from sparkmirror.config.settings import (
    CheckpointSettings,
    ExactlyOnce,
    FlowSettings,
    HeartbeatSettings,
    IncidentPolicies,
    InternalTopics,
    PipelineSettings,
    ReplicationFactor,
    SourceSettings,
    TransactionSettings,
)
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.model import Flow
from sparkmirror.policy.settings import PolicySettings

# Connect commits after each poll, which never waits; here a transaction gathers for a moment.
_POLL_COMMIT_MS = 100
_SMALL_SEGMENT = str(4 << 20)


@dataclass(frozen=True, slots=True)
class ParsedFlow:
    """The settings of a pair with all that was found on the way; errors make them unusable."""

    settings: FlowSettings
    report: ConfigReport
    group: GroupSettings  # in which processes agree on who runs the pair


@dataclass(frozen=True, slots=True)
class FlowLayers:
    """The texts that settings are made of, wherever they were written."""

    flow: Flow
    connector: LayeredConfig
    worker: LayeredConfig
    heartbeat_name: str
    checkpoint_name: str
    server_keys: BootstrapKeys
    keys: Mapping[str, ConfigKey] = field(default_factory=lambda: CONNECTOR)


@dataclass(frozen=True, slots=True)
class SettingsAndReaders:
    """Settings, and the readers that rules between keys ask."""

    settings: FlowSettings
    connector: ConfigReader
    worker: ConfigReader


def parse_flow(raw: RawProperties, flow: Flow, resolver: ReferenceResolver) -> ParsedFlow:
    """Read the pair's settings; whatever is wrong stands in the report's notices."""
    report = ConfigReport()
    layers = FlowLayers(
        flow=flow,
        connector=connector_config(raw, flow),
        worker=worker_config(raw, flow),
        heartbeat_name=connector_config(raw, flow, "MirrorHeartbeatConnector")["name"].text,
        checkpoint_name=connector_config(raw, flow, "MirrorCheckpointConnector")["name"].text,
        server_keys=BootstrapKeys.of(flow),
    )
    read = read_flow_layers(layers, resolver, report)
    check_flow(read.settings, read.connector, read.worker, report)
    check_profiles(profile_names(raw, flow), read.connector, report)
    group = _group(read.worker)
    check_group_timeouts(group, read.worker, report)
    return ParsedFlow(read.settings, report, group)


def read_flow_layers(
    layers: FlowLayers, resolver: ReferenceResolver, report: ConfigReport
) -> SettingsAndReaders:
    """Read what the layers of a flow say; rules between keys are the caller's."""
    connector = ConfigReader("connector", layers.connector, resolver, report)
    connector.read_all(layers.keys.values())
    worker = ConfigReader("worker", layers.worker, resolver, report)
    worker.read_all(WORKER.values())
    clients = read_clients(
        layers.connector, layers.worker, layers.flow, resolver, report, layers.server_keys
    )
    settings = FlowSettings(
        flow=layers.flow,
        enabled=connector.boolean("enabled"),
        policy=_policy(connector),
        source=_source(connector),
        heartbeat=_heartbeat(layers.heartbeat_name, connector),
        checkpoint=_checkpoint(layers.checkpoint_name, connector),
        internal_topics=read_internal_topics(worker),
        pipeline=PipelineSettings(
            offset_flush_seconds=worker.integer("offset.flush.interval.ms") / 1000,
            epoch_seconds=float(connector.integer("epoch.seconds")),
            task_buffer_bytes=connector.integer("task.buffer.bytes"),
            initial_offsets_group=connector.string("initial.offsets.group"),
        ),
        source_admin=clients.source_admin,
        target_admin=clients.target_admin,
        consumer=clients.consumer,
        producer=clients.producer,
        fetch=clients.fetch,
        produce=clients.produce,
        transactions=_transactions(connector, worker, clients.transaction_timeout_ms),
        incident_policies=_policies(connector),
    )
    return SettingsAndReaders(settings, connector, worker)


def _policy(connector: ConfigReader) -> PolicySettings:
    return PolicySettings(
        replication_policy_class=connector.string("replication.policy.class"),
        separator=connector.string("replication.policy.separator"),
        internal_topic_separator_enabled=connector.boolean(
            "replication.policy.internal.topic.separator.enabled"
        ),
        separator_is_explicit=connector.is_in_file("replication.policy.separator"),
        topic_filter_class=connector.string("topic.filter.class"),
        topics=connector.strings("topics"),
        topics_exclude=connector.strings("topics.exclude"),
        config_property_filter_class=connector.string("config.property.filter.class"),
        config_properties_exclude=connector.strings("config.properties.exclude"),
        config_properties_include=connector.strings("config.properties.include"),
        use_defaults_from=connector.string("use.defaults.from"),
        heartbeats_replication_enabled=connector.boolean("heartbeats.replication.enabled"),
        group_filter_class=connector.string("group.filter.class"),
        groups=connector.strings("groups"),
        groups_exclude=connector.strings("groups.exclude"),
        options=connector.resolve_all(),
    )


def _policies(connector: ConfigReader) -> IncidentPolicies:
    return IncidentPolicies(
        gap=connector.string("gap.policy"),
        source_recreated=connector.string("source.recreated.policy"),
        source_truncated=connector.string("source.truncated.policy"),
        target_recreated=connector.string("target.recreated.policy"),
        target_truncated=connector.string("target.truncated.policy"),
        corrupt_batch=connector.string("corrupt.batch.policy"),
        refused_record=connector.string("refused.record.policy"),
        open_transaction_seconds=connector.integer("open.transaction.warning.ms") / 1000,
    )


def _source(connector: ConfigReader) -> SourceSettings:
    return SourceSettings(
        name=connector.string("name"),
        tasks_max=connector.integer("tasks.max"),
        replication_factor=_factor(connector, "replication.factor"),
        refresh_topics_seconds=_interval(connector, "refresh.topics"),
        offset_syncs_enabled=connector.boolean("emit.offset-syncs.enabled"),
        offset_syncs_location=connector.string("offset-syncs.topic.location"),
        offset_syncs_factor=_factor(connector, "offset-syncs.topic.replication.factor"),
        sync_configs_seconds=_interval(connector, "sync.topic.configs"),
        sync_acls_seconds=_interval(connector, "sync.topic.acls"),
        deletions_grace_seconds=(
            float(connector.integer("sync.topic.deletions.grace.seconds"))
            if connector.boolean("sync.topic.deletions.enabled")
            else None
        ),
        offset_lag_max=connector.integer("offset.lag.max"),
        acls_scope=connector.string("sync.acls.scope"),
        acl_removals=connector.boolean("sync.acls.removals.enabled"),
        topic_creation_enabled=connector.boolean("topic.creation.enabled"),
    )


def _heartbeat(name: str, connector: ConfigReader) -> HeartbeatSettings:
    return HeartbeatSettings(
        name=name,
        interval_seconds=_interval(connector, "emit.heartbeats"),
        factor=_factor(connector, "heartbeats.topic.replication.factor"),
    )


def _checkpoint(name: str, connector: ConfigReader) -> CheckpointSettings:
    return CheckpointSettings(
        name=name,
        enabled=connector.boolean("emit.checkpoints.enabled"),
        factor=_factor(connector, "checkpoints.topic.replication.factor"),
        emit_seconds=_interval(connector, "emit.checkpoints"),
        refresh_groups_seconds=_interval(connector, "refresh.groups"),
        sync_group_offsets_seconds=_interval(connector, "sync.group.offsets"),
    )


def _interval(connector: ConfigReader, what: str) -> float | None:
    """Seconds between two runs; switched off or negative means never, as in MM2."""
    seconds = connector.integer(f"{what}.interval.seconds")
    return float(seconds) if connector.boolean(f"{what}.enabled") and seconds > 0 else None


def _transactions(
    connector: ConfigReader, worker: ConfigReader, timeout_ms: int
) -> TransactionSettings:
    commit_ms = _POLL_COMMIT_MS
    if connector.string("transaction.boundary").lower() == "interval":
        commit_ms = connector.integer("transaction.boundary.interval.ms")
        commit_ms = commit_ms or worker.integer("offset.flush.interval.ms")  # Connect's rule
    return TransactionSettings(
        support=ExactlyOnce(worker.string("exactly.once.source.support").lower()),
        id_prefix=f"{worker.string('group.id')}-{connector.string('name')}-",
        timeout_ms=timeout_ms,
        commit_seconds=commit_ms / 1000,
    )


def _group(worker: ConfigReader) -> GroupSettings:
    return GroupSettings(
        group_id=worker.string("group.id"),
        session_timeout_ms=worker.integer("session.timeout.ms"),
        heartbeat_interval_ms=worker.integer("heartbeat.interval.ms"),
        rebalance_timeout_ms=worker.integer("rebalance.timeout.ms"),
        rebalance_delay_ms=0,
    )


def _factor(reader: ConfigReader, name: str) -> ReplicationFactor:
    key = (CONNECTOR | WORKER)[name]
    return ReplicationFactor(
        key=reader.origin(name).key or name,
        value=reader.optional_integer(name),
        preferred=int(key.mm2_default or 1),
    )


def read_internal_topics(worker: ConfigReader) -> InternalTopics:
    """A worker's three topics."""
    extra: dict[str, dict[str, str]] = {}
    for storage in STORAGES:
        configs = worker.with_prefix(f"{storage}.", without=STORAGE_KEYS)
        if configs:
            extra[worker.string(f"{storage}.topic")] = configs
    wished: dict[str, dict[str, str]] = {}
    if worker.string("exactly.once.source.support").lower() == ExactlyOnce.ENABLED.value:
        # Several positions a second: only closed segments are compacted, and all is read at starts.
        wished[worker.string("offset.storage.topic")] = {"segment.bytes": _SMALL_SEGMENT}
    return InternalTopics(
        offsets=worker.string("offset.storage.topic"),
        offsets_partitions=worker.integer("offset.storage.partitions"),
        offsets_factor=_factor(worker, "offset.storage.replication.factor"),
        status=worker.string("status.storage.topic"),
        status_partitions=worker.integer("status.storage.partitions"),
        status_factor=_factor(worker, "status.storage.replication.factor"),
        configs=worker.string("config.storage.topic"),
        configs_factor=_factor(worker, "config.storage.replication.factor"),
        extra_configs=extra,
        wished_configs=wished,
    )
