# SPDX-License-Identifier: Apache-2.0
"""Forecasts what a flow would still copy; reads both clusters and changes nothing.

Start positions are those of `start_positions`, without storing anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.loop_forecast import LoopForecast
from sparkmirror.connectors.recreated_topics import find_recreated
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.kafka.log_dirs import log_sizes
from sparkmirror.model import TopicPartition
from sparkmirror.quantities import and_more, counted
from sparkmirror.state.incidents import STOP
from sparkmirror.topology.forecast import Forecast, PartitionBacklog, summarize_backlogs


@dataclass(frozen=True, slots=True)
class BacklogForecast:
    """A forecast and notices about it."""

    forecast: Forecast
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BacklogStarts:
    """Start positions; partitions that need manual action are in `waiting`."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    waiting: dict[str, list[TopicPartition]] = field(default_factory=dict)  # by reason


def read_backlog(
    settings: FlowSettings,
    client: ClusterClient,
    mirrored: Sequence[MirroredPartition],
    stored: Mapping[TopicPartition, StoredPosition],
    loops: LoopForecast,
) -> BacklogForecast:
    """Read the amount to copy; `client` is the source's."""
    partitions = [one.source for one in mirrored]
    admin = ClusterAdmin(settings.source_admin, client)
    first = admin.earliest_offsets(partitions)
    end = admin.end_offsets(partitions, settings.fetch.isolation_level)
    in_group = initial_offsets(settings, client)
    starts = starting_positions(
        mirrored, stored, first.found, end.found, settings, in_group=in_group
    )
    failed = first.failed | end.failed
    known = [tp for tp in partitions if tp not in failed and tp in starts.positions]
    behind = [tp for tp in known if starts.positions[tp] < end.found[tp]]
    sizes = log_sizes(client, behind)
    backlogs = [
        PartitionBacklog(
            tp,
            first.found[tp],
            end.found[tp],
            starts.positions[tp],
            sizes.found.get(tp),
            loops.skipped(tp, max(starts.positions[tp], first.found[tp]), end.found[tp]),
        )
        for tp in known
    ]
    notices = [f"{_abbreviated(tps)}: {reason}" for reason, tps in sorted(starts.waiting.items())]
    skipped = [one for one in backlogs if one.skipped]
    if skipped:
        records = counted(sum(one.skipped for one in skipped), "record")
        topics = sorted({one.source.topic for one in skipped})
        notices.append(
            f"topic '{topics[0]}'{and_more(len(topics) - 1)}: {records} that other flows have "
            "copied to the source will be skipped"
        )
    if failed:
        reason = str(failed[min(failed)])
        notices.append(f"{_abbreviated(sorted(failed))}: not in the forecast: {reason}")
    if sizes.error:
        notices.append(f"The number of bytes to copy is unknown: {sizes.error}")
    return BacklogForecast(summarize_backlogs(backlogs), tuple(notices))


def starting_positions(
    mirrored: Sequence[MirroredPartition],
    stored: Mapping[TopicPartition, StoredPosition],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    settings: FlowSettings,
    *,
    in_group: Mapping[TopicPartition, int],
) -> BacklogStarts:
    """Return each partition's start, by the rules of `start_positions`. Pure."""
    reset = settings.fetch.auto_offset_reset
    by_reset = {"earliest": first, "latest": end}.get(reset, {})
    recreated = {
        one.mirrored.source: one.policy
        for one in find_recreated(mirrored, stored, settings.incident_policies)
    }
    grown = _last_mirrored_partition(stored)
    starts = BacklogStarts()
    for one in mirrored:
        tp = one.source
        position = stored.get(tp)
        was_added = tp.partition > grown.get(tp.topic, tp.partition)
        start: int | str | None
        if position is not None:
            start = _resumed(one, position, recreated.get(tp), first)
        elif was_added:
            start = first.get(tp)
        elif tp in in_group:
            start = in_group[tp]
        else:
            none = "no offset is stored and auto.offset.reset is none" if reset == "none" else None
            start = by_reset.get(tp, none)
        if isinstance(start, str):
            starts.waiting.setdefault(start, []).append(tp)
        elif start is not None:
            starts.positions[tp] = start
    return starts


def _resumed(
    one: MirroredPartition,
    stored: StoredPosition,
    policy: str | None,
    first: Mapping[TopicPartition, int],
) -> int | str | None:
    """Return the offset after a stored position, or why not; `policy` if a topic was recreated."""
    if policy is None and stored.source_topic not in (None, one.topic_id):
        return "it was deleted and created again, and source.recreated.policy is stop"
    if policy == STOP:
        return f"{one.remote_topic} was recreated, and target.recreated.policy is stop"
    return first.get(one.source) if policy == "restart" else stored.offset + 1


def _last_mirrored_partition(stored: Mapping[TopicPartition, StoredPosition]) -> dict[str, int]:
    """Return the last partition of each mirrored topic: later ones were added."""
    last: dict[str, int] = {}
    for tp, position in stored.items():
        if position.producer is not None:
            last[tp.topic] = max(tp.partition, last.get(tp.topic, -1))
    return last


def initial_offsets(settings: FlowSettings, client: ClusterClient) -> dict[TopicPartition, int]:
    """Return the offsets of another mirror's group; none if the source does not list the group.

    FindCoordinator would make a new cluster create a topic.
    """
    group = settings.pipeline.initial_offsets_group
    admin = GroupAdmin(settings.source_admin, client)
    if not group or group not in admin.listings([group]).found:
        return {}
    result = admin.committed_offsets([group])
    for error in result.failed.values():
        raise error
    return {tp: one.offset for tp, one in result.found.get(group, {}).items()}


def _abbreviated(tps: Sequence[TopicPartition]) -> str:
    return f"{tps[0]} and {len(tps) - 1} more" if len(tps) > 1 else str(tps[0])
