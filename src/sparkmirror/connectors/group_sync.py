# SPDX-License-Identifier: Apache-2.0
"""Reads the groups of a flow on both clusters, and plans and writes their positions.

`plan` only reads; `write_checkpoints` and `commit_offsets` carry out its result. The checkpoint
connector does both every few seconds; `sparkmirror groups` only plans. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.origin_maps import OriginMaps
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
from sparkmirror.quantities import counted
from sparkmirror.topology.internal_topics import offset_syncs_topic

_UNAVAILABLE = frozenset({3, 29})  # unknown topic, not authorized
_UNKNOWN_MEMBER = 25


@dataclass(frozen=True, slots=True)
class GroupSyncPlan:
    """The result of one round of planning."""

    positions: list[GroupPosition] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    writes: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # by group
    # The committed offsets on the target of groups that may be moved.
    on_target: Mapping[str, Mapping[TopicPartition, CommittedOffset]] = field(default_factory=dict)


class GroupSync(Closable):
    """The groups of one flow; a context manager that closes its connections."""

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
        # Of the flow in the other direction: for groups that return to the target's own topics.
        self._reverse_map = MapTopic(self._source_client, offset_map_topic(names, flow.target))
        self._origins = OriginMaps(
            settings,
            policy,
            self._source_client,
            self._target_client,
            self.map,
            self._reverse_map,
        )
        on_source = settings.source.offset_syncs_location == "source"
        self._syncs = OffsetSyncLog(
            self._source_client if on_source else self._target_client,
            offset_syncs_topic(settings, names),
        )
        self.checkpoints = CheckpointLog(self._target_client, names.checkpoints_topic(flow.source))
        self._last_on_target: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
        self._problems: list[str] = []  # what could not be read in the last round
        self._rules = GroupRules(self._replicates, self._remote_name)

    def close(self) -> None:
        """Close the connections; a later call connects again."""
        self._origins.close()
        self._source_client.close()
        self._target_client.close()

    def _comes_from_target(self, topic: str) -> bool:
        return self._policy.replication.topic_source(topic) == self._settings.flow.target

    def _replicates(self, topic: str) -> bool:
        """Whether the flow mirrors a topic; a topic from the target counts as its original."""
        is_selected = self._policy.topic_filter.should_replicate_topic
        if is_selected(topic):
            return True
        return self._comes_from_target(topic) and is_selected(self._remote_name(topic))

    def _remote_name(self, topic: str) -> str:
        """Return the name on the target; as in MM2 its own topics have their original name."""
        names = self._policy.replication
        if self._comes_from_target(topic):
            return names.original_topic(topic)
        return names.format_remote_topic(self._settings.flow.source, topic)

    # --- planning

    def selected_groups(self) -> list[str]:
        """Return the source's groups that the group filter selects."""
        is_selected = self._policy.group_filter.should_replicate_group
        return sorted(group for group in self.source_groups.groups() if is_selected(group))

    def plan(
        self, groups: Sequence[str], *, syncs_groups: bool, only_listed: bool = False
    ) -> GroupSyncPlan:
        """Translate the groups' positions and plan what to write.

        With `only_listed` the target is queried only for groups that it lists: FindCoordinator for
        another group makes a new cluster create its offsets topic.
        """
        result = self.source_groups.committed_offsets(groups)
        failures = {group: str(error) for group, error in result.failed.items()}
        self.refresh()
        translated = [
            position
            for group, committed in sorted(result.found.items())
            for position in translate_group(group, committed, self._rules, self.translate)
        ]
        old = sorted({one.source for one in translated if one.state is GroupPositionState.TOO_OLD})
        log_starts = self.source_admin.earliest_offsets(old).found if old else {}
        positions = [with_log_start(one, log_starts.get(one.source)) for one in translated]
        checkpoints = new_checkpoints(positions, self.checkpoints.last)
        if not syncs_groups:
            return GroupSyncPlan(positions, checkpoints, {}, failures)
        placed = sorted({one.group for one in positions if one.is_placed})
        states = self.target_groups.listings(placed).found
        idle = [group for group in placed if group not in states or not states[group].is_active]
        requested = [group for group in idle if group in states] if only_listed else idle
        on_target = self.target_groups.committed_offsets(requested)
        failures |= {group: str(error) for group, error in on_target.failed.items()}
        deferred = {*on_target.failed, *self._moved_back(on_target.found)}
        plan = plan_commits(
            [one for one in positions if one.group not in deferred], states, on_target.found
        )
        rest = [_deferred(one) for one in positions if one.group in deferred]
        return GroupSyncPlan(
            [*plan.positions, *rest], checkpoints, plan.writes, failures, on_target.found
        )

    def _moved_back(
        self, found: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
    ) -> list[str]:
        """Return groups whose offsets on the target went backwards since the last round.

        A new coordinator may respond before it has loaded all offsets; using that would move an
        idle group back. A group that really went back is seen so again in the next round.
        """
        before, self._last_on_target = self._last_on_target, dict(found)
        return [
            group
            for group, offsets in found.items()
            if any(
                tp not in offsets or offsets[tp].offset < one.offset
                for tp, one in before.get(group, {}).items()
            )
        ]

    def refresh(self) -> None:
        """Refresh the offset maps and offset syncs; any of them may be unavailable."""
        self._problems.clear()
        has_syncs = self._settings.source.offset_syncs_enabled
        for log, is_needed in (
            (self.map, True),
            (self._reverse_map, False),
            (self._syncs, has_syncs),
        ):
            try:
                log.refresh()
            except BrokerError as error:
                if error.code not in _UNAVAILABLE:
                    raise
                # Brokers also deny access to topics that do not exist: report only required ones.
                if is_needed:
                    self._problems.append(str(error))
        self._reverse_map.invalid.clear()  # its own flow deletes them
        self._origins.expire()

    def translate(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Translate exactly by the map; what it does not contain, by MM2's rule."""
        if self._comes_from_target(tp.topic):
            original = TopicPartition(self._remote_name(tp.topic), tp.partition)
            return self._reverse_map.to_source(original, offset)
        if (two_way := self._origins.translation(tp.topic)) is not None:
            found = two_way.translate(tp, offset)
            if found is not None and found.fit is not Fit.BEFORE:
                return found
        by_map = self.map.to_target(tp, offset)
        if by_map is None or by_map.fit is Fit.BEFORE:
            return more_conservative(by_map, self._syncs.to_target(tp, offset))
        if by_map.fit is Fit.NEAR:  # Java MM2 copied in between: its syncs are more precise
            since, until = self.map.hole(tp, offset)
            near = self._syncs.to_target(tp, offset, since)
            if near is not None:
                return Translation(max(by_map.offset, min(near.offset, until)), Fit.NEAR)
        return by_map

    def translate_back(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Translate an offset of the target back; `tp` has the topic's name on the source."""
        if (two_way := self._origins.translation(tp.topic)) is not None:
            return two_way.back.translate(tp, offset)
        return self.map.to_source(tp, offset)

    def empty_partitions(self, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Return the source partitions without records."""
        first = self.source_admin.earliest_offsets(partitions).found
        end = self.source_admin.end_offsets(partitions, "read_uncommitted").found
        return {tp for tp in partitions if tp in first and first[tp] == end.get(tp)}

    @property
    def problems(self) -> list[str]:
        """Why translations may be less exact than possible."""
        malformed = self.map.unreadable + self._reverse_map.unreadable + self._syncs.unreadable
        if not malformed:
            return [*self._problems]
        sentence = (
            f"the offset map or the offset syncs have {counted(malformed, 'malformed record')}; "
            "some groups may not be translated exactly"
        )
        return [*self._problems, sentence]

    # --- writing

    def write_checkpoints(self, checkpoints: Sequence[Checkpoint]) -> None:
        if checkpoints:
            self.checkpoints.write(checkpoints)

    def commit_offsets(self, found: GroupSyncPlan) -> GroupSyncPlan:
        """Set the groups' offsets on the target. Returns the plan with the resulting states.

        Leaves out groups whose offsets another client has changed since the plan, such as
        `groups park`: the planned offsets may be before those.
        """
        current = self.target_groups.committed_offsets(list(found.writes)).found
        writes = {
            group: offsets
            for group, offsets in found.writes.items()
            if current.get(group, {}) == found.on_target.get(group, {})
        }
        results = self.target_groups.commit_offsets(writes)
        return replace(found, positions=[_with_outcome(one, results) for one in found.positions])


def _deferred(one: GroupPosition) -> GroupPosition:
    """Return a position of a group that is not changed in this round."""
    if one.state is not GroupPositionState.TRANSLATED:
        return one
    reason = "the target's committed offsets went backwards; checking again in the next round"
    return replace(one, reason=reason)


def _with_outcome(one: GroupPosition, results: Mapping[str, BrokerError | None]) -> GroupPosition:
    """Return a position with the result of its group's commit."""
    if one.group not in results or one.state is not GroupPositionState.TRANSLATED:
        return one
    error = results[one.group]
    if error is None:
        return replace(one, state=GroupPositionState.SYNCED) if one.is_exact else one
    if error.code == _UNKNOWN_MEMBER:
        reason = "consumers have just joined the group on the target; stop them to move it"
        return replace(one, state=GroupPositionState.ACTIVE, reason=reason)
    return replace(one, state=GroupPositionState.REFUSED, reason=str(error))
