# SPDX-License-Identifier: Apache-2.0
"""A producer with connections of its own, for internal topics that are not on the target.

Used for offset syncs, and for positions of a Connect worker whose topics are on another cluster.
Such records never hold up copied records. Owned by the task's thread.
"""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.task.internal_topic_listener import InternalTopicListener
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.produce_partition import ProduceLimits
from sparkmirror.wire.producer import Producer

_LIMITS = ProduceLimits(
    acks=-1, timeout_ms=30_000, max_request_bytes=1 << 20, max_in_flight=1, merged_bytes=0
)


class InternalProducer:
    """Producer, cluster connections and listener for one internal topic.

    `max_request_bytes` is a hard limit; None: the default, which one record batch may exceed. The
    owner sets `producer.on_response`.
    """

    def __init__(
        self,
        loop: EventLoop,
        cluster: Cluster,
        client_id: str,
        consequence: str,
        max_request_bytes: int | None = None,
    ) -> None:
        self._cluster = cluster
        limits = _LIMITS
        if max_request_bytes is not None:
            limits = replace(
                _LIMITS, max_request_bytes=max_request_bytes, is_request_size_hard=True
            )
        budget = MemoryBudget(1 << 20)
        self.producer = Producer(loop, cluster, limits, budget, client_id)
        self.listener = InternalTopicListener(cluster.alias, budget, consequence)

    @property
    def error(self) -> str:
        """Why the topic cannot be written, or the cluster cannot be reached; empty if it can."""
        return self.listener.error or str(self._cluster.error or "")

    def check_timeouts(self) -> None:
        """Called about once a second."""
        self._cluster.check_timeouts()

    def close(self) -> None:
        """Send nothing more and close the connections."""
        self.producer.close()
        self._cluster.close()
