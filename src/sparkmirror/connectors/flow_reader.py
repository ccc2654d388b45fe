# SPDX-License-Identifier: Apache-2.0
"""Reads both sides of a pair and plans all that a run would do there; changes nothing.

It asks no question that makes a broker create something: no coordinator of a group that is not
listed, no producer id, no topic that is not there. Everything is decided by the planners that the
connectors themselves use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from sparkmirror.config.settings import FlowSettings, TopicFactor
from sparkmirror.connectors.backlog import Expected, expect
from sparkmirror.connectors.group_rounds import GroupRounds
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import (
    Answers,
    ClusterDescription,
    ConfigEntry,
    TopicDescription,
)
from sparkmirror.model import Flow, TopicPartition
from sparkmirror.offsets.group_positions import State
from sparkmirror.policy.loading import FlowPolicy, load_policy
from sparkmirror.policy.own_topics import offset_map_topic
from sparkmirror.topology.configs import AlterTopic, plan_configs
from sparkmirror.topology.factors import choose_factor, shortfall
from sparkmirror.topology.flow_plan import Action, FlowPlan, MoveGroup, in_order
from sparkmirror.topology.internal_topics import (
    CreateInternalTopic,
    Side,
    internal_topics,
    plan_internal_topics,
    to_inspect,
)
from sparkmirror.topology.settings_digest import settings_digest
from sparkmirror.topology.topics import (
    CreateTopic,
    TopicPlan,
    TopicRules,
    mirrored_topics,
    plan_topics,
    topics_to_create,
)

_NOT_YET = "not created yet"  # stands for the id of a topic that will be
_NOT_MOVED = (State.ACTIVE, State.AHEAD, State.TOO_OLD, State.BEHIND_LOG_START)

# By alias and topic: what the plans of other pairs would have created by then.
Planned = dict[str, dict[str, TopicDescription]]


@dataclass(slots=True)
class _Side:
    """One cluster, as it is found."""

    admin: ClusterAdmin
    cluster: ClusterDescription
    topics: Answers[str, TopicDescription]
    planned: Mapping[str, TopicDescription]  # by the plans of other pairs

    @property
    def there(self) -> dict[str, TopicDescription]:
        """The topics that are there, or will be by then."""
        return {**self.planned, **self.topics.found}


@dataclass(slots=True)
class _Draft:
    """A plan in the making."""

    actions: list[Action] = field(default_factory=list)
    notices: dict[str, None] = field(default_factory=dict)  # each once, in order

    def note(self, sentence: str) -> None:
        self.notices[sentence] = None


def topic_rules(policy: FlowPolicy, flow: Flow) -> TopicRules:
    """A flow's policy as the planners need it."""
    return TopicRules(
        replicates=policy.selection.replicate,
        remote_name=lambda topic: policy.replication.format_remote_topic(flow.source, topic),
        copies_config=policy.config_filter.should_replicate_config_property,
        copies_default=policy.config_filter.should_replicate_source_default,
    )


def read_flows(
    flows: Sequence[FlowSettings], say: Callable[[str], None] = lambda _: None
) -> tuple[list[FlowPlan], list[tuple[Flow, str]]]:
    """The plans of some pairs, and those pairs that could not be read, with the reason."""
    plans: list[FlowPlan] = []
    unread: list[tuple[Flow, str]] = []
    planned: Planned = {}
    for settings in sorted(flows, key=lambda one: one.flow):
        policy = load_policy(settings.policy, settings.flow)
        try:
            plans.append(FlowReader(settings, policy, planned, say).read())
        except ClusterError as error:
            unread.append((settings.flow, str(error)))
    return plans, unread


