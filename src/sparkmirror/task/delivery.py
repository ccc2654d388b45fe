# SPDX-License-Identifier: Apache-2.0
"""Stores the positions of copied records: every few seconds, or in transactions.

`Delivery` is the interface; `PeriodicDelivery` is the default. Its positions lag behind the
records, and the next task finds the exact position with a comparison (`take_over.py`). The other
implementation is in `transactional_delivery.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.latency_histogram import Latencies
from sparkmirror.task.offset_map_writer import OffsetMapWriter
from sparkmirror.task.offset_sync_writer import OffsetSyncWriter
from sparkmirror.task.position_writer import PositionWriter
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition

_MAP_TIMEOUT_TICKS = 60  # about seconds in which records are acknowledged and the map is not
FLUSH_BYTES = 64 << 20  # flush early after this much


_Stored = tuple[CopyPartition, StoredPosition]


class Delivery(Protocol):
    """Makes acknowledged records durable, together with their positions."""

    latencies: Latencies  # until records were durable on the target; the task clears them

    @property
    def error(self) -> str:
        """Why nothing can be stored now, or empty."""

    @property
    def is_fenced(self) -> bool:
        """Whether the producer is fenced: the task must end and can store nothing more."""

    @property
    def is_flushed(self) -> bool:
        """Whether the last flush is complete: all acknowledged records have stored positions."""

    def on_partition_started(self, part: CopyPartition) -> None:
        """Called when the partition starts to copy from its position."""

    def on_acked(self, part: CopyPartition, out: OutgoingBatch) -> None:
        """Called for each acknowledged record batch."""

    def on_produce_response(self) -> None:
        """Called after a produce response has been handled."""

    def handles_lost_sequence(self, part: ProducePartition) -> bool:
        """Handle a sequence that the broker does not expect, or return False to compare."""

    def handles_truncated_target(self, part: ProducePartition) -> bool:
        """Handle a target that lost acknowledged records, or return False to compare."""

    def store_position(self, part: CopyPartition, then: Callable[[], None]) -> None:
        """Call `then` when no later task can resume before the partition's current position."""

    def tick(self, now: float) -> None:
        """Called about once a second."""

    def flush(self) -> None:
        """Start the task's final flush; `is_flushed` becomes true when it is complete."""

    def close(self) -> None:
        """Called when the task has ended."""


class PeriodicDelivery:
    """Stores positions every few seconds, after the records before them.

    A flush writes the offset map first and then the positions, so the map is complete before each
    stored position.
    """

    def __init__(
        self,
        positions: PositionWriter,
        offset_map: OffsetMapWriter,
        syncs: OffsetSyncWriter | None,
        parts: Sequence[CopyPartition],
        flush_seconds: float,
    ) -> None:
        self._positions = positions
        self._map = offset_map
        self._syncs = syncs
        self._map_pending: list[_Stored] = []  # the flush that is writing the offset map
        self._positions_pending: list[_Stored] = []  # the flush that is writing positions
        self._awaited: dict[TopicPartition, Callable[[], None]] = {}  # of `store_position`
        self._parts = parts
        self._flush_seconds = flush_seconds
        self._next_flush = time.monotonic() + flush_seconds
        self._flush_started = 0.0
        self._unflushed_bytes = 0
        self._has_acked = False
        self._map_waits = 0  # ticks in which records were acknowledged and the map was not
        self._final_flush_requested = False
        self._is_flush_due = False
        self.latencies = Latencies()
        self.error = ""
        self.is_fenced = False

    @property
    def is_flushed(self) -> bool:
        """Whether the last flush is on the target."""
        return self._is_idle and not self._final_flush_requested

    @property
    def _is_idle(self) -> bool:
        return not self._map_pending and not self._positions_pending

    def on_partition_started(self, part: CopyPartition) -> None:
        """Nothing to do."""

    def on_acked(self, part: CopyPartition, out: OutgoingBatch) -> None:
        """Count the record batch for the next flush."""
        self._unflushed_bytes += out.size
        self._has_acked = True
        self.latencies.add(part.times, out, time.time() * 1000, time.monotonic())

    def on_produce_response(self) -> None:
        """Start the next step of a flush if it is due."""
        if self._map_pending and self._map.is_idle:
            self._positions_pending, self._map_pending = self._map_pending, []
            self._positions.write(
                (part.source.tp, stored) for part, stored in self._positions_pending
            )
        if self._positions_pending and self._positions.is_idle:
            storing, self._positions_pending = self._positions_pending, []
            self.latencies.add_commit(time.monotonic() - self._flush_started)
            for part, stored in storing:
                part.stored = stored
                part.is_changed = True
                if part.source.tp in self._awaited and part.is_stored:
                    self._awaited.pop(part.source.tp)()
            self._publish_runs()
            if self._syncs is not None:
                self._syncs.promote_delayed()
        if self._is_idle and (self._final_flush_requested or self._is_flush_due):
            self._final_flush_requested = False
            self._write_map()

    def handles_lost_sequence(self, part: ProducePartition) -> bool:  # noqa: ARG002 - always compares
        return False

    def handles_truncated_target(self, part: ProducePartition) -> bool:  # noqa: ARG002 - always compares
        return False

    def store_position(self, part: CopyPartition, then: Callable[[], None]) -> None:
        """Flush as soon as possible; calls `then` after that."""
        self._awaited[part.source.tp] = then
        self._is_flush_due = part.is_dirty = True
        self.on_produce_response()

    def tick(self, now: float) -> None:
        """Publish copied runs; flush when it is due."""
        self._publish_runs()
        self._check_map_timeout()
        is_due = now >= self._next_flush or self._unflushed_bytes >= FLUSH_BYTES
        if is_due and self._is_idle:
            self._next_flush = now + self._flush_seconds
            self._write_map()

    def _check_map_timeout(self) -> None:
        """Disable an offset map that cannot be written, because positions wait for it."""
        is_waiting = self._has_acked or bool(self._awaited)
        self._map_waits = self._map_waits + is_waiting if self._map_pending else 0
        self._has_acked = False
        if self._map_waits > _MAP_TIMEOUT_TICKS:
            self._map.disable(f"no response for {_MAP_TIMEOUT_TICKS} s")
            self.on_produce_response()

    def _publish_runs(self) -> None:
        """Add copied runs to the offset map and to offset syncs."""
        for part in self._parts:
            if part.runs.fresh or part.unsynced:
                part.map_copied_runs()
                runs = part.drain_unsynced()
                if self._syncs is not None:
                    self._syncs.add_runs(part.source.tp, runs)

    def flush(self) -> None:
        """Start the final flush after the current one."""
        self._final_flush_requested = True
        self.on_produce_response()

    def close(self) -> None:
        """Nothing to do."""

    def _write_map(self) -> None:
        dirty = [part for part in self._parts if part.is_dirty]
        self._unflushed_bytes = 0
        self._is_flush_due = False
        for part in dirty:
            part.is_dirty = False
        self._flush_started = time.monotonic()
        self._map_pending = [(part, part.stored_position()) for part in dirty]
        self._map.write(
            [(part.source.tp, chunk) for part in dirty for chunk in part.chunks_to_write()]
        )
        self.on_produce_response()  # without a map, positions are written at once
