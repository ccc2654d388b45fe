# SPDX-License-Identifier: Apache-2.0
"""Moves, pauses and resumes the reading of copied partitions. Owned by the task's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_queries import request_log_bounds
from sparkmirror.wire.outgoing import OutgoingBatch


class ReadControl:
    """Controls the fetch positions of a task's source partitions."""

    def __init__(self, source: Cluster, fetcher: Fetcher, *, read_committed: bool) -> None:
        self._source = source
        self._fetcher = fetcher
        self._read_committed = read_committed

    def start(self, parts: Iterable[CopyPartition]) -> None:
        """Start to read partitions that need no comparison."""
        self._fetcher.add(part.source for part in parts)

    def halt(self, part: CopyPartition) -> None:
        """Stop copying a partition until source and target have been compared."""
        part.source.queued_bytes = 0
        part.is_taken_over = False
        self._fetcher.pause(part.source, part.position)

    def pause(self, part: CopyPartition) -> None:
        """Stop reading a partition that cannot be written, to free memory for the others."""
        shed = part.target.shed_unsent()
        part.source.queued_bytes -= sum(out.source_size for out in shed)
        position = part.target.pending[-1].next_position if shed else None
        self._fetcher.pause(part.source, position)
        part.is_paused = True

    def reread(self, part: CopyPartition, pause: float) -> None:
        """Read from the position after a pause; the producer has dropped its queue."""
        part.is_paused = False
        part.source.queued_bytes = 0
        if part.is_recording:
            self._fetcher.pause(part.source, part.position)  # `reread_now` follows
        else:
            self._fetcher.seek_later(part.source, part.position, pause)

    def reread_now(self, part: CopyPartition) -> None:
        """Read from the position, after the refused records there have been recorded."""
        part.target.backoff.reset()
        part.set_target_error(error_codes.NONE)
        self.seek_to_positions([part])

    def seek_to_positions(self, parts: Iterable[CopyPartition]) -> None:
        """Read from the positions, to copy."""
        for part in parts:
            self._seek(part, part.position)
        self._fetcher.send_fetches()

    def seek_to_resume_points(self, parts: Iterable[CopyPartition]) -> None:
        """Read from the resume points, to compare."""
        for part in parts:
            part.source.stop_at = None  # a previous task may have copied beyond it
            self._seek(part, part.resume_point.position)
        self._fetcher.send_fetches()

    def _seek(self, part: CopyPartition, position: int) -> None:
        part.is_paused = False
        part.source.queued_bytes = 0
        self._fetcher.seek(part.source, position)

    def release_compared(self, part: CopyPartition, done: Iterable[OutgoingBatch]) -> None:
        """Release record batches that a comparison no longer needs."""
        for out in done:
            part.source.queued_bytes -= out.source_size
            out.release()
        self._fetcher.on_drained(part.source)
        part.is_changed = True

    def request_log_end(self, part: CopyPartition, done: Callable[[int | None], None]) -> None:
        """Request the source's log end for the isolation level; `done` gets None on error."""
        request_log_bounds(
            self._source,
            part.source.tp,
            read_committed=self._read_committed,
            done=lambda _first, end: done(end),
            failed=lambda _code: done(None),  # the caller retries at the next tick
        )
