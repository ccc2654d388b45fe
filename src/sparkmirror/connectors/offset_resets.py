# SPDX-License-Identifier: Apache-2.0
"""Carries out requested offset resets, while no task of the flow writes.

In this order, so that a crash in between is harmless: the request stays until the end, and doing
all of it again gives the same result.

    1  delete the records of the remote partition, if asked for
    2  the offset map: after a recopy or in a recreated topic it starts again, with the old
       checkpoints and offset syncs; after going back, groups keep their translation to the earlier
       copies until the new copies have reached them
    3  the ledger
    4  the position, without a producer: a resume point is stored before the first record
    5  the request is deleted
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.offset_reset_plan import (
    PlannedReset,
    offset_store,
    planned_reset,
    read_bounds,
)
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.connectors.target_log_ends import TargetLogEnds
from sparkmirror.errors import BrokerError
from sparkmirror.formats.map_chunk import CopiedBefore, MapChunk
from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.checkpoint_log import CheckpointLog
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import offset_map_topic
from sparkmirror.quantities import counted
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.state.offset_resets import OffsetReset
from sparkmirror.topology.internal_topics import offset_syncs_topic
from sparkmirror.wire import error_codes

_UNAVAILABLE = frozenset({3, 29})  # unknown topic, not authorized
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A reset whose partitions were read."""

    plan: PlannedReset
    stored: StoredPosition  # the new position
    starts_map_again: bool
    is_new_target: bool  # earlier target offsets are not valid


