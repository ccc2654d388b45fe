# SPDX-License-Identifier: Apache-2.0
"""The internal topics of a flow, with MM2's names and configs.

`internal_topics` lists them, `plan_internal_topics` finds those missing on one cluster,
`ensure_internal_topics` creates these. An existing topic is never changed; a Connect storage topic
whose configuration would lose state is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.errors import ClusterError, ReplicationFactorError
from sparkmirror.formats.producer_registry import PRODUCERS_TOPIC
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.policy.sparkmirror_topics import (
    acls_topic,
    dead_letters_topic,
    ledger_topic,
    offset_map_topic,
)
from sparkmirror.quantities import counted
from sparkmirror.topology.apply_configs import CONFIG_CODES
from sparkmirror.topology.topics import creation_remedy, missing_topic_error, with_remedy

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
    # Written all the time and read at every start: frequent compaction keeps it small.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_DEAD_LETTER_CONFIGS = {
    "max.message.bytes": str(64 << 20),  # below the default socket.request.max.bytes
    "retention.ms": str(30 * 24 * 3600 * 1000),  # a month to inspect them
}


class Side(Enum):
    """The cluster of a flow on which a topic is."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic to create."""

    side: Side
    name: str
    partitions: int
    factor: ReplicationFactor
    storage_key: str | None = None  # the key with its name, for Connect's three storage topics
    single_partition: bool = False  # the config topic needs a total order
    extra_configs: Mapping[str, str] = field(default_factory=dict)
    needs_configs: bool = True  # False: it works without the extra ones if they are rejected
    cleanup_policy: str = "compact"


@dataclass(frozen=True, slots=True)
class CreateInternalTopic:
    """Create an internal topic on one cluster of a flow."""

    side: Side
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    needs_configs: bool = True  # False: if they are rejected, cleanup.policy is enough


@dataclass(frozen=True, slots=True)
class InternalTopicPlan:
    """The missing topics of one cluster, and problems that need manual action."""

    creations: tuple[CreateInternalTopic, ...] = ()
    failures: Mapping[str, ClusterError] = field(default_factory=dict)  # by topic


class EnsureOutcome(Enum):
    """The result for an internal topic."""

    EXISTED = "existed"
    CREATED = "created"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EnsuredTopic:
    """An internal topic and its result; `error` is set if it failed."""

    topic: InternalTopic
    state: EnsureOutcome
    error: ClusterError | None = None


class InternalTopicNaming(Protocol):
    """The part of a replication policy that names internal topics."""

    def heartbeats_topic(self) -> str: ...

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the offset-syncs topic for the other cluster's alias."""
        ...

    def checkpoints_topic(self, alias: str) -> str:
        """Return the checkpoints topic of a source alias."""
        ...


class InternalTopicAdmin(Protocol):
    """The part of `kafka.admin.ClusterAdmin` that this module uses."""

    @property
    def alias(self) -> str: ...

    def cluster(self) -> ClusterDescription:
        """Return the live brokers."""
        ...

    def topics(self, names: Sequence[str] | None = None) -> PartialResults[str, TopicDescription]:
        """Return the named topics."""
        ...

    def topic_configs(self, names: Iterable[str]) -> PartialResults[str, tuple[ConfigEntry, ...]]:
        """Return the configs of the named topics."""
        ...

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Create topics. Returns None for each created topic."""
        ...

    def await_topics(self, names: Sequence[str], timeout_seconds: float) -> None:
        """Block until every partition of the new topics is served."""
        ...


def internal_topics(
    settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """Return every internal topic of a flow, on both clusters."""
    return (
        *storage_topics(settings.internal_topics),
        *_heartbeat_topics(settings, names),
        *_source_topics(settings, names),
        *_checkpoint_topics(settings, names),
    )


def connector_topics(
    kind: ConnectorClass, settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """Return the internal topics of one connector on a Connect worker.

    The worker creates its own three topics. With exactly-once a connector's positions may be on
    another cluster than these.
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
    """MM2's connector also runs for disabled flows, and creates it even if it emits nothing."""
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
        ),
        producers_topic(settings, Side.TARGET),
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
    """Without offset syncs MM2 rejects the connector, so the topic is not created."""
    emits = settings.checkpoint.enabled and settings.source.offset_syncs_enabled
    if not settings.enabled or not emits:
        return ()
    checkpoints = names.checkpoints_topic(settings.flow.source)
    return (InternalTopic(Side.TARGET, checkpoints, 1, settings.checkpoint.factor),)


def producers_topic(settings: FlowSettings, side: Side) -> InternalTopic:
    """Return the registry of producer ids; all flows into a cluster share it."""
    return InternalTopic(side, PRODUCERS_TOPIC, 1, settings.internal_topics.offsets_factor)


def granted_acls_topic(settings: FlowSettings, names: InternalTopicNaming) -> InternalTopic:
    """Return the topic with the ACLs that the flow created."""
    topic = acls_topic(names, settings.flow.source)
    return InternalTopic(Side.TARGET, topic, 1, settings.internal_topics.offsets_factor)


