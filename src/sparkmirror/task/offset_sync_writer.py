# SPDX-License-Identifier: Apache-2.0
"""Writes MM2's offset syncs, for Java's checkpoint connector and tools.

Uses separate connections: by default offset syncs go to the source, whose other connections wait in
long polls. While syncs cannot be written, copying continues, the newest sync of each partition is
kept, and the status shows the error. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_sync_rule import OffsetSyncQueue
from sparkmirror.task.internal_producer import InternalProducer
from sparkmirror.wire.event_loop import EventLoop, Timer
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition
from sparkmirror.wire.record_batch import build_key_value_batch

_LINGER_SECONDS = 0.2
_MAX_SYNCS_PER_BATCH = 5_000


class OffsetSyncWriter:
    """Writes to partition 0 of the offset-syncs topic."""

    def __init__(
        self,
        loop: EventLoop,
        internal: InternalProducer,
        topic: str,
        offset_lag_max: int,
    ) -> None:
        self._loop = loop
        self._internal = internal
        self._producer = internal.producer
        self._producer.on_response = (self._on_response,)
        self._partition = ProducePartition(TopicPartition(topic, 0), listener=internal.listener)
        self._queue = OffsetSyncQueue(offset_lag_max)
        self._timer: Timer | None = None

    @property
    def error(self) -> str:
        """Why syncs cannot be written, or empty."""
        return self._internal.listener.error

    @property
    def is_flushed(self) -> bool:
        """Whether all due syncs are written, or cannot be written."""
        return bool(self.error) or (self._partition.is_idle and not self._queue.is_due)

    def start(self) -> None:
        """Request metadata of the topic."""
        self._producer.track_topics([self._partition.tp.topic])

    def add_runs(self, tp: TopicPartition, runs: Iterable[MappedRun]) -> None:
        """Add copied runs; schedules due syncs."""
        for run in runs:
            self._queue.add_run(tp, *run)
        if self._timer is None and self._queue.is_due:
            self._timer = self._loop.call_later(_LINGER_SECONDS, self._send)

    def promote_delayed(self) -> None:
        """Send the delayed syncs; called after positions have been stored."""
        self._queue.promote()
        self._send()

    def check_timeouts(self) -> None:
        """Called about once a second."""
        self._internal.check_timeouts()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._internal.close()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._partition.is_idle or not self._queue.is_due:
            return
        syncs = self._queue.drain()
        for at in range(0, len(syncs), _MAX_SYNCS_PER_BATCH):
            some = syncs[at : at + _MAX_SYNCS_PER_BATCH]
            view = memoryview(build_key_value_batch([(sync.key(), sync.value()) for sync in some]))
            self._producer.enqueue(self._partition, OutgoingBatch(view, len(some), 0, 0, ()))
        self._producer.send_ready()

    def _on_response(self) -> None:
        """Schedule the syncs that became due during the last request."""
        if self._partition.is_idle and self._timer is None and self._queue.is_due:
            self._timer = self._loop.call_later(_LINGER_SECONDS, self._send)
