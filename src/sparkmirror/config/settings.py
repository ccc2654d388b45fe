# SPDX-License-Identifier: Apache-2.0
"""The typed settings that the rest of the package sees.

Everything here is a frozen value made by `config/flows/flow_settings.py` from the property file.
No other package reads a property name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.model import Flow
from sparkmirror.policy.settings import PolicySettings, ReplicationPolicySettings
from sparkmirror.wire.settings import ConnectionSettings


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How a task reads the source (the layered `consumer.` keys)."""

    isolation_level: str = "read_committed"  # or read_uncommitted
    auto_offset_reset: str = "earliest"  # or latest, none
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = -1
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """How a task writes the target (the worker's `producer.` keys and `producer.override.`)."""

    acks: int = -1  # -1 (all) or 1
    request_timeout_ms: int = 30_000
    max_request_bytes: int = 8_388_608
    max_in_flight: int = 5  # the broker remembers the last five record batches of a producer
    compression: str | None = None  # a codec's name; None: as on the source
    enforces_max_request_bytes: bool = False  # whether even a single record batch may not be larger


class ExactlyOnce(Enum):
    """Whether records and positions are written together in transactions."""

    DISABLED = "disabled"
    PREPARING = "preparing"  # as in Connect: said, and nothing else
    ENABLED = "enabled"


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How the tasks of an exactly-once flow use transactions."""

    support: ExactlyOnce = ExactlyOnce.DISABLED
    id_prefix: str = ""  # a task's number follows
    timeout_ms: int = 60_000
    commit_seconds: float = 0.1  # from the first record of a transaction to its commit

    @property
    def is_enabled(self) -> bool:
        """Whether tasks write in transactions."""
        return self.support is ExactlyOnce.ENABLED


@dataclass(frozen=True, slots=True)
class MirrorClientSettings:
    """All that a `MirrorClient` needs; the consumer reads checkpoints, the admin asks the rest."""

    naming: ReplicationPolicySettings
    admin: ConnectionSettings
    consumer: ConnectionSettings


@dataclass(frozen=True, slots=True)
class ReplicationFactor:
    """A replication factor with its key; None means not set: use what the cluster can hold."""

    key: str
    value: int | None
    preferred: int  # MM2's default, used when the cluster can hold it and value is None


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """The Connect worker's three topics on the target, by name, partitions and factor."""

    offsets: str
    offsets_partitions: int
    offsets_factor: ReplicationFactor
    status: str
    status_partitions: int
    status_factor: ReplicationFactor
    configs: str
    configs_factor: ReplicationFactor
    extra_configs: Mapping[str, Mapping[str, str]]  # topic name -> topic configs beside compact
    wished_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # not insisted on


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """MirrorSourceConnector's own keys."""

    name: str
    tasks_max: int  # the largest number of splits
    replication_factor: ReplicationFactor
    refresh_topics_seconds: float | None  # None: never
    offset_syncs_enabled: bool
    offset_syncs_location: str  # source or target
    offset_syncs_factor: ReplicationFactor
    sync_configs_seconds: float | None = None  # None: never
    sync_acls_seconds: float | None = None
    deletions_grace_seconds: float | None = None  # None: remote topics are never deleted
    offset_lag_max: int = 100
    topic_creation_enabled: bool = True
    acls_scope: str = "topics"  # or all
    acl_removals: bool = False

    @property
    def records_created_acls(self) -> bool:
        """Whether the ACLs that the flow creates are written down on the target."""
        is_more_than_mm2s = self.acls_scope != "topics" or self.acl_removals
        return self.sync_acls_seconds is not None and is_more_than_mm2s


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """MirrorHeartbeatConnector's own keys."""

    name: str
    interval_seconds: float | None  # None: no heartbeats
    factor: ReplicationFactor


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """MirrorCheckpointConnector's own keys."""

    name: str
    enabled: bool  # emit.checkpoints.enabled
    factor: ReplicationFactor
    emit_seconds: float | None = None  # None: never
    refresh_groups_seconds: float | None = None
    sync_group_offsets_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Sparkmirror's own keys: how a flow's tasks behave."""

    offset_flush_seconds: float  # B.offset.flush.interval.ms, ours by default
    epoch_seconds: float
    task_buffer_bytes: int  # a task never holds more payload than this
    initial_offsets_group: str = ""  # whose positions new partitions begin at; empty: nobody's


@dataclass(frozen=True, slots=True)
class IncidentPolicies:
    """What to do about each thing that a flow cannot mend; see `config/keys/connector_keys.py`."""

    gap: str = "continue"
    source_recreated: str = "stop"
    source_truncated: str = "continue"
    target_recreated: str = "continue"
    target_truncated: str = "recopy"
    corrupt_batch: str = "stop"
    refused_record: str = "dead-letter"
    open_transaction_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where the figures are served for Prometheus."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """All that one pair A->B needs to run."""

    flow: Flow
    enabled: bool  # false: this pair only emits heartbeats
    policy: PolicySettings
    source: SourceSettings
    heartbeat: HeartbeatSettings
    checkpoint: CheckpointSettings
    internal_topics: InternalTopics
    pipeline: PipelineSettings
    source_admin: ConnectionSettings
    target_admin: ConnectionSettings
    consumer: ConnectionSettings
    producer: ConnectionSettings
    fetch: FetchSettings
    produce: ProduceSettings
    transactions: TransactionSettings = TransactionSettings()
    incident_policies: IncidentPolicies = IncidentPolicies()
    worker_cluster: ConnectionSettings | None = (
        None  # where the internal topics are; None: on the target
    )

    @property
    def state_cluster(self) -> ConnectionSettings:
        """The cluster that holds positions and statuses."""
        return self.worker_cluster or self.target_admin