def storage_topics(storage: InternalTopics) -> tuple[InternalTopic, ...]:
    """Return a worker's three topics: positions, statuses, configurations."""
    extra = storage.extra_configs
    preferred = storage.wished_configs.get(storage.offsets, {})
    return (
        InternalTopic(
            Side.TARGET,
            storage.offsets,
            storage.offsets_partitions,
            storage.offsets_factor,
            storage_key="offset.storage.topic",
            extra_configs={**preferred, **extra.get(storage.offsets, {})},
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
    """Return MM2's offset-syncs topic, on the cluster of `offset-syncs.topic.location`."""
    on_source = settings.source.offset_syncs_location == "source"
    return names.offset_syncs_topic(settings.flow.target if on_source else settings.flow.source)


def on_demand_topics(
    settings: FlowSettings, names: InternalTopicNaming
) -> tuple[InternalTopic, ...]:
    """Return sparkmirror's own topics on the target that are created when first needed."""
    source, factor = settings.flow.source, settings.internal_topics.offsets_factor
    return (
        InternalTopic(Side.TARGET, ledger_topic(names, source), 1, factor),
        InternalTopic(
            Side.TARGET,
            dead_letters_topic(names, source),
            1,
            factor,
            extra_configs=_DEAD_LETTER_CONFIGS,
            # A compacted topic accepts no record without a key, and keeps one of each key.
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
    """Plan the creations on one cluster.

    `topics` are those of this cluster, `configs` those of `topics_to_inspect`. If `creates` is
    false, each missing topic is a failure with the configuration to create it with.
    """
    failures: dict[str, ClusterError] = {}
    creations: list[CreateInternalTopic] = []
    for topic in topics:
        if topic.name in existing:
            found = configs.get(topic.name, ())
            shape_error = _shape_error(topic, existing[topic.name], found, cluster)
            if shape_error is not None:
                failures[topic.name] = shape_error
            continue
        try:
            factor = choose(topic.factor)
        except ReplicationFactorError as error:
            failures[topic.name] = error
            continue
        topic_configs = {**topic.extra_configs, "cleanup.policy": topic.cleanup_policy}
        if not creates:
            new = NewTopic(topic.name, topic.partitions, factor, topic_configs)
            failures[topic.name] = missing_topic_error(new, cluster)
            continue
        creations.append(
            CreateInternalTopic(
                topic.side, topic.name, topic.partitions, factor, topic_configs, topic.needs_configs
            )
        )
    return InternalTopicPlan(tuple(creations), failures)


def topics_to_inspect(
    topics: Sequence[InternalTopic], existing: Mapping[str, TopicDescription]
) -> list[str]:
    """Return the existing topics whose configs must be checked."""
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
        problem = f"{counted(existing.partitions, 'partition')}; it must have exactly one"
    elif policies and policies != ["compact"]:
        problem = f"cleanup.policy={policies[0]}; it must be compact"
    else:
        return None
    return ClusterError(
        f"Topic '{topic.name}' on cluster '{cluster}' has {problem}, or stored state "
        f"would be lost. Correct the topic, or set {topic.storage_key} to another one.",
        cluster=cluster,
    )


def ensure_internal_topics(
    topics: Sequence[InternalTopic],
    admin: InternalTopicAdmin,
    factors: ReplicationFactorChooser,
    *,
    creates: bool = True,
) -> list[EnsuredTopic]:
    """Create the missing topics of one cluster, if allowed.

    Blocks until the new topics are usable. The error of a single topic is in its result. Raises
    UnreachableError, and BrokerError if new topics are not served in time.
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
    """Create topics and wait until they are usable. Returns None for each created topic."""
    if not creations:
        return {}
    new_topics = [
        NewTopic(c.name, c.partitions, c.replication_factor, c.configs) for c in creations
    ]
    results = admin.create_topics(new_topics)
    optional_configs = {c.name for c in creations if not c.needs_configs}
    again = [
        replace(one, configs={"cleanup.policy": one.configs["cleanup.policy"]})
        for one in new_topics
        if one.name in optional_configs
        and (error := results.get(one.name)) is not None
        and error.code in CONFIG_CODES
    ]
    if again:
        results |= admin.create_topics(again)
    existing = [
        name
        for name, error in results.items()
        if error is None or error.code == _TOPIC_ALREADY_EXISTS
    ]
    admin.await_topics(existing, _NEW_TOPIC_SECONDS)
    shapes = {one.name: one for one in new_topics}
    return {
        name: None if error is None else with_remedy(error, creation_remedy(shapes[name]))
        for name, error in results.items()
    }


def _ensured(topic: InternalTopic, error: BrokerError | None) -> EnsuredTopic:
    if error is None:
        return EnsuredTopic(topic, EnsureOutcome.CREATED)
    if error.code == _TOPIC_ALREADY_EXISTS:  # another process was first
        return EnsuredTopic(topic, EnsureOutcome.EXISTED)
    return EnsuredTopic(topic, EnsureOutcome.FAILED, error)
