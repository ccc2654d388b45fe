# SPDX-License-Identifier: Apache-2.0
"""The internal topics that a pair of clusters needs, named and shaped as MM2 leaves them.

`internal_topics` names them, `plan_internal_topics` says which of them are missing on one cluster,
`ensure_internal_topics` makes those. A topic that exists is never touched; Connect's storage topics
are refused if their shape would lose state.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.errors import ClusterError, ReplicationFactorError
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.policy.sparkmirror_topics import (
    acls_topic,
    dead_letters_topic,
    ledger_topic,
    offset_map_topic,
)
from sparkmirror.topology.manual_steps import creation_remedy, missing_topic_error, with_remedy
from sparkmirror.topology.rejected_configs import CONFIG_CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sparkmirror.config.settings import FlowSettings, InternalTopics, ReplicationFactor
    from sparkmirror.errors import BrokerError
    from sparkmirror.kafka.descriptions import (
        ClusterDescription,
        ConfigEntry,
        PartialResults,
        TopicDescription,
    )
    from sparkmirror.topology.replication_factors import ReplicationFactorChooser

_TOPIC_ALREADY_EXISTS = 36
_NEW_TOPIC_SECONDS = 30.0
_OFFSET_MAP_CONFIGS = {
    # It is written all the time and read at every start: cleaned soon, it stays small.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_DEAD_LETTER_CONFIGS = {
    "max.message.bytes": str(64 << 20),  # below socket.request.max.bytes as brokers have it
    "retention.ms": str(30 * 24 * 3600 * 1000),  # a month for somebody to look
}


class Side(Enum):
    """The cluster of a pair on which a topic lives."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic as it is created."""

    side: Side
    name: str
    partitions: int
    factor: ReplicationFactor
    storage_key: str | None = None  # the key that names it, for Connect's three storage topics
    single_partition: bool = False  # the config topic's order is its meaning
    extra_configs: Mapping[str, str] = field(default_factory=dict)
    needs_configs: bool = True  # False: it works without the extra ones where they are refused
    cleanup_policy: str = "compact"


@dataclass(frozen=True, slots=True)
class CreateInternalTopic:
    """Create an internal topic on one side of a pair."""

    side: Side
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    needs_configs: bool = True  # False: where they are refused, cleanup.policy alone will do


@dataclass(frozen=True, slots=True)
class InternalTopicPlan:
    """What is missing on one cluster, and what a person must see to."""

    creations: tuple[CreateInternalTopic, ...] = ()
    failures: Mapping[str, ClusterError] = field(default_factory=dict)  # by topic


class EnsureOutcome(Enum):
    """What became of an internal topic."""

    EXISTED = "existed"
    CREATED = "created"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EnsuredTopic:
    """An internal topic and how ensuring it went; `error` is set if it failed."""

    topic: InternalTopic
    state: EnsureOutcome
    error: ClusterError | None = None


class InternalTopicNaming(Protocol):
    """The part of a replication policy that names internal topics."""

    def heartbeats_topic(self) -> str:
        """The heartbeats topic."""
        ...

    def offset_syncs_topic(self, alias: str) -> str:
        """The offset-syncs topic that belongs to the other cluster's alias."""
        ...

    def checkpoints_topic(self, alias: str) -> str:
        """The checkpoints topic of a source alias."""
        ...


class InternalTopicAdmin(Protocol):
    """What `kafka.admin.ClusterAdmin` offers to this module."""

    @property
    def alias(self) -> str:
        """The cluster's alias."""
        ...

    def cluster(self) -> ClusterDescription:
        """The live brokers."""
        ...

    def topics(self, names: Sequence[str] | None = None) -> PartialResults[str, TopicDescription]:
        """The named topics."""
        ...

    def topic_configs(self, names: Iterable[str]) -> PartialResults[str, tuple[ConfigEntry, ...]]:
        """The configs of the named topics."""
        ...

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Creates topics; None for each that was created."""
        ...

    def await_topics(self, names: Sequence[str], timeout_seconds: float) -> None:
        """Returns once every partition of the new topics is served."""
        ...


def internal_topics(
    settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """Every internal topic of a pair, on both sides."""
    return (
        *storage_topics(settings.internal_topics),
        *_heartbeat_topics(settings, names),
        *_source_topics(settings, names),
        *_checkpoint_topics(settings, names),
    )


def connector_topics(
    kind: ConnectorClass, settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """The internal topics of one connector on a Connect worker, which sees to its own three.

    With exactly-once a connector's positions may be on another cluster than the worker's topics.
    """
    if kind is ConnectorClass.HEARTBEAT:
        return _heartbeat_topics(settings, names)
    if kind is ConnectorClass.CHECKPOINT:
        return _checkpoint_topics(settings, names)
    is_exact = settings.enabled and settings.transactions.is_enabled
    positions = storage_topics(settings.internal_topics)[:1] if is_exact else ()
    return (*positions, *_source_topics(settings, names))


def _heartbeat_topics(
    settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """MM2's connector runs for disabled pairs, too, and creates it even when it emits nothing."""
    return (InternalTopic(Side.TARGET, names.heartbeats_topic(), 1, settings.heartbeat.factor),)


