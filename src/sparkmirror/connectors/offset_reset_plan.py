# SPDX-License-Identifier: Apache-2.0
"""Plans an offset reset: what it would change, in numbers. Reads both clusters, writes nothing.

`reset` continues at another source offset; the records on the target stay. `recopy` copies from the
source's first record into a remote partition that is empty, or is emptied first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import NamedTuple

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.known_flows import other_records
from sparkmirror.connectors.source_topics import MirroredPartition, topic_rules
from sparkmirror.errors import ArgumentError, BrokerError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import PartialResults
from sparkmirror.model import TopicPartition
from sparkmirror.policy.loading import load_policy
from sparkmirror.quantities import counted
from sparkmirror.state.offset_resets import OffsetReset
from sparkmirror.state.offset_store import OffsetStore, StoredPositions
from sparkmirror.wire import error_codes

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class ResetWish:
    """What a user asks for."""

    topic: str
    partitions: tuple[int, ...] = ()  # none: all
    start: str = EARLIEST  # or latest, an offset, or a time in ISO 8601
    recopy: bool = False
    delete_records: bool = False


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """The reset of one source partition."""

    tp: TopicPartition
    target: TopicPartition
    next_offset: int  # to copy after the reset
    position: int | None  # to copy without it; None: nothing is stored
    log_start: int
    log_end: int
    target_start: int
    target_end: int
    is_other_source: bool = False  # the position belongs to a deleted source topic
    is_other_target: bool = False
    recopy: bool = False
    delete_records: bool = False
    others: str = ""  # what else the remote topic has, which the flow would not copy again

    @property
    def deleted(self) -> int:
        """How many offsets are deleted on the target."""
        return self.target_end - self.target_start if self.delete_records else 0

    @property
    def twice(self) -> int:
        """At most so many records will be on the target twice."""
        if self.position is None or self.is_other_source or self.recopy:
            return 0
        again = self.position - max(self.next_offset, self.log_start)
        return max(0, min(again, self.target_end - self.target_start))

    @property
    def missing(self) -> int:
        """At most so many records of the source will not be copied."""
        before = None if self.is_other_source else self.position
        first = self.log_start if before is None else max(before, self.log_start)
        return max(0, self.next_offset - first)

    @property
    def problem(self) -> str:
        """Why it cannot be done; empty if it can."""
        if self.recopy and not self.delete_records and self.target_end > self.target_start:
            return not_empty(self.target, self.target_end - self.target_start)
        if self.deleted and self.others:
            return (
                f"{self.target} also has {self.others}, which this flow does not copy: "
                "--delete-target-records would lose them. `offsets reset --to earliest` keeps "
                "them; or delete the records with another tool first"
            )
        return ""

    def __str__(self) -> str:
        now = "not copied yet" if self.position is None else f"at offset {self.position}"
        effects = [
            f"{counted(self.deleted, 'record')} on the target deleted" if self.deleted else "",
            f"up to {counted(self.twice, 'record')} twice" if self.twice else "",
            f"up to {counted(self.missing, 'record')} missing" if self.missing else "",
        ]
        found = ", ".join(one for one in effects if one) or "nothing twice, nothing missing"
        return f"{self.tp}: {now}, continues at {self.next_offset}: {found}"


def planned_reset_json(one: PlannedReset) -> dict[str, str | int | None]:
    return {
        "topic": one.tp.topic,
        "partition": one.tp.partition,
        "targetTopic": one.target.topic,
        "position": one.position,
        "nextOffset": one.next_offset,
        "deletedRecords": one.deleted,
        "recordsTwice": one.twice,
        "recordsMissing": one.missing,
        "problem": one.problem,
    }


def pending_reset_json(tp: TopicPartition, one: OffsetReset) -> dict[str, str | int | bool]:
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "nextOffset": one.next_offset,
        "requestedAt": datetime.fromtimestamp(one.time_ms / 1000, UTC).isoformat(),
        "recopy": one.recopy,
        "error": one.error,
    }


def not_empty(target: TopicPartition, records: int) -> str:
    """Why a partition cannot be copied again."""
    return (
        f"{target} has {counted(records, 'record')}: delete and create the topic, or use "
        "--delete-target-records; `offsets reset --to earliest` copies after them"
    )


def offset_store(settings: FlowSettings) -> OffsetStore:
    """Return the store of a flow's positions."""
    return OffsetStore(
        settings.state_cluster,
        settings.internal_topics.offsets,
        connector=settings.source.name,
        source_alias=settings.flow.source,
    )


