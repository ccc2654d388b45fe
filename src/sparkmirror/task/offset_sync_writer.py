# SPDX-License-Identifier: Apache-2.0
"""Writes MM2's offset syncs, for Java's checkpoint connector and tools.

On connections of their own, as they go to the source by default, whose others are busy with long
polls. Syncs never hold a record up: while they cannot be written, the newest of each partition
waits, and the status says why. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_sync_rule import OffsetSyncQueue
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop, Timer
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch, halve_batch
from sparkmirror.wire.producer import ProduceLimits, ProducePartition, Producer
from sparkmirror.wire.record_batch import build_key_value_batch

_LINGER_SECONDS = 0.2  # what becomes due meanwhile goes out together
_LIMITS = ProduceLimits(
    acks=-1, timeout_ms=30_000, max_request_bytes=1 << 20, max_in_flight=1, merged_bytes=0
)
_SYNCS_A_RECORD_BATCH = 5_000


class OffsetSyncWriter:
    """Partition 0 of the offset-syncs topic."""

    def __init__(
        self,
        loop: EventLoop,
        cluster: Cluster,
        topic: str,
        offset_lag_max: int,
        client_id: str,
        max_request_bytes: int | None = None,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._budget = MemoryBudget(1 << 20)
        limits = _LIMITS
        if max_request_bytes is not None:
            limits = replace(
                _LIMITS, max_request_bytes=max_request_bytes, is_request_size_hard=True
            )
        self._producer = Producer(loop, cluster, limits, self._budget, self, client_id)
        self._partition = ProducePartition(TopicPartition(topic, 0))
        self._queue = OffsetSyncQueue(offset_lag_max)
        self._timer: Timer | None = None
        self.error = ""

    @property
    def is_flushed(self) -> bool:
        """Everything that was due has been written, or cannot be."""
        return bool(self.error) or (self._partition.is_idle and not self._queue.is_due)

    def start(self) -> None:
        """Find the leader."""
        self._producer.track_topics([self._partition.tp.topic])

    def add_runs(self, tp: TopicPartition, runs: Iterable[MappedRun]) -> None:
        """These count as copied."""
        for run in runs:
            self._queue.add_run(tp, *run)
        if self._timer is None and self._queue.is_due:
            self._timer = self._loop.call_later(_LINGER_SECONDS, self._send)

    def promote_delayed(self) -> None:
        """Positions have been stored."""
        self._queue.promote()
        self._send()

    def tick(self) -> None:
        """What is looked at once a second."""
        self._cluster.check_timeouts()

    def close(self) -> None:
        """Hang up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._producer.close()
        self._cluster.close()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._partition.is_idle or not self._queue.is_due:
            return
        syncs = self._queue.drain()
        for at in range(0, len(syncs), _SYNCS_A_RECORD_BATCH):
            some = syncs[at : at + _SYNCS_A_RECORD_BATCH]
            view = memoryview(build_key_value_batch([(sync.key(), sync.value()) for sync in some]))
            self._producer.enqueue(self._partition, OutgoingBatch(view, len(some), 0, 0, ()))
        self._producer.send_ready()

    # --- from the producer

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """The syncs are there."""

    def on_produce_response(self) -> None:
        """What has become due meanwhile may go."""
        if self._partition.is_idle and self._timer is None and self._queue.is_due:
            self._timer = self._loop.call_later(_LINGER_SECONDS, self._send)

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """It is tried again; until then the status says so."""
        self.error = (
            f"{self._cluster.alias}: {part.tp} cannot be written, so Java's tools see old offset "
            f"syncs: {error_codes.name(code)}: {text or error_codes.advice(code)}"
        )

    def on_produce_recovered(self, part: ProducePartition) -> None:  # noqa: ARG002 - there is one only
        """Forget it again."""
        self.error = ""

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:  # noqa: ARG002 - see below
        """Nothing is read for syncs: they wait."""
        return False

    def on_refused(
        self,
        part: ProducePartition,  # noqa: ARG002 - there is one only
        out: OutgoingBatch,
        code: int,
        text: str,  # noqa: ARG002 - `produce_trouble` hears of it
        record_errors: Mapping[int, str],  # noqa: ARG002 - as above
    ) -> list[OutgoingBatch] | None:
        """There is no other form to send them in, but they need not go together."""
        return halve_batch(out, self._budget) if code == error_codes.MESSAGE_TOO_LARGE else None

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:
        """Cannot happen without a producer id."""
