# SPDX-License-Identifier: Apache-2.0
"""Plans the splits of a flow, and its task settings. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.config.settings import FlowSettings
from sparkmirror.task.messages import PartitionStart, Split, TaskSettings

_LEASE_SECONDS = 5.0


def plan_splits(starts: Sequence[PartitionStart], max_splits: int) -> tuple[Split, ...]:
    """Plan at most `max_splits` splits; partition i goes to split i mod n, as in MM2's tasks."""
    count = min(max_splits, len(starts))
    return tuple(Split(index, tuple(starts[index::count])) for index in range(count))


def task_settings(
    settings: FlowSettings,
    offsets_partitions: int,
    *,
    ledger_topic: str,
    dead_letters_topic: str,
    map_topic: str,
    syncs_topic: str,
    source_cluster_id: str = "",
    target_cluster_id: str = "",
    registry_topic: str = "",
) -> TaskSettings:
    """Return the settings that a flow's tasks need."""
    return TaskSettings(
        flow=str(settings.flow),
        connector=settings.source.name,
        source_alias=settings.flow.source,
        consumer=settings.consumer,
        producer=settings.producer,
        fetch=settings.fetch,
        produce=settings.produce,
        offsets_topic=settings.internal_topics.offsets,
        offsets_partitions=offsets_partitions,
        flush_seconds=settings.pipeline.offset_flush_seconds,
        buffer_bytes=settings.pipeline.task_buffer_bytes,
        epoch_seconds=settings.pipeline.epoch_seconds,
        lease_seconds=_LEASE_SECONDS,
        commit_seconds=settings.transactions.commit_seconds,
        transaction_timeout_ms=settings.transactions.timeout_ms,
        policies=settings.incident_policies,
        ledger_topic=ledger_topic,
        map_topic=map_topic,
        syncs_topic=syncs_topic,
        syncs_on_source=settings.source.offset_syncs_location == "source",
        offset_lag_max=settings.source.offset_lag_max,
        dead_letters_topic=dead_letters_topic,
        offsets_cluster=settings.worker_cluster,
        source_cluster_id=source_cluster_id,
        target_cluster_id=target_cluster_id,
        registry_topic=registry_topic,
    )
