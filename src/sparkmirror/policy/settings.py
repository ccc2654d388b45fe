# SPDX-License-Identifier: Apache-2.0
"""Settings of a flow's replication policy and filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkmirror.policy.class_loading import ClassAllowlist


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicySettings:
    """How remote topics are named; sufficient for a program that copies nothing."""

    replication_policy_class: str
    separator: str
    internal_topic_separator_enabled: bool
    separator_is_explicit: bool
    options: Mapping[str, str] = field(repr=False)  # the connector's keys; may hold secrets
    allowed_classes: ClassAllowlist | None = None  # None: any Python class may be named


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings(ReplicationPolicySettings):
    """How topics are named, and which topics, groups and topic configs are selected."""

    topic_filter_class: str
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    config_property_filter_class: str
    config_properties_exclude: tuple[str, ...]
    config_properties_include: tuple[str, ...]
    use_defaults_from: str
    heartbeats_replication_enabled: bool
    group_filter_class: str
    groups: tuple[str, ...]
    groups_exclude: tuple[str, ...]
