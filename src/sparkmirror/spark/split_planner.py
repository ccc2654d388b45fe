# SPDX-License-Identifier: Apache-2.0
"""Pure planning: what a split holds, how many splits a flow gets, and how its tasks copy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from sparkmirror.config.settings import FlowSettings
from sparkmirror.task.messages import PartitionStart, Split, TaskSettings

_LEASE_SECONDS = 5.0
K = TypeVar("K", bound=Hashable)


def plan_splits(starts: Sequence[PartitionStart], most: int) -> tuple[Split, ...]:
    """At most `most` splits; partition number i goes to split i mod n, as MM2 assigns its tasks."""
    count = min(most, len(starts))
    return tuple(Split(index, tuple(starts[index::count])) for index in range(count))


def task_settings(
    settings: FlowSettings,
    offsets_partitions: int,
    *,
    ledger_topic: str,
    dead_letters_topic: str,
    map_topic: str,
    syncs_topic: str,
) -> TaskSettings:
    """What the tasks of a flow need of its settings."""
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
    )


def allocate_slots(wanted: Mapping[K, int], slots: int) -> dict[K, int]:
    """How many splits each flow may have at once when `slots` Spark tasks can run.

    Copy tasks are long: a flow without a slot would wait for ever, so every flow gets one first,
    and the rest goes round until it is used up. One slot stays free for short jobs if it can.
    """
    spare = 1 if slots > len(wanted) else 0
    left = max(slots - spare - len(wanted), 0)
    allotted = dict.fromkeys(wanted, 1)
    while left:
        hungry = [flow for flow in wanted if allotted[flow] < wanted[flow]]
        if not hungry:
            break
        for flow in hungry[:left]:
            allotted[flow] += 1
        left -= min(left, len(hungry))
    return allotted
