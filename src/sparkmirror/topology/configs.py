# SPDX-License-Identifier: Apache-2.0
"""Which configs of remote topics differ from their source topics': a pure comparison.

What MM2 sends again at every run is compared first here, so that only differences are sent. The
net effect is MM2's: what was changed on the target goes back to what the source has, an override
that is gone on the source goes on the target, and an excluded config is never touched. A config
that the target does not list is one that its version does not know; it is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkmirror.kafka.descriptions import ConfigSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sparkmirror.kafka.descriptions import ConfigEntry
    from sparkmirror.topology.topics import TopicRules


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """Bring the configs of a remote topic in line with those of its source topic."""

    source: str
    remote: str
    changes: Mapping[str, str | None]  # None: remove the topic's own value
    before: Mapping[str, str | None]  # what the topic itself has of these now; None: nothing


def plan_configs(
    remotes: Mapping[str, str],
    source: Mapping[str, Sequence[ConfigEntry]],
    target: Mapping[str, Sequence[ConfigEntry]],
    rules: TopicRules,
) -> list[AlterTopic]:
    """What to alter; `remotes` is source topic -> remote topic, the configs are by topic name.

    A topic whose configs could not be read on both sides is passed over.
    """
    return [
        action
        for name, remote in remotes.items()
        if name in source
        and remote in target
        and (action := plan_alteration(name, remote, source[name], target[remote], rules))
        is not None
    ]


def plan_alteration(
    name: str,
    remote: str,
    source: Sequence[ConfigEntry],
    target: Sequence[ConfigEntry],
    rules: TopicRules,
) -> AlterTopic | None:
    """What differs on one topic; None: nothing."""
    own = {e.name: e.value for e in target if e.source is ConfigSource.DYNAMIC_TOPIC}
    wanted = wanted_configs(source, rules)
    known = {e.name for e in target}
    changes = {
        key: value for key, value in wanted.items() if key in known and own.get(key) != value
    }
    if not changes:
        return None
    return AlterTopic(name, remote, changes, {key: own.get(key) for key in changes})


def unknown_configs(
    source: Sequence[ConfigEntry], target: Sequence[ConfigEntry], rules: TopicRules
) -> set[str]:
    """What is set on the source topic and does not exist in the target's version of Kafka."""
    known = {e.name for e in target}
    wanted = wanted_configs(source, rules)
    return {key for key, value in wanted.items() if value is not None and key not in known}


def wanted_configs(entries: Sequence[ConfigEntry], rules: TopicRules) -> dict[str, str | None]:
    """What a remote topic should have by itself; None: it should have nothing by itself."""
    wanted: dict[str, str | None] = {}
    for entry in entries:
        from_broker_file = entry.source is ConfigSource.STATIC_BROKER
        if entry.read_only or entry.sensitive or from_broker_file:
            continue
        if not rules.copies_config(entry.name):
            continue
        is_default = entry.source is ConfigSource.DEFAULT_CONFIG
        if is_default and not rules.copies_default(entry.name):
            wanted[entry.name] = None
        elif entry.value is not None:
            wanted[entry.name] = entry.value
    return wanted