def read_positions(settings: FlowSettings) -> StoredPositions:
    """Return a flow's positions and requested resets; ArgumentError if it has never run."""
    try:
        return offset_store(settings).read()
    except BrokerError as error:
        if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise ArgumentError(
            f"{settings.flow} has not run yet: topic '{settings.internal_topics.offsets}' does "
            f"not exist on '{settings.state_cluster.alias}'."
        ) from error


def mirrored_partitions(settings: FlowSettings, topics: Collection[str]) -> list[MirroredPartition]:
    """Return the partitions of some topics that exist on both clusters."""
    rules = topic_rules(load_policy(settings.policy, settings.flow), settings.flow)
    with ClusterAdmin(settings.source_admin) as source, ClusterAdmin(settings.target_admin) as to:
        on_source = source.topics(sorted(topics)).found
        names = {name: rules.remote_name(name) for name in on_source if rules.replicates(name)}
        on_target = to.topics(sorted(names.values())).found
    found: list[MirroredPartition] = []
    for name, remote in names.items():
        if remote not in on_target:
            continue
        source_topic, target_topic = on_source[name], on_target[remote]
        source_id, target_id = (
            str(one.topic_id) if one.topic_id else None for one in (source_topic, target_topic)
        )
        found += [
            MirroredPartition(TopicPartition(name, index), remote, source_id, target_id)
            for index in range(min(source_topic.partitions, target_topic.partitions))
        ]
    return found


def plan_reset(settings: FlowSettings, wish: ResetWish) -> list[PlannedReset]:
    """Plan a reset. ArgumentError: it cannot be done; ClusterError: a cluster cannot be read."""
    stored = read_positions(settings).positions
    mirrored = _selected(settings, wish, stored)
    bounds = read_bounds(settings, mirrored)
    next_offsets = _next_offsets(settings, wish, bounds)
    topics = {one.source.topic: one.remote_topic for one in mirrored}
    others = other_records(settings, topics) if wish.delete_records else {}
    return [
        replace(
            planned_reset(
                one,
                bounds[one.source],
                stored.get(one.source),
                OffsetReset(next_offsets[one.source], 0, wish.recopy, wish.delete_records),
            ),
            others=others.get(one.source.topic, ""),
        )
        for one in mirrored
    ]


class LogBounds(NamedTuple):
    """Where the logs of a source partition and of its remote partition start and end."""

    log_start: int
    log_end: int
    target_start: int
    target_end: int


def read_bounds(
    settings: FlowSettings, mirrored: Iterable[MirroredPartition]
) -> dict[TopicPartition, LogBounds]:
    """Read the bounds of partitions, by source partition."""
    targets = {
        one.source: TopicPartition(one.remote_topic, one.source.partition) for one in mirrored
    }
    with ClusterAdmin(settings.source_admin) as source:
        starts = _all(source.earliest_offsets(targets))
        ends = _all(source.end_offsets(targets, settings.fetch.isolation_level))
    with ClusterAdmin(settings.target_admin) as target:
        target_starts = _all(target.earliest_offsets(targets.values()))
        target_ends = _all(target.end_offsets(targets.values(), "read_uncommitted"))
    return {
        tp: LogBounds(starts[tp], ends[tp], target_starts[remote], target_ends[remote])
        for tp, remote in targets.items()
    }