class OffsetResets:
    """The resets of one flow. Not thread-safe."""

    def __init__(
        self, settings: FlowSettings, record_incidents: Callable[[Sequence[Incident]], None]
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._names = load_policy(settings.policy, settings.flow).replication
        self._store = offset_store(settings)
        self._record_incidents = record_incidents

    def apply(
        self,
        resets: Mapping[TopicPartition, OffsetReset],
        mirrored: Iterable[MirroredPartition],
        positions: Mapping[TopicPartition, StoredPosition],
    ) -> dict[TopicPartition, StoredPosition | None]:
        """Carry out the resets of mirrored partitions; ClusterError: nothing is lost, retry.

        Returns the new positions; None for a refused reset, whose request says why.
        """
        wanted = [one for one in mirrored if one.source in resets and not resets[one.source].error]
        if not wanted:
            return {}
        bounds = read_bounds(self._settings, wanted)
        may_lag = not self._settings.transactions.is_enabled  # else records and positions agree
        plans = [
            planned_reset(one, bounds[tp], positions.get(tp), resets[tp], may_lag=may_lag)
            for one in wanted
            for tp in (one.source,)
        ]
        with closing(ClusterClient(self._settings.target_admin)) as client:
            admin = ClusterAdmin(client.connection, client)
            refused = {one.tp: one.problem for one in plans if one.problem}
            refused |= self._delete_records(admin, [one for one in plans if one.delete_records])
            accepted = [one for one in plans if one.tp not in refused]
            offsets = self._offset_map(client)
            by_source = {one.source: one for one in wanted}
            ready = [
                self._ready(one, by_source[one.tp], offsets, downstream)
                for one, downstream in self._with_downstream(client, accepted)
            ]
            self._update_map(client, offsets, ready)
        self._record_incidents([self._incident(one.plan) for one in ready if _has_effect(one.plan)])
        moved = {one.plan.tp: one.stored for one in ready}
        if moved:
            self._store.write(moved)
        self._store.write_resets(
            dict.fromkeys(moved)
            | {tp: replace(resets[tp], error=reason) for tp, reason in refused.items()}
        )
        for one in ready:
            _log.info(f"{self._flow}: offset reset: {one.plan}")
        for tp, reason in refused.items():
            _log.warning(f"{self._flow}: the offset reset of {tp} is refused: {reason}")
        return {**moved, **dict.fromkeys(refused)}

    def _delete_records(
        self, admin: ClusterAdmin, plans: Sequence[PlannedReset]
    ) -> dict[TopicPartition, str]:
        """Delete what is on the target; returns why that failed."""
        ends = {one.target: one.target_end for one in plans if one.deleted}
        failed = admin.delete_records(ends) if ends else {}
        for error in failed.values():
            if error.retriable:
                raise error
        return {one.tp: str(failed[one.target]) for one in plans if one.target in failed}

    def _with_downstream(
        self, client: ClusterClient, plans: Sequence[PlannedReset]
    ) -> list[tuple[PlannedReset, int | None]]:
        """Add the target offset before the first new record.

        In transactions it is that of a committed record, because the next start checks it.
        """
        if not self._settings.transactions.is_enabled:
            return [(one, one.target_end - 1) for one in plans]
        ends = TargetLogEnds(client).committed_ends(one.target for one in plans)
        return [(one, None if (end := ends[one.target]) is None else end - 1) for one in plans]

    def _ready(
        self,
        plan: PlannedReset,
        one: MirroredPartition,
        offsets: MapTopic | None,
        downstream: int | None,
    ) -> _Ready:
        stored = StoredPosition(
            plan.next_offset - 1,
            downstream if downstream is None or downstream >= 0 else None,
            source_topic=one.topic_id,
            target_topic=one.target_topic_id,
        )
        is_known = offsets is not None and plan.tp in offsets.maps and len(offsets.maps[plan.tp])
        mapped_end = offsets.bounds(plan.tp)[3] if offsets is not None and is_known else 0
        is_new_target = plan.recopy or plan.is_other_target or mapped_end > plan.target_end
        return _Ready(plan, stored, is_new_target or plan.is_other_source, is_new_target)

    # --- what depends on target offsets

    def _offset_map(self, client: ClusterClient) -> MapTopic | None:
        offsets = MapTopic(client, offset_map_topic(self._names, self._flow.source))
        try:
            offsets.refresh()
        except BrokerError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return None  # nothing was mirrored
        return offsets

    def _update_map(
        self, client: ClusterClient, offsets: MapTopic | None, ready: Sequence[_Ready]
    ) -> None:
        for one in ready:
            plan, tp = one.plan, one.plan.tp
            if offsets is None:
                continue
            if one.starts_map_again:
                downstream = one.stored.downstream
                target = plan.target_end if downstream is None else downstream + 1
                offsets.replace_map(
                    tp, MapChunk(plan.next_offset, target, plan.next_offset, target, ())
                )
            elif plan.position is not None and plan.next_offset < plan.position:
                offsets.set_copied_before(tp, CopiedBefore(plan.position, plan.target_end))
        replaced = [one for one in ready if one.is_new_target]
        if replaced:
            self._delete_checkpoints(client, {one.plan.target for one in replaced})
            self._write_syncs(replaced)

    def _delete_checkpoints(self, client: ClusterClient, targets: set[TopicPartition]) -> None:
        """Delete the checkpoints in partitions whose earlier offsets are not valid."""
        topic = self._names.checkpoints_topic(self._flow.source)
        checkpoints = CheckpointLog(client, topic)
        try:
            checkpoints.refresh()
        except BrokerError as error:
            if error.code not in _UNAVAILABLE:
                raise
            return
        keys = [one.key() for one in checkpoints.last.values() if one.topic_partition in targets]
        if keys:
            with TopicLog(client.connection, topic, client=client) as log:
                log.append({0: [(key, None) for key in keys]})

    def _write_syncs(self, replaced: Sequence[_Ready]) -> None:
        """Write an MM2 offset sync that makes all earlier ones of a partition unusable."""
        source = self._settings.source
        if not source.offset_syncs_enabled:
            return
        on_source = source.offset_syncs_location == "source"
        connection = self._settings.source_admin if on_source else self._settings.target_admin
        syncs = [
            OffsetSync(one.plan.tp, one.plan.next_offset - 1, one.plan.target_end - 1)
            for one in replaced
        ]
        try:
            with TopicLog(connection, offset_syncs_topic(self._settings, self._names)) as log:
                log.append({0: [(one.key(), one.value()) for one in syncs]})
        except BrokerError as error:
            if error.code not in _UNAVAILABLE:
                raise

    def _incident(self, plan: PlannedReset) -> Incident:
        first, last = plan.next_offset, (plan.position or plan.next_offset) - 1
        policy, cause = "reset", f"copied again: {plan.target} has these records twice"
        if plan.recopy:
            policy = "recopy"
            cause = f"copied again from the beginning into {plan.target}"
            cause += f"; {counted(plan.deleted, 'record')} deleted there" if plan.deleted else ""
        elif plan.missing:
            first, last = plan.next_offset - plan.missing, plan.next_offset - 1
            cause = "left out"
        return Incident(
            IncidentKind.OFFSETS_RESET,
            *plan.tp,
            first,
            max(first, last),
            plan.missing or plan.twice if not plan.recopy else max(0, last + 1 - first),
            cause,
            int(time.time() * 1000),
            policy,
        )


def _has_effect(plan: PlannedReset) -> bool:
    """Whether clusters differ afterwards; not if a reset is repeated after a crash."""
    return plan.position != plan.next_offset and bool(plan.missing or plan.twice or plan.recopy)
