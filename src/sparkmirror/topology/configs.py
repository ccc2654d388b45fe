# SPDX-License-Identifier: Apache-2.0
"""Compares the configs of remote topics with those of their source topics. Pure.

MM2 sends all configs at every run; here only differences are sent. The net effect is MM2's: a value
that was changed on the target is set back, an override removed on the source is removed on the
target, and an excluded config is never changed. A config that the target does not list does not
exist in its version; it is skipped.
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
    """Set the configs of a remote topic to those of its source topic."""

    source: str
    remote: str
    changes: Mapping[str, str | None]  # None: remove the topic's override
    before: Mapping[str, str | None]  # the topic's current overrides; None: no override


def plan_configs(
    remotes: Mapping[str, str],
    source: Mapping[str, Sequence[ConfigEntry]],
    target: Mapping[str, Sequence[ConfigEntry]],
    rules: TopicRules,
) -> list[AlterTopic]:
    """Return the alterations; `remotes` is source topic -> remote topic, configs are by topic.

    Topics whose configs could not be read on both clusters are skipped.
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
    """Return the alteration of one topic; None if nothing differs."""
    own = {e.name: e.value for e in target if e.source is ConfigSource.DYNAMIC_TOPIC}
    desired = desired_configs(source, rules)
    known = {e.name for e in target}
    changes = {
        key: value for key, value in desired.items() if key in known and own.get(key) != value
    }
    if not changes:
        return None
    return AlterTopic(name, remote, changes, {key: own.get(key) for key in changes})


def unknown_configs(
    source: Sequence[ConfigEntry], target: Sequence[ConfigEntry], rules: TopicRules
) -> set[str]:
    """Return configs of the source topic that the target's Kafka version does not have."""
    known = {e.name for e in target}
    desired = desired_configs(source, rules)
    return {key for key, value in desired.items() if value is not None and key not in known}


def desired_configs(entries: Sequence[ConfigEntry], rules: TopicRules) -> dict[str, str | None]:
    """Return the overrides that a remote topic should have; None: no override."""
    desired: dict[str, str | None] = {}
    for entry in entries:
        from_broker_file = entry.source is ConfigSource.STATIC_BROKER
        if entry.read_only or entry.sensitive or from_broker_file:
            continue
        if not rules.copies_config(entry.name):
            continue
        is_default = entry.source is ConfigSource.DEFAULT_CONFIG
        if is_default and not rules.copies_default(entry.name):
            desired[entry.name] = None
        elif entry.value is not None:
            desired[entry.name] = entry.value
    return desired
