# SPDX-License-Identifier: Apache-2.0
"""What to tell somebody who has to create or grow a topic by hand, because we may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkmirror.errors import BrokerError, ClusterError

if TYPE_CHECKING:
    from sparkmirror.kafka.descriptions import NewTopic

CREATION_KEY = "topic.creation.enabled"
_NO_RIGHT = frozenset({29, 30, 31})  # on the topic, on a group, on the cluster


def missing_topic_error(topic: NewTopic, cluster: str) -> ClusterError:
    """A topic that is missing and is not ours to create."""
    return ClusterError(
        f"Topic '{topic.name}' does not exist on cluster '{cluster}', and {CREATION_KEY} is false. "
        f"Create it with {topic.shape}.",
        cluster=cluster,
    )


def with_remedy(refusal: BrokerError, remedy: str) -> BrokerError:
    """A refusal for want of a right, with the way out; any other as it is."""
    if refusal.code not in _NO_RIGHT:
        return refusal
    return BrokerError(
        f"{refusal} {remedy}",
        cluster=refusal.cluster,
        code=refusal.code,
        retriable=refusal.retriable,
        topic=refusal.topic,
    )


def creation_remedy(topic: NewTopic) -> str:
    """What helps where a creation is refused."""
    return f"Create it by hand with {topic.shape}, or grant CREATE on it or on the cluster."


def growth_remedy(partitions: int) -> str:
    """What helps where partitions cannot be added."""
    return f"Add partitions by hand until there are {partitions}, or grant ALTER on it."
