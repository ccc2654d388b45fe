# SPDX-License-Identifier: Apache-2.0
"""The typed settings of a flow, which `config/flows/flow_settings.py` reads from the file.

No package outside `config` reads a property by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.model import Flow
from sparkmirror.policy.settings import PolicySettings, ReplicationPolicySettings
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings


class ExactlyOnce(Enum):
    """Whether records and positions are written together in transactions."""

    DISABLED = "disabled"
    PREPARING = "preparing"  # no effect yet, as in Connect
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
        return self.support is ExactlyOnce.ENABLED


@dataclass(frozen=True, slots=True)
class MirrorClientSettings:
    """Settings of a `MirrorClient`: the consumer reads checkpoints, the admin all else."""

    naming: ReplicationPolicySettings
    admin: ConnectionSettings
    consumer: ConnectionSettings


@dataclass(frozen=True, slots=True)
class ReplicationFactor:
    """A replication factor and its key; None: not set, so the number of brokers may limit it."""

    key: str
    value: int | None
    preferred: int  # MM2's default, used if value is None and the cluster has enough brokers


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
    extra_configs: Mapping[str, Mapping[str, str]]  # topic name -> configs in addition to compact
    wished_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # optional ones


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
    loop_policy: str = "skip"  # or ignore: what other flows copied to the source is copied, too
    loop_java_policy: str = "refuse"  # or copy: records of Java MM2, which nothing marks

    @property
    def skips_loops(self) -> bool:
        """Whether records that another flow copied to the source may be skipped."""
        return self.loop_policy == "skip"

    @property
    def records_created_acls(self) -> bool:
        """Whether a topic on the target lists the ACLs that the flow creates."""
        exceeds_mm2 = self.acls_scope != "topics" or self.acl_removals
        return self.sync_acls_seconds is not None and exceeds_mm2


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
    initial_offsets_group: str = ""  # new partitions start at its positions; empty: no group


@dataclass(frozen=True, slots=True)
class IncidentPolicies:
    """The reaction to each incident; see `config/keys/connector_keys.py`."""

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
    """Where metrics are served for Prometheus besides the REST API, and how many partitions."""

    host: str
    port: int | None  # None: only by the REST API
    max_partitions: int


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """The settings of one flow A->B."""

    flow: Flow
    enabled: bool  # false: the flow only emits heartbeats
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
    worker_cluster: ConnectionSettings | None = None  # has the internal topics; None: the target

    @property
    def state_cluster(self) -> ConnectionSettings:
        """The cluster that holds positions and statuses."""
        return self.worker_cluster or self.target_admin


class LogFormat(Enum):
    """The form of a log line."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What `run` and `worker` log beside what the level decides, and where."""

    progress_seconds: int = 60  # between two lines with the progress of a flow
    format: LogFormat = LogFormat.TEXT
    file: str = ""  # empty: standard error only
    max_bytes: int = 10 << 20
    backups: int = 9  # rotated files that are kept beside the current one