class FlowReader:
    """One pair of clusters."""

    def __init__(
        self,
        settings: FlowSettings,
        policy: FlowPolicy,
        planned: Planned,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._policy = policy
        self._planned = planned
        self._say = say
        self._rules = topic_rules(policy, settings.flow)

    def read(self) -> FlowPlan:
        """The plan; what it would create is entered in `planned`. ClusterError if out of reach."""
        settings, flow, draft = self._settings, self._flow, _Draft()
        with ExitStack() as stack:
            source_client = stack.enter_context(closing(ClusterClient(settings.source_admin)))
            target_client = stack.enter_context(closing(ClusterClient(settings.target_admin)))
            source = self._look(flow.source, ClusterAdmin(settings.source_admin, source_client))
            target = self._look(flow.target, ClusterAdmin(settings.target_admin, target_client))
            self._plan_internal(source, Side.SOURCE, draft)
            self._plan_internal(target, Side.TARGET, draft)
            expected = None
            if settings.enabled:
                expected = self._plan_mirror(source, target, source_client, draft)
        self._enter_planned(draft.actions)
        return FlowPlan(
            flow,
            settings_digest(settings),
            source.cluster.cluster_id,
            target.cluster.cluster_id,
            in_order(draft.actions),
            tuple(draft.notices),
            expected.forecast if expected is not None else None,
        )

    def _look(self, alias: str, admin: ClusterAdmin) -> _Side:
        self._say(f"{self._flow}: reading the topics of {alias}")
        return _Side(admin, admin.cluster(), admin.topics(), self._planned.get(alias, {}))

    def _enter_planned(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, CreateInternalTopic):
                on_source = action.side is Side.SOURCE
                alias, name = self._flow.source if on_source else self._flow.target, action.name
            elif isinstance(action, CreateTopic):
                alias, name = self._flow.target, action.remote
            else:
                continue
            replicas = action.replication_factor
            made = TopicDescription(name, None, action.partitions, replicas)
            self._planned.setdefault(alias, {})[name] = made

    # --- topics

    def _choose(self, side: _Side, factor: TopicFactor, draft: _Draft) -> int:
        alias, brokers = side.admin.alias, len(side.cluster.brokers)
        chosen = choose_factor(factor, alias, brokers)
        sentence = shortfall(factor, alias, brokers)
        if sentence is not None:
            draft.note(sentence)
        return chosen

    def _plan_internal(self, side: _Side, which: Side, draft: _Draft) -> None:
        wanted = [
            topic
            for topic in internal_topics(self._settings, self._policy.replication)
            if topic.side is which
        ]
        inspected = [t for t in to_inspect(wanted, side.there) if t in side.topics.found]
        configs = side.admin.topic_configs(inspected).found if inspected else {}
        plan = plan_internal_topics(
            wanted,
            side.there,
            configs,
            side.admin.alias,
            lambda factor: self._choose(side, factor, draft),
        )
        draft.actions += plan.creations
        for error in plan.failures.values():
            draft.note(str(error))

    def _plan_mirror(
        self, source: _Side, target: _Side, client: ClusterClient, draft: _Draft
    ) -> Expected:
        """Everything of an enabled flow; what is to be copied."""
        for topic, error in source.topics.failed.items():
            if self._rules.replicates(topic):
                draft.note(str(error))
        mirrored = mirrored_topics(source.topics.found, self._rules)
        configs = self._source_configs(source, target, mirrored)
        plan = self._plan_topics(source, target, configs, draft)
        draft.actions += plan.actions
        for notice in plan.notices:
            draft.note(str(notice))
        draft.actions += self._alterations(target, mirrored, configs, draft)
        if self._moves_groups:
            draft.actions += self._moves(target, draft)
        self._say(f"{self._flow}: looking how much there is to copy")
        expected = expect(
            self._settings,
            client,
            self._partitions(mirrored, target.topics.found),
            has_stored=self._settings.internal_topics.offsets in target.topics.found,
        )
        for sentence in expected.notices:
            draft.note(sentence)
        return expected

    def _source_configs(
        self, source: _Side, target: _Side, mirrored: Mapping[str, TopicDescription]
    ) -> dict[str, tuple[ConfigEntry, ...]]:
        """Of all mirrored topics if configs are synced, else of those that are to be created."""
        if self._settings.source.sync_configs_seconds is not None:
            names = list(mirrored)
        else:
            names = topics_to_create(source.topics.found, target.there, self._rules)
        if not names:
            return {}
        self._say(f"{self._flow}: reading the configs of {len(names):,} topics")
        return source.admin.topic_configs(names).found

    def _plan_topics(
        self,
        source: _Side,
        target: _Side,
        configs: Mapping[str, Sequence[ConfigEntry]],
        draft: _Draft,
    ) -> TopicPlan:
        found, there = source.topics.found, target.there
        replicas = 1
        if topics_to_create(found, there, self._rules):
            replicas = self._choose(target, self._settings.source.replication_factor, draft)
        return plan_topics(found, there, configs, self._rules, replicas)

    def _alterations(
        self,
        target: _Side,
        mirrored: Mapping[str, TopicDescription],
        configs: Mapping[str, Sequence[ConfigEntry]],
        draft: _Draft,
    ) -> list[AlterTopic]:
        if self._settings.source.sync_configs_seconds is None:
            return []
        owners: dict[str, str] = {}  # of two topics with one remote name the first counts
        for name in mirrored:
            owners.setdefault(self._rules.remote_name(name), name)
        remotes = {name: to for to, name in owners.items() if to in target.topics.found}
        if not remotes:
            return []
        there = target.admin.topic_configs(remotes.values())
        unread = sorted({name for name in remotes if name not in configs} | there.failed.keys())
        if unread:
            more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
            draft.note(
                f"The configs of topic '{unread[0]}'{more} could not be read, so they are not "
                f"compared. Grant DescribeConfigs."
            )
        return plan_configs(remotes, configs, there.found, self._rules)

    @staticmethod
    def _key_of(topic: TopicDescription) -> str | None:
        return str(topic.topic_id) if topic.topic_id else None

    def _partitions(
        self, mirrored: Mapping[str, TopicDescription], remote: Mapping[str, TopicDescription]
    ) -> list[MirroredPartition]:
        """All partitions that would be mirrored once the plan is carried out."""
        found: list[MirroredPartition] = []
        for name, topic in mirrored.items():
            remote_name = self._rules.remote_name(name)
            counterpart = remote.get(remote_name)
            target_id = self._key_of(counterpart) if counterpart is not None else _NOT_YET
            found += [
                MirroredPartition(
                    TopicPartition(name, index), remote_name, self._key_of(topic), target_id
                )
                for index in range(topic.partitions)
            ]
        return found

    # --- groups

    @property
    def _moves_groups(self) -> bool:
        checkpoint = self._settings.checkpoint
        has_checkpoints = checkpoint.enabled and self._settings.source.offset_syncs_enabled
        return has_checkpoints and checkpoint.sync_group_offsets_seconds is not None

    def _moves(self, target: _Side, draft: _Draft) -> list[MoveGroup]:
        self._say(f"{self._flow}: reading the consumer groups")
        with GroupRounds(self._settings, self._policy) as rounds:
            found = rounds.look(rounds.wanted_groups(), syncs_groups=True, only_listed=True)
            map_topic = offset_map_topic(self._policy.replication, self._flow.source)
            complaints = rounds.complaints if map_topic in target.topics.found else []
        for sentence in complaints:
            draft.note(sentence)
        for group, reason in sorted(found.failures.items()):
            draft.note(f"group '{group}': {reason}")
        counts = Counter(one.state for one in found.positions if one.state in _NOT_MOVED)
        if counts:
            listed = ", ".join(f"{counts[s]} {s.value}" for s in _NOT_MOVED if counts[s])
            draft.note(f"Some positions of groups stay as they are: {listed}. See `groups`.")
        before = defaultdict(dict, found.on_target)
        return [
            MoveGroup(
                group,
                tp.topic,
                tp.partition,
                before[group][tp].offset if tp in before[group] else None,
                after.offset,
                after.metadata,
            )
            for group, writes in found.writes.items()
            for tp, after in writes.items()
        ]
