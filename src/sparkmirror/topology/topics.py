# SPDX-License-Identifier: Apache-2.0
"""Plans which remote topics to create or grow, from both clusters' topics. Pure.

A topic's configs are needed only for its creation, so planning has two steps: `topics_to_create`
lists the source topics whose configs are needed, `plan_topics` plans. Also has the error messages
for topics that must be created or grown manually.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.kafka.descriptions import ConfigSource, NewTopic
from sparkmirror.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sparkmirror.kafka.descriptions import ConfigEntry, TopicDescription

CREATION_KEY = "topic.creation.enabled"
_AUTHORIZATION_CODES = frozenset({29, 30, 31})  # on the topic, on a group, on the cluster


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
class TopicNotice:
    """A topic that is not mirrored as its source is; `kind` and `remote` identify the notice."""

    kind: str
    remote: str
    message: str

    def __str__(self) -> str:
        return self.message


TopicAction: TypeAlias = CreateTopic | GrowTopic


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
            notices.append(_name_collision(owner, name, remote))
        elif existing is None and not rules.creates:
            copied = copied_configs(configs.get(name, ()), rules)
            new = NewTopic(remote, topic.partitions, replication_factor, copied)
            notices.append(_missing_topic(name, new))
        elif existing is None and name in configs:
            copied = copied_configs(configs[name], rules)
            actions.append(CreateTopic(name, remote, topic.partitions, replication_factor, copied))
        elif existing is None:
            notices.append(_configs_unknown(name, remote))
        elif existing.partitions < topic.partitions and not rules.creates:
            notices.append(_too_few_partitions(topic, existing))
        elif existing.partitions < topic.partitions:
            actions.append(GrowTopic(name, remote, existing.partitions, topic.partitions))
        elif existing.partitions > topic.partitions:
            notices.append(_too_many_partitions(topic, existing))
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


def _name_collision(first: str, second: str, remote: str) -> TopicNotice:
    return TopicNotice(
        "name collision",
        remote,
        f"Topics '{first}' and '{second}' have the same remote name '{remote}'; only the first is "
        "mirrored. Check the replication policy.",
    )


def _configs_unknown(source: str, remote: str) -> TopicNotice:
    # Without its configs a compacted topic would be created with cleanup.policy=delete.
    return TopicNotice(
        "configs unknown",
        remote,
        f"Topic '{source}' is not mirrored yet: cannot read its configs, so '{remote}' is not "
        f"created. Grant DESCRIBE_CONFIGS on '{source}'.",
    )


def _missing_topic(source: str, topic: NewTopic) -> TopicNotice:
    return TopicNotice(
        "missing topic",
        topic.name,
        f"Topic '{source}' is not mirrored: '{topic.name}' does not exist, and {CREATION_KEY} is "
        f"false. Create it with {topic.shape}.",
    )


def _too_few_partitions(source: TopicDescription, remote: TopicDescription) -> TopicNotice:
    return TopicNotice(
        "too few partitions",
        remote.name,
        f"Topic '{source.name}' is mirrored partially: '{remote.name}' has {remote.partitions} of "
        f"its {counted(source.partitions, 'partition')}, and {CREATION_KEY} is false. Add the "
        "other "
        "partitions.",
    )


def _too_many_partitions(source: TopicDescription, remote: TopicDescription) -> TopicNotice:
    return TopicNotice(
        "too many partitions",
        remote.name,
        f"Remote topic '{remote.name}' has {counted(remote.partitions, 'partition')}, its source "
        f"'{source.name}' has {source.partitions}: the additional ones stay empty, and producers "
        "map keys to other partitions there.",
    )


def missing_topic_error(topic: NewTopic, cluster: str) -> ClusterError:
    """Create the error for a missing topic that sparkmirror may not create."""
    return ClusterError(
        f"Topic '{topic.name}' does not exist on cluster '{cluster}', and {CREATION_KEY} is false. "
        f"Create it with {topic.shape}.",
        cluster=cluster,
    )


def with_remedy(error: BrokerError, remedy: str) -> BrokerError:
    """Add the remedy to an authorization error; return other errors unchanged."""
    if error.code not in _AUTHORIZATION_CODES:
        return error
    return BrokerError(
        f"{error} {remedy}",
        cluster=error.cluster,
        code=error.code,
        retriable=error.retriable,
        topic=error.topic,
    )


def creation_remedy(topic: NewTopic) -> str:
    """Return the remedy for a rejected creation."""
    return f"Create it manually with {topic.shape}, or grant CREATE on it or on the cluster."


def growth_remedy(partitions: int) -> str:
    """Return the remedy for rejected growth."""
    return f"Grow it manually to {counted(partitions, 'partition')}, or grant ALTER on it."
