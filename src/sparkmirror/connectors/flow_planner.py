# SPDX-License-Identifier: Apache-2.0
"""Reads both clusters of flows and plans everything that a run would do; changes nothing.

Sends no request that makes a broker create something: no FindCoordinator for a group that is not
listed, no InitProducerId, no topic that does not exist. Uses the planners of the connectors. Not
thread-safe.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from sparkmirror.config.settings import FlowSettings, ReplicationFactor
from sparkmirror.connectors.acl_sync import AclSync
from sparkmirror.connectors.backlog import read_backlog
from sparkmirror.connectors.cluster_view import ClusterView
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.connectors.loop_forecast import forecast_loops
from sparkmirror.connectors.source_topics import MirroredPartition, topic_rules
from sparkmirror.connectors.topic_deletion_sync import plan_topic_deletions
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.kafka.descriptions import ConfigEntry, TopicDescription
from sparkmirror.model import Flow, TopicPartition
from sparkmirror.offsets.group_positions import GroupPositionState
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import offset_map_topic
from sparkmirror.quantities import and_more, counted
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.topology.configs import AlterTopic, plan_configs
from sparkmirror.topology.flow_plan import Action, FlowPlan, MoveGroup, sorted_actions
from sparkmirror.topology.forecast import Forecast
from sparkmirror.topology.internal_topics import (
    Side,
    internal_topics,
    plan_internal_topics,
    topics_to_inspect,
)
from sparkmirror.topology.projected_state import ProjectedChanges, cluster_of, merge_actions
from sparkmirror.topology.replication_factors import choose_factor, shortfall_warning
from sparkmirror.topology.settings_digest import settings_digest
from sparkmirror.topology.topic_deletions import KeptTopic, MirroredTopic, deleted_topics
from sparkmirror.topology.topics import (
    TopicPlan,
    mirrored_topics,
    plan_topics,
    remote_names,
    topics_to_create,
)
from sparkmirror.topology.unmatched_topics import unmatched_topics

_NOT_CREATED_YET = "not created yet"  # instead of the id of a topic that will be created
_NOT_MOVED = (
    GroupPositionState.ACTIVE,
    GroupPositionState.AHEAD,
    GroupPositionState.TOO_OLD,
    GroupPositionState.COPIED_AGAIN,
    GroupPositionState.BEHIND_LOG_START,
)
ProgressCallback = Callable[[str], None]
T = TypeVar("T")


@dataclass(slots=True)
class _SharedPlanState:
    """State that the plans of all flows share."""

    flows: Sequence[FlowSettings]
    changes: dict[str, ProjectedChanges] = field(
        default_factory=lambda: defaultdict(ProjectedChanges)
    )  # by alias
    warned: set[str] = field(default_factory=set)  # clusters with fewer brokers than replicas


def build_plans(
    flows: Sequence[FlowSettings],
    on_progress: ProgressCallback = lambda _: None,
    configured: Collection[FlowSettings] = (),
) -> tuple[list[FlowPlan], list[tuple[Flow, str]]]:
    """Return the plans, and the flows that could not be read with the reason.

    `configured` are all flows of the file, which may form cycles with these.
    """
    ordered = sorted(flows, key=lambda one: one.flow)
    unread: dict[Flow, str] = {}
    while True:
        try:
            shared = _SharedPlanState([one for one in configured or ordered if one.enabled])
            read = [one for one in ordered if one.flow not in unread]
            plans = _plan_all(read, shared, on_progress)
        except _FlowUnreadableError as error:  # plan the others without it
            unread[error.flow] = str(error)
        else:
            return plans, list(unread.items())


class _FlowUnreadableError(Exception):
    def __init__(self, flow: Flow, error: SparkmirrorError) -> None:
        super().__init__(str(error))
        self.flow = flow


def _plan_all(
    flows: Sequence[FlowSettings], shared: _SharedPlanState, on_progress: ProgressCallback
) -> list[FlowPlan]:
    with ExitStack() as stack:
        planners = [stack.enter_context(_FlowPlanner(one, shared, on_progress)) for one in flows]
        for planner in planners:
            planner.attempt(planner.read_topics)
        # Every pass may create topics that other flows mirror, in chains as long as there are
        # flows. The limit ends two flows that undo each other's changes.
        for _ in range(len(planners) + 1):
            has_changes = [planner.attempt(planner.plan_topics) for planner in planners]
            if not any(has_changes):
                break
        return [planner.attempt(planner.finish) for planner in planners]


class _FlowPlanner(Closable):
    """Plans one flow: `read_topics`, `plan_topics` until nothing changes, `finish`."""

    def __init__(
        self, settings: FlowSettings, shared: _SharedPlanState, on_progress: ProgressCallback
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._policy = load_policy(settings.policy, settings.flow)
        self._shared = shared
        self._on_progress = on_progress
        creates = settings.source.topic_creation_enabled
        self._rules = topic_rules(self._policy, self._flow, creates=creates)
        changes = shared.changes
        self._source = ClusterView(ClusterClient(settings.source_admin), changes[self._flow.source])
        self._target = ClusterView(ClusterClient(settings.target_admin), changes[self._flow.target])
        self._actions: list[Action] = []
        self._notices: dict[str, None] = {}  # without duplicates, in order

    def close(self) -> None:
        self._source.client.close()
        self._target.client.close()

    def attempt(self, step: Callable[[], T]) -> T:
        """Run a step; its errors become a _FlowUnreadableError of this flow."""
        try:
            return step()
        except SparkmirrorError as error:
            raise _FlowUnreadableError(self._flow, error) from error

    def read_topics(self) -> None:
        """Read the topics of both clusters."""
        for alias, view in ((self._flow.source, self._source), (self._flow.target, self._target)):
            self._on_progress(f"{self._flow}: reading the topics of {alias}")
            view.read_topics()

    def plan_topics(self) -> bool:
        """Plan topics and configs on top of earlier passes. Returns whether it added actions."""
        actions = [
            *self._internal_topic_actions(self._source, Side.SOURCE),
            *self._internal_topic_actions(self._target, Side.TARGET),
        ]
        if self._settings.enabled:
            actions += self._remote_topic_actions()
        for action in actions:
            self._shared.changes[cluster_of(action, self._flow)].add(action)
        self._actions = merge_actions(self._actions, actions)
        return bool(actions)

    def finish(self) -> FlowPlan:
        """Return the whole plan, with groups and forecast."""
        forecast = None
        if self._settings.enabled:
            stored = self._stored_positions()
            self._note_unmatched_topics()
            self._actions += self._deletions(stored)
            if self._settings.source.sync_acls_seconds is not None:
                self._actions += self._acl_actions()
            if self._moves_groups:
                self._actions += self._group_moves()
            forecast = self._forecast(stored)
        return FlowPlan(
            self._flow,
            settings_digest(self._settings),
            self._source.cluster_id,
            self._target.cluster_id,
            sorted_actions(self._actions),
            tuple(self._notices),
            forecast,
        )

    def _note(self, sentence: str) -> None:
        self._notices[sentence] = None

    # --- topics

    def _choose(self, view: ClusterView, factor: ReplicationFactor) -> int:
        alias = view.admin.alias
        chosen = choose_factor(factor, alias, view.brokers)
        sentence = shortfall_warning(factor, alias, view.brokers)
        if sentence is not None and alias not in self._shared.warned:
            self._shared.warned.add(alias)
            self._note(sentence)
        return chosen

    def _internal_topic_actions(self, view: ClusterView, side: Side) -> Sequence[Action]:
        names = self._policy.replication
        topics = [one for one in internal_topics(self._settings, names) if one.side is side]
        existing = view.topics
        configs = view.configs(topics_to_inspect(topics, existing))
        plan = plan_internal_topics(
            topics,
            existing,
            configs,
            view.admin.alias,
            lambda factor: self._choose(view, factor),
            creates=self._settings.source.topic_creation_enabled,
        )
        for error in plan.failures.values():
            self._note(str(error))
        return plan.creations

    def _remote_topic_actions(self) -> list[Action]:
        for topic, error in self._source.failed.items():
            if self._rules.replicates(topic):
                self._note(str(error))
        mirrored = mirrored_topics(self._source.topics, self._rules)
        configs = self._source_configs(mirrored)
        plan = self._plan_topics(configs)
        for notice in plan.notices:
            self._note(str(notice))
        return [*plan.actions, *self._alterations(mirrored, configs)]

    def _note_unmatched_topics(self) -> None:
        existing = self._source.topics.keys() | self._source.failed.keys()
        for sentence in unmatched_topics(
            self._settings.policy, self._policy, self._flow.source, existing
        ):
            self._note(sentence)

    def _source_configs(
        self, mirrored: Mapping[str, TopicDescription]
    ) -> dict[str, tuple[ConfigEntry, ...]]:
        """Read configs of all mirrored topics if configs are synced, else of topics to create."""
        if self._settings.source.sync_configs_seconds is not None:
            names = list(mirrored)
        else:
            names = topics_to_create(self._source.topics, self._target.topics, self._rules)
        self._on_progress(f"{self._flow}: reading the configs of {counted(len(names), 'topic')}")
        return self._source.configs(names)

    def _plan_topics(self, configs: Mapping[str, Sequence[ConfigEntry]]) -> TopicPlan:
        on_source, on_target = self._source.topics, self._target.topics
        replicas = 1
        if topics_to_create(on_source, on_target, self._rules):
            replicas = self._choose(self._target, self._settings.source.replication_factor)
        return plan_topics(on_source, on_target, configs, self._rules, replicas)

    def _alterations(
        self,
        mirrored: Mapping[str, TopicDescription],
        configs: Mapping[str, Sequence[ConfigEntry]],
    ) -> list[AlterTopic]:
        if self._settings.source.sync_configs_seconds is None:
            return []
        named = remote_names(mirrored, self._rules)
        remotes = {name: to for name, to in named.items() if to in self._target.topics}
        target_configs = self._target.configs(remotes.values())
        unread = sorted(
            name for name, to in remotes.items() if name not in configs or to not in target_configs
        )
        if unread:
            more = and_more(len(unread) - 1)
            self._note(
                f"Cannot read the configs of topic '{unread[0]}'{more} on both clusters; they are "
                f"not compared. Grant DESCRIBE_CONFIGS."
            )
        return plan_configs(remotes, configs, target_configs, self._rules)

    def _deletions(self, stored: Mapping[TopicPartition, StoredPosition]) -> Sequence[Action]:
        """Plan deletions of remote topics whose source was deleted; notices name those kept."""
        mirrored = {
            name: MirroredTopic(
                self._rules.remote_name(name), str(topic.topic_id) if topic.topic_id else None
            )
            for name, topic in mirrored_topics(self._source.found, self._rules).items()
        }
        selected = {tp.topic for tp in stored if self._rules.replicates(tp.topic)}
        missing = sorted(selected - mirrored.keys())
        deleted = deleted_topics(self._source.admin.topics(missing).failed) if missing else []
        plan = plan_topic_deletions(
            deleted, stored, mirrored, self._rules, self._target.admin, self._settings
        )
        for kept in plan.kept:
            self._note(str(kept))
        if self._settings.source.deletions_grace_seconds is not None:
            return plan.actions
        for action in plan.actions:
            reason = "sync.topic.deletions.enabled is false"
            self._note(str(KeptTopic(action.source, action.remote, reason)))
        return []

    # --- ACLs

    def _acl_actions(self) -> list[Action]:
        self._on_progress(f"{self._flow}: reading the ACLs")
        mirrored = list(mirrored_topics(self._source.topics, self._rules))
        with AclSync(self._settings, self._policy, FlowStatus(str(self._flow))) as acls:
            try:
                plan = acls.plan(mirrored)
            except BrokerError as error:  # not authorized: the rest of the plan is valid
                self._note(str(error))
                return []
        for sentence in filter(None, (plan.skip_reason, *plan.notices)):
            self._note(sentence)
        return [*plan.grants, *plan.revocations]

    # --- groups

    @property
    def _moves_groups(self) -> bool:
        checkpoint = self._settings.checkpoint
        has_checkpoints = checkpoint.enabled and self._settings.source.offset_syncs_enabled
        return has_checkpoints and checkpoint.sync_group_offsets_seconds is not None

    def _group_moves(self) -> list[MoveGroup]:
        self._on_progress(f"{self._flow}: reading the consumer groups")
        with GroupSync(self._settings, self._policy) as rounds:
            found = rounds.plan(rounds.selected_groups(), syncs_groups=True, only_listed=True)
            map_topic = offset_map_topic(self._policy.replication, self._flow.source)
            problems = rounds.problems if map_topic in self._target.found else []
        for sentence in problems:
            self._note(sentence)
        for group, reason in sorted(found.failures.items()):
            self._note(f"group '{group}': {reason}")
        counts = Counter(one.state for one in found.positions if one.state in _NOT_MOVED)
        if counts:
            listed = ", ".join(f"{counts[s]} {s.value}" for s in _NOT_MOVED if counts[s])
            self._note(f"Some positions of groups are not changed: {listed}. See `groups`.")
        return [
            MoveGroup(
                group,
                tp.topic,
                tp.partition,
                before[tp].offset if tp in before else None,
                after.offset,
                after.metadata,
            )
            for group, writes in found.writes.items()
            for before in [found.on_target.get(group, {})]
            for tp, after in writes.items()
        ]

    # --- records

    def _stored_positions(self) -> dict[TopicPartition, StoredPosition]:
        """Return the stored positions; none if the offsets topic does not exist."""
        topic, state = self._settings.internal_topics.offsets, self._settings.state_cluster
        existing = self._target.found
        if self._settings.worker_cluster is not None:
            with ClusterAdmin(state) as admin:
                existing = admin.topics([topic]).found
        if topic not in existing:
            return {}
        self._on_progress(f"{self._flow}: reading the stored positions")
        name, alias = self._settings.source.name, self._flow.source
        return OffsetStore(state, topic, connector=name, source_alias=alias).read().positions

    def _forecast(self, stored: Mapping[TopicPartition, StoredPosition]) -> Forecast:
        self._on_progress(f"{self._flow}: reading the amount to copy")
        client, partitions = self._source.client, self._partitions()
        configured = self._shared.flows
        loops = forecast_loops(self._settings, self._policy, configured, partitions, client)
        backlog = read_backlog(self._settings, client, partitions, stored, loops)
        for sentence in backlog.notices:
            self._note(sentence)
        return backlog.forecast

    def _partitions(self) -> list[MirroredPartition]:
        """Return all existing partitions that are mirrored once the plan is carried out."""
        found: list[MirroredPartition] = []
        for name, topic in mirrored_topics(self._source.found, self._rules).items():
            remote_name = self._rules.remote_name(name)
            counterpart = self._target.found.get(remote_name)
            target_id = _id_of(counterpart) if counterpart is not None else _NOT_CREATED_YET
            found += [
                MirroredPartition(
                    TopicPartition(name, index), remote_name, _id_of(topic), target_id
                )
                for index in range(topic.partitions)
            ]
        return found


def _id_of(topic: TopicDescription) -> str | None:
    return str(topic.topic_id) if topic.topic_id else None
