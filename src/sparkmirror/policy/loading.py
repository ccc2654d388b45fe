# SPDX-License-Identifier: Apache-2.0
"""Creates policies and filters from class names: built-in ones or users' classes.

Java's names of the built-in classes refer to ours. Any other name is a dotted Python path
(`my.module.ClassName`): created without arguments, then `configure(options)` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow
from sparkmirror.policy.class_loading import instantiate
from sparkmirror.policy.filters import (
    ConfigPropertyFilter,
    Configurable,
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
    GroupFilter,
    NamePattern,
    TopicFilter,
    TopicSelection,
)
from sparkmirror.policy.replication import (
    INTERNAL_SEPARATOR_KEY,
    SEPARATOR_KEY,
    SOURCE_ALIAS_KEY,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from sparkmirror.policy.settings import PolicySettings, ReplicationPolicySettings

_JAVA = "org.apache.kafka.connect.mirror."
_POLICIES: dict[str, type[DefaultReplicationPolicy]] = {
    _JAVA + "DefaultReplicationPolicy": DefaultReplicationPolicy,
    _JAVA + "IdentityReplicationPolicy": IdentityReplicationPolicy,
}
_OWN_POLICIES = frozenset(f"{one.__module__}.{one.__name__}" for one in _POLICIES.values())
_TOPIC_FILTER = _JAVA + "DefaultTopicFilter"
_GROUP_FILTER = _JAVA + "DefaultGroupFilter"
_CONFIG_FILTER = _JAVA + "DefaultConfigPropertyFilter"
REPLICATION_POLICY_KEY = "replication.policy.class"
TOPIC_FILTER_KEY = "topic.filter.class"
GROUP_FILTER_KEY = "group.filter.class"
CONFIG_FILTER_KEY = "config.property.filter.class"
_POLICY_METHODS = (
    "configure",
    "format_remote_topic",
    "topic_source",
    "upstream_topic",
    "original_topic",
    "heartbeats_topic",
    "offset_syncs_topic",
    "checkpoints_topic",
    "is_heartbeats_topic",
    "is_checkpoints_topic",
    "is_mm2_internal_topic",
    "is_internal_topic",
)


@dataclass(frozen=True, slots=True)
class FlowPolicy:
    """The policy and filters of one flow."""

    replication: ReplicationPolicy
    topic_filter: TopicFilter
    group_filter: GroupFilter
    config_filter: ConfigPropertyFilter
    selection: TopicSelection

    def keeps_name(self, topic: str) -> bool:
        """Whether the flow copies the topic, under the same name."""
        source = self.selection.flow.source
        is_same = self.replication.format_remote_topic(source, topic) == topic
        return is_same and self.selection.should_replicate_topic(topic)


def load_policy(settings: PolicySettings, flow: Flow) -> FlowPolicy:
    """Create the flow's policy and filters. Raises ConfigError that names the invalid key."""
    options = {**settings.options, SOURCE_ALIAS_KEY: flow.source}
    replication = load_replication_policy(settings, options)
    topic_filter = _topic_filter(settings, options)
    return FlowPolicy(
        replication=replication,
        topic_filter=topic_filter,
        group_filter=_group_filter(settings, options),
        config_filter=_config_filter(settings, options),
        selection=TopicSelection(
            flow, replication, topic_filter, settings.heartbeats_replication_enabled
        ),
    )


def policy_errors(settings: PolicySettings, flow: Flow) -> list[ConfigError]:
    """Return all errors that `load_policy` could raise, not only the first."""
    options = {**settings.options, SOURCE_ALIAS_KEY: flow.source}
    lists = (
        ("topics", settings.topics),
        ("topics.exclude", settings.topics_exclude),
        ("groups", settings.groups),
        ("groups.exclude", settings.groups_exclude),
        ("config.properties.exclude", settings.config_properties_exclude),
        ("config.properties.include", settings.config_properties_include),
    )
    attempts: list[Callable[[], object]] = [
        *(partial(NamePattern.compile, items, key) for key, items in lists),
        partial(load_replication_policy, settings, options),
        partial(_topic_filter, settings, options),
        partial(_group_filter, settings, options),
        partial(_config_filter, settings, options),
    ]
    errors: dict[str | None, ConfigError] = {}
    for attempt in attempts:
        try:
            attempt()
        except ConfigError as error:
            errors.setdefault(error.key, error)
    return list(errors.values())


