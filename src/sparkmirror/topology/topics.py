# SPDX-License-Identifier: Apache-2.0
"""Plans which remote topics to create or grow, from both clusters' topics. Pure.

A topic's configs are needed only for its creation, so planning has two steps: `topics_to_create`
lists the source topics whose configs are needed, `plan_topics` plans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sparkmirror.kafka.descriptions import ConfigSource, NewTopic
from sparkmirror.topology.manual_steps import CREATION_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sparkmirror.kafka.descriptions import ConfigEntry, TopicDescription


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a remote topic like its source topic."""

    source: str
    remote: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """Add partitions to a remote topic up to the number of its source topic."""

    source: str
    remote: str
    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class PartitionMismatch:
    """The remote topic has more partitions than its source; Kafka never shrinks a topic."""

    source: str
    remote: str
    source_partitions: int
    remote_partitions: int

    def __str__(self) -> str:
        return (
            f"Remote topic '{self.remote}' has {self.remote_partitions} partitions, its source "
            f"'{self.source}' has {self.source_partitions}: the additional ones stay empty, and "
            f"producers map keys to other partitions there."
        )


@dataclass(frozen=True, slots=True)
class ConfigsUnknown:
    """A topic is not created yet because its configs cannot be read.

    Without them a compacted topic would be created with cleanup.policy=delete.
    """

    source: str
    remote: str

    def __str__(self) -> str:
        return (
            f"Topic '{self.source}' is not mirrored yet: cannot read its configs, so "
            f"'{self.remote}' is not created. Grant DESCRIBE_CONFIGS on '{self.source}'."
        )


@dataclass(frozen=True, slots=True)
class NameCollision:
    """Two source topics have the same remote name; only the first is mirrored."""

    remote: str
    first: str
    second: str

    def __str__(self) -> str:
        return (
            f"Topics '{self.first}' and '{self.second}' have the same remote name "
            f"'{self.remote}'; only the first is mirrored. Check the replication policy."
        )


@dataclass(frozen=True, slots=True)
class MissingTopic:
    """A remote topic that must be created manually."""

    source: str
    remote: str
    shape: str

    def __str__(self) -> str:
        return (
            f"Topic '{self.source}' is not mirrored: '{self.remote}' does not exist, and "
            f"{CREATION_KEY} is false. Create it with {self.shape}."
        )


@dataclass(frozen=True, slots=True)
class TooFewPartitions:
    """A remote topic that must be grown manually."""

    source: str
    remote: str
    source_partitions: int
    remote_partitions: int

    def __str__(self) -> str:
        return (
            f"Topic '{self.source}' is mirrored partially: '{self.remote}' has "
            f"{self.remote_partitions} of its {self.source_partitions} partitions, and "
            f"{CREATION_KEY} is false. Add the other partitions."
        )


TopicAction: TypeAlias = CreateTopic | GrowTopic
TopicNotice: TypeAlias = (
    PartitionMismatch | ConfigsUnknown | NameCollision | MissingTopic | TooFewPartitions
)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Actions on the target, and notices for the user."""

    actions: tuple[TopicAction, ...] = ()
    notices: tuple[TopicNotice, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRules:
    """A flow's policy for the planner; by default every set config is copied."""

    replicates: Callable[[str], bool]
    remote_name: Callable[[str], str]
    copies_config: Callable[[str], bool] = field(default=lambda _name: True)
    copies_default: Callable[[str], bool] = field(default=lambda _name: False)
    creates: bool = True  # False: topics are created and grown manually


def mirrored_topics(
    source: Mapping[str, TopicDescription], rules: TopicRules
) -> dict[str, TopicDescription]:
    """Return the source topics of the flow, sorted by name."""
    return {
        name: source[name]
        for name in sorted(source)
        if not source[name].is_internal and rules.replicates(name)
    }


def remote_names(topics: Iterable[str], rules: TopicRules) -> dict[str, str]:
    """Map source topics to remote topics; of two with one remote name only the first counts."""
    owners: dict[str, str] = {}
    for name in topics:
        owners.setdefault(rules.remote_name(name), name)
    return {name: remote for remote, name in owners.items()}


def topics_to_create(
    source: Mapping[str, TopicDescription],
    target: Mapping[str, TopicDescription],
    rules: TopicRules,
) -> list[str]:
    """Return the source topics without a remote topic."""
    return [
        name for name in mirrored_topics(source, rules) if rules.remote_name(name) not in target
    ]


def plan_topics(
    source: Mapping[str, TopicDescription],
    target: Mapping[str, TopicDescription],
    configs: Mapping[str, Sequence[ConfigEntry]],
    rules: TopicRules,
    replication_factor: int,
) -> TopicPlan:
    """Compare both clusters; `configs` has those of `topics_to_create`, by source name."""
    actions: list[TopicAction] = []
    notices: list[TopicNotice] = []
    owners: dict[str, str] = {}
    for name, topic in mirrored_topics(source, rules).items():
        remote = rules.remote_name(name)
        owner = owners.setdefault(remote, name)
        existing = target.get(remote)
        if owner != name:
            notices.append(NameCollision(remote, owner, name))
        elif existing is None and not rules.creates:
            copied = copied_configs(configs.get(name, ()), rules)
            new = NewTopic(remote, topic.partitions, replication_factor, copied)
            notices.append(MissingTopic(name, remote, new.shape))
        elif existing is None and name in configs:
            copied = copied_configs(configs[name], rules)
            actions.append(CreateTopic(name, remote, topic.partitions, replication_factor, copied))
        elif existing is None:
            notices.append(ConfigsUnknown(name, remote))
        elif existing.partitions < topic.partitions and not rules.creates:
            few = TooFewPartitions(name, remote, topic.partitions, existing.partitions)
            notices.append(few)
        elif existing.partitions < topic.partitions:
            actions.append(GrowTopic(name, remote, existing.partitions, topic.partitions))
        elif existing.partitions > topic.partitions:
            mismatch = PartitionMismatch(name, remote, topic.partitions, existing.partitions)
            notices.append(mismatch)
    return TopicPlan(tuple(actions), tuple(notices))


def copied_configs(entries: Sequence[ConfigEntry], rules: TopicRules) -> dict[str, str]:
    """Return the configs for a new remote topic, as MM2 chooses them."""
    copied: dict[str, str] = {}
    for entry in entries:
        is_skipped_default = (
            entry.source is ConfigSource.DEFAULT_CONFIG and not rules.copies_default(entry.name)
        )
        cannot_be_set = entry.read_only or entry.sensitive
        from_broker_file = entry.source is ConfigSource.STATIC_BROKER
        if is_skipped_default or cannot_be_set or from_broker_file:
            continue
        if entry.value is not None and rules.copies_config(entry.name):
            copied[entry.name] = entry.value
    return copied
