# SPDX-License-Identifier: Apache-2.0
"""Reads the settings of one flow from the layers of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.config_reader import ConfigReader, SettingsAndReaders
from sparkmirror.config.files.layering import (
    LayeredConfig,
    RawProperties,
    connector_config,
    profile_names,
    worker_config,
)
from sparkmirror.config.files.notices import ConfigReport
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
    MetricsSettings,
    PipelineSettings,
    SourceSettings,
    TransactionSettings,
)
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.model import Flow
from sparkmirror.policy.settings import PolicySettings

# Connect commits after each poll. Here a transaction collects records for this long.
_POLL_COMMIT_MS = 100
_SMALL_SEGMENT = str(4 << 20)


@dataclass(frozen=True, slots=True)
class ParsedFlow:
    """A flow's settings and report; with errors the settings are unusable."""

    settings: FlowSettings
    report: ConfigReport
    group: GroupSettings  # in which processes agree on who runs the flow


@dataclass(frozen=True, slots=True)
class FlowLayers:
    """The texts of a flow's settings, from a mirror's file or a connector's configuration."""

    flow: Flow
    connector: LayeredConfig
    worker: LayeredConfig
    heartbeat_name: str
    checkpoint_name: str
    server_keys: BootstrapKeys
    keys: Mapping[str, ConfigKey] = field(default_factory=lambda: CONNECTOR)


def parse_flow(raw: RawProperties, flow: Flow, resolver: ReferenceResolver) -> ParsedFlow:
    """Read the flow's settings; errors are among the report's notices."""
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
    group = GroupSettings(**read.worker.filled(GroupSettings))
    check_group_timeouts(group, read.worker, report)
    return ParsedFlow(read.settings, report, group)


def read_flow_layers(
    layers: FlowLayers, resolver: ReferenceResolver, report: ConfigReport
) -> SettingsAndReaders:
    """Read the layers of a flow; the caller checks rules between keys."""
    connector = ConfigReader("connector", layers.connector, resolver, report)
    connector.read_all(layers.keys.values())
    worker = ConfigReader("worker", layers.worker, resolver, report)
    worker.read_all(WORKER.values())
    clients = read_clients(
        layers.connector, layers.worker, layers.flow, resolver, report, layers.server_keys
    )
    settings = FlowSettings(
        flow=layers.flow,
        **connector.filled(FlowSettings),
        policy=PolicySettings(**connector.filled(PolicySettings), options=connector.resolve_all()),
        source=SourceSettings(**connector.filled(SourceSettings)),
        heartbeat=HeartbeatSettings(
            name=layers.heartbeat_name, **connector.filled(HeartbeatSettings)
        ),
        checkpoint=CheckpointSettings(
            name=layers.checkpoint_name, **connector.filled(CheckpointSettings)
        ),
        internal_topics=read_internal_topics(worker),
        pipeline=PipelineSettings(
            **worker.filled(PipelineSettings), **connector.filled(PipelineSettings)
        ),
        source_admin=clients.source_admin,
        target_admin=clients.target_admin,
        consumer=clients.consumer,
        producer=clients.producer,
        fetch=clients.fetch,
        produce=clients.produce,
        transactions=_transactions(connector, worker, clients.producer_reader),
        incident_policies=IncidentPolicies(**connector.filled(IncidentPolicies)),
    )
    return SettingsAndReaders(settings, connector, worker)


def _transactions(
    connector: ConfigReader, worker: ConfigReader, producer: ConfigReader
) -> TransactionSettings:
    commit_ms = _POLL_COMMIT_MS
    if connector.string("transaction.boundary").lower() == "interval":
        commit_ms = connector.integer("transaction.boundary.interval.ms")
        commit_ms = commit_ms or worker.integer("offset.flush.interval.ms")  # Connect's rule
    return TransactionSettings(
        **worker.filled(TransactionSettings),
        **producer.filled(TransactionSettings),
        id_prefix=f"{worker.string('group.id')}-{connector.string('name')}-",
        commit_seconds=commit_ms / 1000,
    )


def read_internal_topics(worker: ConfigReader) -> InternalTopics:
    extra: dict[str, dict[str, str]] = {}
    for storage in STORAGES:
        configs = worker.with_prefix(f"{storage}.", without=STORAGE_KEYS)
        if configs:
            extra[worker.string(f"{storage}.topic")] = configs
    wished: dict[str, dict[str, str]] = {}
    if worker.string("exactly.once.source.support").lower() == ExactlyOnce.ENABLED.value:
        # Several positions per second: only closed segments are compacted, and a start reads all.
        wished[worker.string("offset.storage.topic")] = {"segment.bytes": _SMALL_SEGMENT}
    return InternalTopics(
        **worker.filled(InternalTopics), extra_configs=extra, wished_configs=wished
    )


def read_metrics(reader: ConfigReader) -> MetricsSettings:
    """Where and how metrics are served."""
    return MetricsSettings(**reader.filled(MetricsSettings))
