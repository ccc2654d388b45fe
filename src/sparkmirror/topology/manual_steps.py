# SPDX-License-Identifier: Apache-2.0
"""Error messages for topics that must be created or grown manually."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkmirror.errors import BrokerError, ClusterError

if TYPE_CHECKING:
    from sparkmirror.kafka.descriptions import NewTopic

CREATION_KEY = "topic.creation.enabled"
_AUTHORIZATION_CODES = frozenset({29, 30, 31})  # on the topic, on a group, on the cluster


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
    return f"Grow it manually to {partitions} partitions, or grant ALTER on it."
