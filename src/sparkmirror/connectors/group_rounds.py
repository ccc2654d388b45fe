# SPDX-License-Identifier: Apache-2.0
"""One look at the groups of a flow on both clusters, and what to do about them.

`look` only reads; `emit` and `sync` carry out what it planned. The checkpoint connector does both
every few seconds; a command that only tells how things stand looks once. Belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError
from sparkmirror.formats.checkpoint import Checkpoint
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.closable import Closable
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import Committed
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.checkpoint_log import CheckpointLog
from sparkmirror.offsets.group_positions import (
    GroupPosition,
    GroupRules,
    State,
    locate,
    new_checkpoints,
    plan_sync,
)
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.offsets.sync_log import SyncLog
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.policy.own_topics import offset_map_topic
from sparkmirror.topology.internal_topics import offset_syncs_topic

_UNKNOWN_TOPIC = 3
_UNKNOWN_MEMBER = 25
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """What one look found."""

    positions: list[GroupPosition] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    writes: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # by group


class GroupRounds(Closable):
    """The groups of one flow; a context manager that hangs up at its end."""

    def __init__(self, settings: FlowSettings, policy: FlowPolicy) -> None:
        names, flow = policy.replication, settings.flow
        self._settings = settings
        self._policy = policy
        self._source_client = ClusterClient(settings.source_admin)
        self._target_client = ClusterClient(settings.target_admin)
        self.source_groups = GroupAdmin(settings.source_admin, self._source_client)
        self.target_groups = GroupAdmin(settings.target_admin, self._target_client)
        self._source_admin = ClusterAdmin(settings.source_admin, self._source_client)
        self.map = MapTopic(self._target_client, offset_map_topic(names, flow.source))
        # Of the flow in the other direction: how groups come back to topics of the target's own.
        self._way_back = MapTopic(self._source_client, offset_map_topic(names, flow.target))
        on_source = settings.source.offset_syncs_location == "source"
        self._syncs = SyncLog(
            self._source_client if on_source else self._target_client,
            offset_syncs_topic(settings, names),
        )
        self.checkpoints = CheckpointLog(self._target_client, names.checkpoints_topic(flow.source))
        self._rules = GroupRules(self._replicates, self._remote_name)

    def close(self) -> None:
        """Hang up; a later question connects again."""
        self._source_client.close()
        self._target_client.close()

    def _comes_from_target(self, topic: str) -> bool:
        return self._policy.replication.topic_source(topic) == self._settings.flow.target

    def _replicates(self, topic: str) -> bool:
        """A copy of a topic of the target counts as that topic."""
        wanted = self._policy.topic_filter.should_replicate_topic
        if wanted(topic):
            return True
        return self._comes_from_target(topic) and wanted(self._remote_name(topic))

    def _remote_name(self, topic: str) -> str:
        """MM2's rule: what came from the target has its own name there."""
        names = self._policy.replication
        if self._comes_from_target(topic):
            return names.original_topic(topic)
        return names.format_remote_topic(self._settings.flow.source, topic)

    # --- looking

    def wanted_groups(self) -> list[str]:
        """The source's groups that the file asks for."""
        wanted = self._policy.group_filter.should_replicate_group
        return sorted(group for group in self.source_groups.groups() if wanted(group))

    def look(self, groups: Sequence[str], *, syncs_groups: bool) -> Round:
        """Where groups stand, and what would be written; `refresh` has been called before."""
        answer = self.source_groups.committed(groups)
        failures = {group: str(error) for group, error in answer.failed.items()}
        self.refresh()
        log_starts = self._log_starts(answer.found)
        positions = [
            position
            for group, committed in sorted(answer.found.items())
            for position in locate(group, committed, self._rules, self.translate, log_starts)
        ]
        checkpoints = new_checkpoints(positions, self.checkpoints.last)
        if not syncs_groups:
            return Round(positions, checkpoints, {}, failures)
        placed = sorted({one.group for one in positions if one.is_placed})
        states = self.target_groups.states(placed).found
        idle = [group for group in placed if group not in states or not states[group].is_active]
        there = self.target_groups.committed(idle)
        failures |= {group: str(error) for group, error in there.failed.items()}
        known = [one for one in positions if one.group not in there.failed]
        plan = plan_sync(known, states, there.found)
        rest = [one for one in positions if one.group in there.failed]
        return Round([*plan.positions, *rest], checkpoints, plan.writes, failures)

    def refresh(self) -> None:
        """Read on in the offset maps and the offset syncs; any of them may not be there."""
        for log in (self.map, self._way_back, self._syncs):
            try:
                log.refresh()
            except BrokerError as error:
                if error.code != _UNKNOWN_TOPIC:
                    raise

    def translate(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Exactly by the map; what it does not know, as well as MM2 would."""
        if self._comes_from_target(tp.topic):
            original = TopicPartition(self._remote_name(tp.topic), tp.partition)
            return self._way_back.to_source(original, offset)
        found = self.map.to_target(tp, offset)
        if found is None or found.fit is Fit.BEFORE:
            return self._syncs.to_target(tp, offset) or found
        if found.fit is Fit.NEAR:  # somebody else copied in between: its syncs are nearer
            near = self._syncs.to_target(tp, offset, since=self.map.covered(tp, offset))
            return max(found, near, key=_offset) if near is not None else found
        return found

    @property
    def unreadable(self) -> int:
        """How many records of our own topics are not what they should be."""
        return self.map.unreadable + self._way_back.unreadable + self._syncs.unreadable

    def _log_starts(
        self, committed: Mapping[str, Mapping[TopicPartition, Committed]]
    ) -> dict[TopicPartition, int]:
        """The first offsets of those source partitions where a group is older than the map."""
        wanted = set()
        for offsets in committed.values():
            for tp, one in offsets.items():
                found = self.map.to_target(tp, one.offset)
                if found is not None and found.fit is Fit.BEFORE:
                    wanted.add(tp)
        return self._source_admin.earliest_offsets(sorted(wanted)).found if wanted else {}

    # --- doing

    def emit(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Write checkpoints."""
        if checkpoints:
            self.checkpoints.write(checkpoints)

    def sync(self, found: Round) -> Round:
        """Set the groups' offsets on the target; the round with what became of them."""
        refused = {
            group: error
            for group, error in self.target_groups.commit(found.writes).items()
            if error is not None
        }
        if not refused:
            return found
        return replace(found, positions=[*_with_refusals(found.positions, refused)])


def _offset(translation: Translation) -> int:
    return translation.offset


def _with_refusals(
    positions: Iterable[GroupPosition], refused: Mapping[str, BrokerError]
) -> Iterable[GroupPosition]:
    for one in positions:
        error = refused.get(one.group)
        if error is None or one.state is not State.SYNCED:
            yield one
        elif error.code == _UNKNOWN_MEMBER:
            reason = "the group has just got members on the target; stop them to move it"
            yield replace(one, state=State.ACTIVE, reason=reason)
        else:
            yield replace(one, state=State.REFUSED, reason=str(error))
