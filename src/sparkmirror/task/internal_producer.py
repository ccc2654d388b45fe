# SPDX-License-Identifier: Apache-2.0
"""A producer with separate connections for an internal topic.

Used for offset syncs, and for positions of a Connect worker whose topics are on another cluster.
Its records never delay copied records. Owned by the task's thread.
"""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.task.internal_topic_listener import InternalTopicListener
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.settings import ProduceSettings

_SETTINGS = ProduceSettings(max_request_bytes=1 << 20, max_in_flight=1)


class InternalProducer:
    """Producer, cluster connections and listener for one internal topic.

    `max_request_bytes` is a hard limit; None: the default, which a single record batch may exceed.
    The owner sets `producer.on_response`.
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
        settings = _SETTINGS
        if max_request_bytes is not None:
            settings = replace(
                _SETTINGS, max_request_bytes=max_request_bytes, enforces_max_request_bytes=True
            )
        budget = MemoryBudget(1 << 20)
        self.producer = Producer(loop, cluster, settings, budget, client_id, max_merged_bytes=0)
        self.listener = InternalTopicListener(cluster.alias, budget, consequence)

    @property
    def error(self) -> str:
        """Why the topic cannot be written or the cluster cannot be reached, or empty."""
        return self.listener.error or str(self._cluster.error or "")

    def check_timeouts(self) -> None:
        """Called about once a second."""
        self._cluster.check_timeouts()

    def close(self) -> None:
        self.producer.close()
        self._cluster.close()
