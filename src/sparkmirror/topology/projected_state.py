# SPDX-License-Identifier: Apache-2.0
"""A cluster's topics and configs after some actions are carried out. Pure.

Flows depend on each other: a topic that one creates, such as heartbeats, is mirrored by another.
A complete plan therefore includes the effects of the other plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sparkmirror.kafka.descriptions import ConfigEntry, ConfigSource, TopicDescription
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import Action, action_key
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.topics import CreateTopic, GrowTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sparkmirror.model import Flow


@dataclass(slots=True)
class ProjectedChanges:
    """The effects of plans on one cluster."""

    created: dict[str, TopicDescription] = field(default_factory=dict)
    grown: dict[str, int] = field(default_factory=dict)
    # Overrides of topics; None: removed.
    configs: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def add(self, action: Action) -> None:
        """Add the effect of an action on this cluster."""
        match action:
            case CreateInternalTopic():
                self._create(action.name, action)
            case CreateTopic():
                self._create(action.remote, action)
            case GrowTopic():
                self.grown[action.remote] = action.to
            case AlterTopic():
                self.configs.setdefault(action.remote, {}).update(action.changes)
            case _:
                pass  # no other flow depends on it

    def _create(self, name: str, action: CreateInternalTopic | CreateTopic) -> None:
        factor = action.replication_factor
        self.created[name] = TopicDescription(name, None, action.partitions, factor)
        self.configs[name] = dict(action.configs)

    def projected_topics(
        self, found: Mapping[str, TopicDescription]
    ) -> dict[str, TopicDescription]:
        """Return all topics after the changes."""
        topics = self.created | dict(found)
        for name, partitions in self.grown.items():
            if name in topics:
                topics[name] = replace(topics[name], partitions=partitions)
        return topics

    def projected_configs(self, name: str, found: Sequence[ConfigEntry]) -> tuple[ConfigEntry, ...]:
        """Return a topic's configs after the changes; `found` is empty for a new topic."""
        own = self.configs.get(name)
        if not own:
            return tuple(found)
        kept = [entry for entry in found if entry.name not in own]
        return (*kept, *(_entry(key, value) for key, value in own.items()))


def cluster_of(action: Action, flow: Flow) -> str:
    """Return the alias of the cluster that an action changes."""
    on_source = isinstance(action, CreateInternalTopic) and action.side is Side.SOURCE
    return flow.source if on_source else flow.target


def merge_actions(actions: Iterable[Action], more: Iterable[Action]) -> list[Action]:
    """Merge actions with those that became necessary by the effects of other plans."""
    found = {action_key(action): action for action in actions}
    for action in more:
        subject = action_key(action)
        before = found.get(subject)
        if isinstance(before, GrowTopic) and isinstance(action, GrowTopic):
            found[subject] = replace(action, from_=before.from_)
        elif isinstance(before, AlterTopic) and isinstance(action, AlterTopic):
            changes = {**before.changes, **action.changes}
            found[subject] = AlterTopic(
                action.source, action.remote, changes, {**action.before, **before.before}
            )
        else:
            found[subject] = action
    return list(found.values())


def _entry(name: str, value: str | None) -> ConfigEntry:
    source = ConfigSource.DEFAULT_CONFIG if value is None else ConfigSource.DYNAMIC_TOPIC
    return ConfigEntry(name, value, source)
