# SPDX-License-Identifier: Apache-2.0
"""Items of `topics` that match no topic of the source: misspelt, or not created yet. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sparkmirror.config.keys.table import nearest_name
from sparkmirror.policy.filters import DefaultTopicFilter, NamePattern

if TYPE_CHECKING:
    from collections.abc import Collection

    from sparkmirror.policy.loading import FlowPolicy
    from sparkmirror.policy.settings import PolicySettings

_ANY = ".*"
_NAME = re.compile(r"[\w.-]+")  # not a pattern that may match later


def unmatched_topics(
    settings: PolicySettings, policy: FlowPolicy, alias: str, existing: Collection[str]
) -> list[str]:
    """Return a sentence for each item that matches none of the existing topics of `alias`."""
    if not isinstance(policy.topic_filter, DefaultTopicFilter):
        return []  # another filter need not read `topics`
    names = [one for one in existing if not policy.replication.is_internal_topic(one)]
    return [
        f"'{item}' in topics matches no topic of cluster '{alias}'.{_nearest(item, names)}"
        for item in settings.topics
        if item != _ANY and not any(map(NamePattern.compile((item,), "topics").matches, names))
    ]


def missing_topics(
    settings: PolicySettings, policy: FlowPolicy, alias: str, existing: Collection[str]
) -> list[str]:
    """Return the same sentences for names only: a pattern may match nothing for long."""
    names = tuple(item for item in settings.topics if _NAME.fullmatch(item))
    return unmatched_topics(replace(settings, topics=names), policy, alias, existing)


def _nearest(item: str, names: Collection[str]) -> str:
    meant = nearest_name(item, names)
    return f" The nearest name is '{meant}'." if meant else ""
