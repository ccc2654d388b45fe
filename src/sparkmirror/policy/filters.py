# SPDX-License-Identifier: Apache-2.0
"""Which topics, groups and topic configs take part: MM2's default filters.

A list of Java regexes is joined with `|` and must match a whole name. An empty list is no
pattern: as include it matches nothing, as exclude it excludes nothing.

Which source topics a flow copies, and which would go round in circles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow
from sparkmirror.policy.java_regex import compile_java
from sparkmirror.policy.replication import IdentityReplicationPolicy, ReplicationPolicy


class TopicFilter(Protocol):
    """Decides which topics are copied."""

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether the topic is wanted."""
        ...


class GroupFilter(Protocol):
    """Decides which consumer groups are followed."""

    def should_replicate_group(self, group: str) -> bool:
        """Whether the group is wanted."""
        ...


class ConfigPropertyFilter(Protocol):
    """Decides which topic configs are taken over."""

    def should_replicate_config_property(self, name: str) -> bool:
        """Whether the topic config is wanted."""
        ...

    def should_replicate_source_default(self, name: str) -> bool:
        """Whether a default of the source is written out on the target."""
        ...


class Configurable(Protocol):
    """A custom class: made without arguments, then handed the flow's configuration."""

    def configure(self, options: Mapping[str, str]) -> None:
        """Take the configuration, once."""
        ...


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A compiled list of regexes; None matches nothing."""

    pattern: re.Pattern[str] | None

    @classmethod
    def compile(cls, items: Sequence[str], key: str) -> NamePattern:
        """Compile the list under `key`; ConfigError names the item that is wrong."""
        if not items:
            return cls(None)
        try:
            return cls(compile_java("|".join(items)))
        except ValueError as error:
            blame, why = _invalid_pattern(items, error)
            raise ConfigError(
                f"{key}: {blame!r} is not a regular expression that can be used here: {why}."
                f"{_remedy(blame)}",
                key=key,
            ) from error

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        return self.pattern is not None and self.pattern.fullmatch(name) is not None


ANY_NAME = NamePattern.compile((".*",), "")


def _invalid_pattern(items: Sequence[str], whole: ValueError) -> tuple[str, str]:
    for item in items:
        try:
            compile_java(item)
        except ValueError as error:
            return item, str(error)
    return "|".join(items), str(whole)


def _remedy(pattern: str) -> str:
    if pattern.startswith(("*", "?", "+")):
        return f" Any text is written '.*', so perhaps '.{pattern}' is meant."
    return ""


@dataclass(frozen=True, slots=True)
class DefaultTopicFilter:
    """Included and not excluded, by whole name."""

    include: NamePattern
    exclude: NamePattern

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether the topic is included and not excluded."""
        return self.include.matches(topic) and not self.exclude.matches(topic)


@dataclass(frozen=True, slots=True)
class DefaultGroupFilter:
    """Included and not excluded, by whole name."""

    include: NamePattern
    exclude: NamePattern

    def should_replicate_group(self, group: str) -> bool:
        """Whether the group is included and not excluded."""
        return self.include.matches(group) and not self.exclude.matches(group)


@dataclass(frozen=True, slots=True)
class DefaultConfigPropertyFilter:
    """Included and not excluded; defaults stay the target's unless told otherwise."""

    exclude: NamePattern
    use_defaults_from: str = "target"
    include: NamePattern = ANY_NAME

    def should_replicate_config_property(self, name: str) -> bool:
        """Whether the config is included and not excluded."""
        return self.include.matches(name) and not self.exclude.matches(name)

    def should_replicate_source_default(self, name: str) -> bool:  # noqa: ARG002 - custom filters decide by name
        """Whether the source's defaults count."""
        return self.use_defaults_from == "source"


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The choice of topics for one flow."""

    flow: Flow
    policy: ReplicationPolicy
    topic_filter: TopicFilter
    heartbeats_replication_enabled: bool = True

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether the flow copies this topic of its source."""
        wanted = self.topic_filter.should_replicate_topic(topic) or (
            self.heartbeats_replication_enabled and self.policy.is_heartbeats_topic(topic)
        )
        return wanted and not self.policy.is_internal_topic(topic) and not self.is_cycle(topic)

    def is_cycle(self, topic: str) -> bool:
        """Whether the topic has already been on the target, or came from this source before."""
        came_from = self.policy.topic_source(topic)
        if came_from is None:
            return False
        keeps_names = isinstance(self.policy, IdentityReplicationPolicy)
        if came_from == self.flow.target or (came_from == self.flow.source and not keeps_names):
            return True
        upstream = self.policy.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.is_cycle(upstream)
