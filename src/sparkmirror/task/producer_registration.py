# SPDX-License-Identifier: Apache-2.0
"""Registers a task's new producer id on the target (`formats/producer_registry.py`).

The driver registers the producer id that a task starts with. A task gets another one if it cannot
continue with that of its resume point, or, with transactions, when the epochs of an id are used up.
Owned by the task's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkmirror.formats.producer_registry import RegisteredProducer
from sparkmirror.task.messages import TaskSettings
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.wire.batch_builder import NewRecord, build_batch


class ProducerRegistration:
    """Does nothing if the driver could not register either."""

    def __init__(self, topic: OnDemandTopic, settings: TaskSettings) -> None:
        self._topic = topic
        self._settings = settings
        self._ticket = 0
        self._waiting: list[Callable[[], None]] = []  # for `is_done`

    @property
    def error(self) -> str:
        """Why the registry cannot be written, or empty."""
        return self._topic.error

    @property
    def is_done(self) -> bool:
        """Whether the task may use the last id; a flow that renames all topics need not wait."""
        return not self._settings.registry_topic or self._topic.is_acked(self._ticket)

    def check_acks(self) -> None:
        """Call what waits, if `is_done`."""
        if self._waiting and self.is_done:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def register_and(self, producer_id: int, then: Callable[[], None]) -> None:
        """Register an id without transactions; call `then` when the task may use it."""
        self.register(producer_id, None)
        self._waiting.append(then)
        self.check_acks()

    def register(self, producer_id: int, transactional_id: str | None) -> None:
        """Write the entry; `is_done` becomes true when all replicas have it."""
        settings = self._settings
        if not settings.target_cluster_id:
            return
        entry = RegisteredProducer(
            producer_id,
            settings.target_cluster_id,
            settings.flow,
            settings.source_cluster_id,
            transactional_id,
        )
        batch = build_batch([NewRecord(entry.key(), entry.value())], int(time.time() * 1000))
        self._ticket = self._topic.write(batch, 1)