def planned_reset(
    one: MirroredPartition,
    bounds: LogBounds,
    stored: StoredPosition | None,
    reset: OffsetReset,
    *,
    may_lag: bool = True,
) -> PlannedReset:
    """Compare a reset with the stored position of its partition.

    `may_lag`: records may have been copied since the position was stored.
    """
    is_other_source = is_other(stored.source_topic if stored else None, one.topic_id)
    is_other_target = is_other(stored.target_topic if stored else None, one.target_topic_id)
    position = None if stored is None else stored.offset + 1
    is_same = not is_other_source and not is_other_target
    if may_lag and is_same and stored is not None and stored.downstream is not None:
        # Markers count, too.
        position = stored.offset + 1 + max(0, bounds.target_end - stored.downstream - 1)
        position = max(stored.offset + 1, min(position, bounds.log_end))
    return PlannedReset(
        one.source,
        TopicPartition(one.remote_topic, one.source.partition),
        reset.next_offset,
        position,
        bounds.log_start,
        bounds.log_end,
        bounds.target_start,
        bounds.target_end,
        is_other_source,
        is_other_target,
        reset.recopy,
        reset.delete_records,
    )


def is_other(stored: str | None, now: str | None) -> bool:
    """Whether a topic was deleted and created again since its id was stored."""
    return stored is not None and now is not None and stored != now


def _selected(
    settings: FlowSettings, wish: ResetWish, stored: Mapping[TopicPartition, StoredPosition]
) -> list[MirroredPartition]:
    found = mirrored_partitions(settings, [wish.topic])
    if not found:
        known = sorted({tp.topic for tp in stored})
        near = get_close_matches(wish.topic, known, n=1)
        meant = f" Did you mean '{near[0]}'?" if near else ""
        raise ArgumentError(
            f"{settings.flow} does not mirror topic '{wish.topic}', or it does not exist on both "
            f"clusters.{meant}"
        )
    unknown = sorted({*wish.partitions} - {one.source.partition for one in found})
    if unknown:
        raise ArgumentError(
            f"Topic '{wish.topic}' has {counted(len(found), 'partition')}; there is no "
            f"partition {', '.join(map(str, unknown))}."
        )
    return [one for one in found if not wish.partitions or one.source.partition in wish.partitions]


def _next_offsets(
    settings: FlowSettings, wish: ResetWish, bounds: Mapping[TopicPartition, LogBounds]
) -> Mapping[TopicPartition, int]:
    if wish.start == EARLIEST:
        return {tp: one.log_start for tp, one in bounds.items()}
    if wish.start == LATEST:
        return {tp: one.log_end for tp, one in bounds.items()}
    try:
        offset = int(wish.start)
    except ValueError:
        time_ms = parse_time(wish.start)
        with ClusterAdmin(settings.source_admin) as source:
            found = _all(source.offsets_at(bounds, time_ms))
        return {tp: bounds[tp].log_end if at < 0 else at for tp, at in found.items()}
    for tp, one in bounds.items():
        if not one.log_start <= offset <= one.log_end:
            raise ArgumentError(
                f"Offset {offset} is not in the log of {tp}, which has the offsets "
                f"{one.log_start} to {one.log_end}."
            )
    return dict.fromkeys(bounds, offset)


def parse_time(text: str) -> int:
    """Return milliseconds since 1970; a time without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentError(
            f"Invalid start '{text}': use earliest, latest, an offset, or a time such as "
            "2026-01-31T12:00:00Z."
        ) from None
    moment = found if found.tzinfo else found.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))


def _all(result: PartialResults[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    for error in result.failed.values():
        raise error
    return result.found


def request_resets(settings: FlowSettings, plan: Sequence[PlannedReset]) -> None:
    """Store the requests; the source connector carries them out when it starts."""
    now = round(datetime.now(UTC).timestamp() * 1000)
    offset_store(settings).write_resets(
        {one.tp: OffsetReset(one.next_offset, now, one.recopy, one.delete_records) for one in plan}
    )