def custom_class_keys(settings: PolicySettings) -> frozenset[str]:
    """Return the keys that name a user's class: only such a class reads the options."""
    built_in = {
        REPLICATION_POLICY_KEY: settings.replication_policy_class in _POLICIES,
        TOPIC_FILTER_KEY: settings.topic_filter_class == _TOPIC_FILTER,
        GROUP_FILTER_KEY: settings.group_filter_class == _GROUP_FILTER,
        CONFIG_FILTER_KEY: settings.config_property_filter_class == _CONFIG_FILTER,
    }
    return frozenset(key for key, is_ours in built_in.items() if not is_ours)


def load_replication_policy(
    settings: ReplicationPolicySettings, options: Mapping[str, str]
) -> ReplicationPolicy:
    """Create the replication policy only; `options` is its configuration."""
    key, name = REPLICATION_POLICY_KEY, settings.replication_policy_class
    if name in _POLICIES:
        policy = _POLICIES[name]()
        flag = str(settings.internal_topic_separator_enabled)
        explicit = {SEPARATOR_KEY: settings.separator, INTERNAL_SEPARATOR_KEY: flag}
        plain = {k: v for k, v in options.items() if k not in explicit}
        policy.configure({**plain, **explicit} if settings.separator_is_explicit else plain)
        return policy
    return cast(
        "ReplicationPolicy",
        _custom(name, key, _POLICY_METHODS, tuple(_POLICIES), settings, options),
    )


def _topic_filter(settings: PolicySettings, options: Mapping[str, str]) -> TopicFilter:
    name = settings.topic_filter_class
    if name == _TOPIC_FILTER:
        return DefaultTopicFilter(
            NamePattern.compile(settings.topics, "topics"),
            NamePattern.compile(settings.topics_exclude, "topics.exclude"),
        )
    methods = ("should_replicate_topic",)
    return cast(
        "TopicFilter",
        _custom(name, TOPIC_FILTER_KEY, methods, (_TOPIC_FILTER,), settings, options),
    )


def _group_filter(settings: PolicySettings, options: Mapping[str, str]) -> GroupFilter:
    name = settings.group_filter_class
    if name == _GROUP_FILTER:
        return DefaultGroupFilter(
            NamePattern.compile(settings.groups, "groups"),
            NamePattern.compile(settings.groups_exclude, "groups.exclude"),
        )
    methods = ("should_replicate_group",)
    return cast(
        "GroupFilter",
        _custom(name, GROUP_FILTER_KEY, methods, (_GROUP_FILTER,), settings, options),
    )


def _config_filter(settings: PolicySettings, options: Mapping[str, str]) -> ConfigPropertyFilter:
    name = settings.config_property_filter_class
    if name == _CONFIG_FILTER:
        return DefaultConfigPropertyFilter(
            NamePattern.compile(settings.config_properties_exclude, "config.properties.exclude"),
            settings.use_defaults_from,
            NamePattern.compile(settings.config_properties_include, "config.properties.include"),
        )
    methods = ("should_replicate_config_property", "should_replicate_source_default")
    return cast(
        "ConfigPropertyFilter",
        _custom(name, CONFIG_FILTER_KEY, methods, (_CONFIG_FILTER,), settings, options),
    )


def _custom(
    name: str,
    key: str,
    methods: tuple[str, ...],
    built_in: tuple[str, ...],
    settings: ReplicationPolicySettings,
    options: Mapping[str, str],
) -> object:
    """Create the object, check its methods, configure it."""
    created = instantiate(
        name, key, built_in, None if name in _OWN_POLICIES else settings.allowed_classes
    )
    missing = [method for method in methods if not callable(getattr(created, method, None))]
    if missing:
        raise ConfigError(
            f"{key}={name} lacks the methods {', '.join(missing)}: see sparkmirror.policy for the "
            "base class.",
            key=key,
        )
    if callable(getattr(created, "configure", None)):
        try:
            cast("Configurable", created).configure(options)
        except (Exception, SystemExit) as error:
            kind = type(error).__name__
            raise ConfigError(
                f"{key}={name} rejected its options ({kind}: {error}): correct the keys that its "
                "configure(options) reads.",
                key=key,
            ) from error
    return created
