# SPDX-License-Identifier: Apache-2.0
"""Which topics, groups and topic configs are mirrored: MM2's default filters.

A list of Java regexes is joined with `|` and must match the whole name. An empty include list
matches nothing; an empty exclude list excludes nothing.

`TopicSelection` also detects cycles.
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
    """Selects the topics to copy."""

    def should_replicate_topic(self, topic: str) -> bool: ...


class GroupFilter(Protocol):
    """Selects the consumer groups to sync."""

    def should_replicate_group(self, group: str) -> bool: ...


class ConfigPropertyFilter(Protocol):
    """Selects the topic configs to copy."""

    def should_replicate_config_property(self, name: str) -> bool: ...

    def should_replicate_source_default(self, name: str) -> bool:
        """Whether a source default is set explicitly on the target."""
        ...


class Configurable(Protocol):
    """A custom class: created without arguments, then configured."""

    def configure(self, options: Mapping[str, str]) -> None:
        """Receive the flow's configuration, once."""
        ...


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A compiled list of regexes; None matches nothing."""

    pattern: re.Pattern[str] | None

    @classmethod
    def compile(cls, items: Sequence[str], key: str) -> NamePattern:
        """Compile the list of `key`. Raises ConfigError that names the invalid item."""
        if not items:
            return cls(None)
        try:
            return cls(compile_java("|".join(items)))
        except ValueError as error:
            invalid, reason = _invalid_pattern(items, error)
            raise ConfigError(
                f"{key}: {invalid!r} is not a supported regular expression: {reason}."
                f"{_remedy(invalid)}",
                key=key,
            ) from error

    def matches(self, name: str) -> bool:
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
        return f" To match any text use '.*': did you mean '.{pattern}'?"
    return ""


@dataclass(frozen=True, slots=True)
class DefaultTopicFilter:
    """Included and not excluded, by whole name."""

    include: NamePattern
    exclude: NamePattern

    def should_replicate_topic(self, topic: str) -> bool:
        return self.include.matches(topic) and not self.exclude.matches(topic)


@dataclass(frozen=True, slots=True)
class DefaultGroupFilter:
    """Included and not excluded, by whole name."""

    include: NamePattern
    exclude: NamePattern

    def should_replicate_group(self, group: str) -> bool:
        return self.include.matches(group) and not self.exclude.matches(group)


@dataclass(frozen=True, slots=True)
class DefaultConfigPropertyFilter:
    """Included and not excluded; uses the target's defaults unless configured otherwise."""

    exclude: NamePattern
    use_defaults_from: str = "target"
    include: NamePattern = ANY_NAME

    def should_replicate_config_property(self, name: str) -> bool:
        return self.include.matches(name) and not self.exclude.matches(name)

    def should_replicate_source_default(self, name: str) -> bool:  # noqa: ARG002 - custom filters decide by name
        return self.use_defaults_from == "source"


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics of one flow."""

    flow: Flow
    policy: ReplicationPolicy
    topic_filter: TopicFilter
    heartbeats_replication_enabled: bool = True

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether the flow copies this source topic."""
        is_selected = self.topic_filter.should_replicate_topic(topic) or (
            self.heartbeats_replication_enabled and self.policy.is_heartbeats_topic(topic)
        )
        is_internal = self.policy.is_internal_topic(topic) or _is_shared_internal(topic)
        return is_selected and not is_internal and not self.is_cycle(topic)

    def is_cycle(self, topic: str) -> bool:
        """Whether the topic was already on the target, or came from this source before."""
        origin = self.policy.topic_source(topic)
        if origin is None:
            return False
        keeps_names = isinstance(self.policy, IdentityReplicationPolicy)
        if origin == self.flow.target or (origin == self.flow.source and not keeps_names):
            return True
        upstream = self.policy.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.is_cycle(upstream)


def _is_shared_internal(topic: str) -> bool:
    """Whether flows with any policy share it: the registry of producer ids has one name for all."""
    return topic.startswith("mm2-") and topic.endswith(".internal")