def _source_topics(settings: FlowSettings, names: InternalTopicNaming) -> tuple[InternalTopic, ...]:
    flow, source = settings.flow, settings.source
    if not settings.enabled:
        return ()
    topics = [
        InternalTopic(
            Side.TARGET,
            offset_map_topic(names, flow.source),
            1,
            settings.internal_topics.offsets_factor,
            extra_configs=_OFFSET_MAP_CONFIGS,
            needs_configs=False,
        )
    ]
    if source.records_created_acls:
        topics.append(granted_acls_topic(settings, names))
    if source.offset_syncs_enabled:
        on_source = source.offset_syncs_location == "source"
        topics.append(
            InternalTopic(
                Side.SOURCE if on_source else Side.TARGET,
                offset_syncs_topic(settings, names),
                1,
                source.offset_syncs_factor,
            )
        )
    return tuple(topics)


def _checkpoint_topics(
    settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """Without offset syncs MM2 refuses the connector, so its topic never appears."""
    emits = settings.checkpoint.enabled and settings.source.offset_syncs_enabled
    if not settings.enabled or not emits:
        return ()
    checkpoints = names.checkpoints_topic(settings.flow.source)
    return (InternalTopic(Side.TARGET, checkpoints, 1, settings.checkpoint.factor),)


def granted_acls_topic(settings: FlowSettings, names: InternalTopicNaming) -> InternalTopic:
    """The memory of ACL sync."""
    topic = acls_topic(names, settings.flow.source)
    return InternalTopic(Side.TARGET, topic, 1, settings.internal_topics.offsets_factor)


def storage_topics(storage: InternalTopics) -> tuple[InternalTopic, ...]:
    """A worker's three topics: positions, statuses, configurations."""
    extra = storage.extra_configs
    wished = storage.wished_configs.get(storage.offsets, {})
    return (
        InternalTopic(
            Side.TARGET,
            storage.offsets,
            storage.offsets_partitions,
            storage.offsets_factor,
            storage_key="offset.storage.topic",
            extra_configs={**wished, **extra.get(storage.offsets, {})},
            needs_configs=bool(extra.get(storage.offsets)),
        ),
        InternalTopic(
            Side.TARGET,
            storage.status,
            storage.status_partitions,
            storage.status_factor,
            storage_key="status.storage.topic",
            extra_configs=extra.get(storage.status, {}),
        ),
        InternalTopic(
            Side.TARGET,
            storage.configs,
            1,
            storage.configs_factor,
            storage_key="config.storage.topic",
            single_partition=True,
            extra_configs=extra.get(storage.configs, {}),
        ),
    )


def offset_syncs_topic(settings: FlowSettings, names: InternalTopicNaming) -> str:
    """MM2's offset-syncs topic, on the side that `offset-syncs.topic.location` says."""
    on_source = settings.source.offset_syncs_location == "source"
    return names.offset_syncs_topic(settings.flow.target if on_source else settings.flow.source)


def on_demand_topics(
    settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """Topics of our own on the target, made only when there is something to write to them."""
    source, factor = settings.flow.source, settings.internal_topics.offsets_factor
    return (
        InternalTopic(Side.TARGET, ledger_topic(names, source), 1, factor),
        InternalTopic(
            Side.TARGET,
            dead_letters_topic(names, source),
            1,
            factor,
            extra_configs=_DEAD_LETTER_CONFIGS,
            # A compacted topic takes no record without a key, and keeps one of each key.
            cleanup_policy="delete",
        ),
    )


def plan_internal_topics(
    topics: Sequence[InternalTopic],
    existing: Mapping[str, TopicDescription],
    configs: Mapping[str, Sequence[ConfigEntry]],
    cluster: str,
    choose: Callable[[ReplicationFactor], int],
    *,
    creates: bool = True,
) -> InternalTopicPlan:
    """What to create on one cluster.

    `topics` are those of its side, `configs` those of `topics_to_inspect`.
    With `creates` off, what is missing fails with the shape in which to create it.
    """
    failures: dict[str, ClusterError] = {}
    creations: list[CreateInternalTopic] = []
    for topic in topics:
        if topic.name in existing:
            found = configs.get(topic.name, ())
            misshapen = _shape_error(topic, existing[topic.name], found, cluster)
            if misshapen is not None:
                failures[topic.name] = misshapen
            continue
        try:
            factor = choose(topic.factor)
        except ReplicationFactorError as error:
            failures[topic.name] = error
            continue
        wanted = {**topic.extra_configs, "cleanup.policy": topic.cleanup_policy}
        if not creates:
            new = NewTopic(topic.name, topic.partitions, factor, wanted)
            failures[topic.name] = missing_topic_error(new, cluster)
            continue
        creations.append(
            CreateInternalTopic(
                topic.side, topic.name, topic.partitions, factor, wanted, topic.needs_configs
            )
        )
    return InternalTopicPlan(tuple(creations), failures)


def topics_to_inspect(
    topics: Sequence[InternalTopic], existing: Mapping[str, TopicDescription]
) -> list[str]:
    """The existing topics whose configs decide whether state is safe in them."""
    return [topic.name for topic in topics if topic.storage_key and topic.name in existing]


def _shape_error(
    topic: InternalTopic,
    existing: TopicDescription,
    configs: Sequence[ConfigEntry],
    cluster: str,
) -> ClusterError | None:
    if topic.storage_key is None:
        return None
    policies = [entry.value for entry in configs if entry.name == "cleanup.policy"]
    if topic.single_partition and existing.partitions != 1:
        complaint = f"{existing.partitions} partitions, and it must have exactly one"
    elif policies and policies != ["compact"]:
        complaint = f"cleanup.policy={policies[0]}, and it must be exactly compact"
    else:
        return None
    return ClusterError(
        f"Topic '{topic.name}' on cluster '{cluster}' has {complaint}, or stored state "
        f"would be lost. Correct the topic, or name another one with {topic.storage_key}.",
        cluster=cluster,
    )


def ensure_internal_topics(
    topics: Sequence[InternalTopic],
    admin: InternalTopicAdmin,
    factors: ReplicationFactorChooser,
    *,
    creates: bool = True,
) -> list[EnsuredTopic]:
    """Creates what is missing on one cluster, if it may; `topics` are those of its side.

    Returns when the new topics can be used. What goes wrong with a single topic is in its own
    result; raised are UnreachableError, and BrokerError if new topics are not served in time.
    """
    existing = admin.topics([topic.name for topic in topics]).found
    inspected = topics_to_inspect(topics, existing)
    configs = admin.topic_configs(inspected).found if inspected else {}
    is_complete = all(topic.name in existing for topic in topics)
    brokers = 0 if is_complete else len(admin.cluster().brokers)

    def choose(factor: ReplicationFactor) -> int:
        return factors.choose(factor, admin.alias, brokers)

    plan = plan_internal_topics(topics, existing, configs, admin.alias, choose, creates=creates)
    created = create_internal_topics(plan.creations, admin)
    ensured: list[EnsuredTopic] = []
    for topic in topics:
        error = plan.failures.get(topic.name)
        if topic.name in created:
            ensured.append(_ensured(topic, created[topic.name]))
        elif error is not None:
            ensured.append(EnsuredTopic(topic, EnsureOutcome.FAILED, error))
        else:
            ensured.append(EnsuredTopic(topic, EnsureOutcome.EXISTED))
    return ensured


def create_internal_topics(
    creations: Sequence[CreateInternalTopic], admin: InternalTopicAdmin
) -> dict[str, BrokerError | None]:
    """Creates topics of one cluster and waits until they can be used; None for each that was."""
    if not creations:
        return {}
    wanted = [NewTopic(c.name, c.partitions, c.replication_factor, c.configs) for c in creations]
    results = admin.create_topics(wanted)
    may_do_without = {c.name for c in creations if not c.needs_configs}
    again = [
        replace(one, configs={"cleanup.policy": one.configs["cleanup.policy"]})
        for one in wanted
        if one.name in may_do_without
        and (refusal := results.get(one.name)) is not None
        and refusal.code in CONFIG_CODES
    ]
    if again:
        results |= admin.create_topics(again)
    there = [
        name
        for name, refusal in results.items()
        if refusal is None or refusal.code == _TOPIC_ALREADY_EXISTS
    ]
    admin.await_topics(there, _NEW_TOPIC_SECONDS)
    shapes = {one.name: one for one in wanted}
    return {
        name: None if refusal is None else with_remedy(refusal, creation_remedy(shapes[name]))
        for name, refusal in results.items()
    }


def _ensured(topic: InternalTopic, refusal: BrokerError | None) -> EnsuredTopic:
    if refusal is None:
        return EnsuredTopic(topic, EnsureOutcome.CREATED)
    if refusal.code == _TOPIC_ALREADY_EXISTS:  # another worker was first
        return EnsuredTopic(topic, EnsureOutcome.EXISTED)
    return EnsuredTopic(topic, EnsureOutcome.FAILED, refusal)
