# SPDX-License-Identifier: Apache-2.0
"""One look at the groups of a flow on both clusters, and what to do about them.

`look` only reads; `emit` and `sync` carry out what it planned. The checkpoint connector does both
every few seconds; a command that only tells how things stand looks once. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError
from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.kafka.descriptions import CommittedOffset
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.checkpoint_log import CheckpointLog
from sparkmirror.offsets.group_positions import (
    GroupPosition,
    GroupPositionState,
    GroupRules,
    new_checkpoints,
    plan_commits,
    translate_group,
    with_log_start,
)
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.offsets.offset_sync_log import OffsetSyncLog, more_conservative
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.policy.sparkmirror_topics import offset_map_topic
from sparkmirror.topology.internal_topics import offset_syncs_topic

_OUT_OF_REACH = frozenset({3, 29})  # not there, not for us
_UNKNOWN_MEMBER = 25


@dataclass(frozen=True, slots=True)
class GroupSyncPlan:
    """What one look found."""

    positions: list[GroupPosition] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    writes: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # by group
    # What the groups that may be moved have on the target now.
    on_target: Mapping[str, Mapping[TopicPartition, CommittedOffset]] = field(default_factory=dict)


class GroupSync(Closable):
    """The groups of one flow; a context manager that hangs up at its end."""

    def __init__(self, settings: FlowSettings, policy: FlowPolicy) -> None:
        names, flow = policy.replication, settings.flow
        self._settings = settings
        self._policy = policy
        self._source_client = ClusterClient(settings.source_admin)
        self._target_client = ClusterClient(settings.target_admin)
        self.source_groups = GroupAdmin(settings.source_admin, self._source_client)
        self.target_groups = GroupAdmin(settings.target_admin, self._target_client)
        self.source_admin = ClusterAdmin(settings.source_admin, self._source_client)
        self.map = MapTopic(self._target_client, offset_map_topic(names, flow.source))
        # Of the flow in the other direction: how groups come back to topics of the target's own.
        self._reverse_map = MapTopic(self._source_client, offset_map_topic(names, flow.target))
        on_source = settings.source.offset_syncs_location == "source"
        self._syncs = OffsetSyncLog(
            self._source_client if on_source else self._target_client,
            offset_syncs_topic(settings, names),
        )
        self.checkpoints = CheckpointLog(self._target_client, names.checkpoints_topic(flow.source))
        self._last_there: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
        self._complaints: list[str] = []  # what could not be read in the last round
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

    def plan(
        self, groups: Sequence[str], *, syncs_groups: bool, only_listed: bool = False
    ) -> GroupSyncPlan:
        """Where groups stand, and what would be written.

        With `only_listed` the target is asked about groups that it lists, and others have nothing
        there: to ask for the coordinator of a group makes a new cluster create its offsets topic.
        """
        answer = self.source_groups.committed_offsets(groups)
        failures = {group: str(error) for group, error in answer.failed.items()}
        self.refresh()
        located = [
            position
            for group, committed in sorted(answer.found.items())
            for position in translate_group(group, committed, self._rules, self.translate)
        ]
        old = sorted({one.source for one in located if one.state is GroupPositionState.TOO_OLD})
        log_starts = self.source_admin.earliest_offsets(old).found if old else {}
        positions = [with_log_start(one, log_starts.get(one.source)) for one in located]
        checkpoints = new_checkpoints(positions, self.checkpoints.last)
        if not syncs_groups:
            return GroupSyncPlan(positions, checkpoints, {}, failures)
        placed = sorted({one.group for one in positions if one.is_placed})
        states = self.target_groups.listings(placed).found
        idle = [group for group in placed if group not in states or not states[group].is_active]
        asked = [group for group in idle if group in states] if only_listed else idle
        there = self.target_groups.committed_offsets(asked)
        failures |= {group: str(error) for group, error in there.failed.items()}
        unsure = {*there.failed, *self._outdated(there.found)}
        plan = plan_commits(
            [one for one in positions if one.group not in unsure], states, there.found
        )
        rest = [_deferred(one) for one in positions if one.group in unsure]
        return GroupSyncPlan(
            [*plan.positions, *rest], checkpoints, plan.writes, failures, there.found
        )

    def _outdated(self, found: Mapping[str, Mapping[TopicPartition, CommittedOffset]]) -> list[str]:
        """Groups that seem to have gone back on the target since the last look.

        A coordinator that has just taken over answers before it knows all, and to believe it would
        move an idle group back. One that really went back is seen so again in the next round.
        """
        before, self._last_there = self._last_there, dict(found)
        return [
            group
            for group, offsets in found.items()
            if any(
                tp not in offsets or offsets[tp].offset < one.offset
                for tp, one in before.get(group, {}).items()
            )
        ]

    def refresh(self) -> None:
        """Read on in the offset maps and the offset syncs; any of them may be out of reach."""
        self._complaints.clear()
        has_syncs = self._settings.source.offset_syncs_enabled
        for log, is_needed in (
            (self.map, True),
            (self._reverse_map, False),
            (self._syncs, has_syncs),
        ):
            try:
                log.refresh()
            except BrokerError as error:
                if error.code not in _OUT_OF_REACH:
                    raise
                # Brokers forbid what is not there, too: said only where it must be there.
                if is_needed:
                    self._complaints.append(str(error))
        self._reverse_map.invalid.clear()  # its own keeper sees to those

    def translate(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Exactly by the map; what it does not know, as well as MM2 would."""
        if self._comes_from_target(tp.topic):
            original = TopicPartition(self._remote_name(tp.topic), tp.partition)
            return self._reverse_map.to_source(original, offset)
        by_map = self.map.to_target(tp, offset)
        if by_map is None or by_map.fit is Fit.BEFORE:
            return more_conservative(by_map, self._syncs.to_target(tp, offset))
        if by_map.fit is Fit.NEAR:  # somebody else copied in between: its syncs are nearer
            since, until = self.map.hole(tp, offset)
            near = self._syncs.to_target(tp, offset, since)
            if near is not None:
                return Translation(max(by_map.offset, min(near.offset, until)), Fit.NEAR)
        return by_map

    def empty_partitions(self, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Those source partitions that hold nothing."""
        first = self.source_admin.earliest_offsets(partitions).found
        end = self.source_admin.end_offsets(partitions, "read_uncommitted").found
        return {tp for tp in partitions if tp in first and first[tp] == end.get(tp)}

    @property
    def problems(self) -> list[str]:
        """Why translations may not be as good as they could be."""
        damaged = self.map.unreadable + self._reverse_map.unreadable + self._syncs.unreadable
        if not damaged:
            return [*self._complaints]
        sentence = (
            f"{damaged} records of the offset map or the offset syncs are damaged, so some groups "
            "may not be translated exactly"
        )
        return [*self._complaints, sentence]

    # --- doing

    def write_checkpoints(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Write checkpoints."""
        if checkpoints:
            self.checkpoints.write(checkpoints)

    def commit_offsets(self, found: GroupSyncPlan) -> GroupSyncPlan:
        """Set the groups' offsets on the target; the round with what became of them."""
        answers = self.target_groups.commit_offsets(found.writes)
        return replace(found, positions=[_with_outcome(one, answers) for one in found.positions])


def _deferred(one: GroupPosition) -> GroupPosition:
    """A position of a group that is left alone in this round."""
    if one.state is not GroupPositionState.TRANSLATED:
        return one
    reason = "what the target says of the group is not sure; it is asked again"
    return replace(one, reason=reason)


def _with_outcome(one: GroupPosition, answers: Mapping[str, BrokerError | None]) -> GroupPosition:
    """A position after the target has answered for its group."""
    if one.group not in answers or one.state is not GroupPositionState.TRANSLATED:
        return one
    error = answers[one.group]
    if error is None:
        return replace(one, state=GroupPositionState.SYNCED) if one.is_exact else one
    if error.code == _UNKNOWN_MEMBER:
        reason = "the group has just got members on the target; stop them to move it"
        return replace(one, state=GroupPositionState.ACTIVE, reason=reason)
    return replace(one, state=GroupPositionState.REFUSED, reason=str(error))
