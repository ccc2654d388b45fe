# SPDX-License-Identifier: Apache-2.0
"""Reads a range of the target log once, to verify writes and to detect other writers.

The first acknowledged record batch after a take-over is compared with the batch that was sent. If
acknowledged offsets are not consecutive, the range between them shows which other producers write
there, unless that is normal (`CopyPartition.expects_other_writers`). Owned by the task's thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.messages import OtherWriter
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import SharedBuffer
from sparkmirror.wire.outgoing import AbortedTransaction, OutgoingBatch
from sparkmirror.wire.record_batch import HEADER_SIZE, RecordBatch, split_batches
from sparkmirror.wire.records import raw_records

_INTERVAL_SECONDS = 60.0  # between two searches of one partition for other writers


@dataclass(slots=True)
class _Readback:
    part: CopyPartition
    reader: FetchPartition  # stops at the end of the acknowledged record batch
    expected: OutgoingBatch | None  # the record batch to verify, until it has been found


class TargetReadback:
    """The read-backs of one task; the fetch listener of their partitions."""

    def __init__(self, fetcher: Fetcher, target_alias: str, reporter: IncidentReporter) -> None:
        self._fetcher = fetcher
        self._target_alias = target_alias
        self._reporter = reporter
        self._running: dict[TopicPartition, _Readback] = {}
        self._last_at: dict[TopicPartition, float] = {}

    def start(self, part: CopyPartition, out: OutgoingBatch) -> None:
        """Read up to the end of an acknowledged record batch; verify it after a take-over.

        Does nothing during a comparison, if the target cannot be read, or if the partition was
        searched for other writers recently.
        """
        tp = part.target.tp
        is_first, part.verify_next_batch = part.verify_next_batch, False
        now = time.monotonic()
        recently = now - self._last_at.get(tp, -_INTERVAL_SECONDS) < _INTERVAL_SECONDS
        is_read = part.comparison is not None or tp in self._running
        if is_read or part.is_target_unreadable or (recently and not is_first):
            return
        if not is_first:
            self._last_at[tp] = now
        first, end = part.resume_point.downstream + 1, out.base_offset + out.count
        if part.expects_other_writers:  # there may be any amount of their records in between
            first = out.base_offset
        reader = FetchPartition(tp, first, stop_at=end, listener=self)
        self._running[tp] = _Readback(part, reader, out if is_first else None)
        self._fetcher.add([reader])

    def cancel(self, tp: TopicPartition) -> None:
        """Stop the partition's read-back, if any."""
        readback = self._running.pop(tp, None)
        if readback is not None:
            self._fetcher.remove(readback.reader)

    def finish(self) -> None:
        """End the read-backs whose range has been read."""
        for tp, readback in [*self._running.items()]:
            if readback.reader.is_finished:
                if readback.expected is not None:
                    self._report_missing(readback, readback.expected, "does not exist")
                self.cancel(tp)

    # --- from the fetcher of the target

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],  # noqa: ARG002 - aborted records are checked too
        buffer: SharedBuffer,  # noqa: ARG002 - nothing is kept
    ) -> int:
        """Check record batches of the target."""
        readback = self._running[part.tp]
        position = part.position
        for record_batch in split_batches(records):
            self._check(readback, record_batch)
            position = max(position, record_batch.next_offset)
        return position

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:  # noqa: ARG002
        """Cancel the read-back; it is not retried."""
        self.cancel(part.tp)

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        """Nothing to do: an error cancels a read-back."""

    def _check(self, readback: _Readback, record_batch: RecordBatch) -> None:
        target = readback.part.target
        is_ours = record_batch.producer_id == target.producer_id
        is_before = record_batch.base_offset < (readback.reader.stop_at or 0)
        if not is_ours and not record_batch.is_control and is_before:
            self._reporter.other_writers.add(OtherWriter(*target.tp, record_batch.producer_id))
        out = readback.expected
        if out is None or record_batch.base_offset != out.base_offset:
            return
        readback.expected = None
        if record_batch.view[HEADER_SIZE:] != out.view[HEADER_SIZE:] and [
            frame.body for frame in raw_records(record_batch.view)
        ] != [frame.body for frame in raw_records(out.view)]:
            self._report_missing(readback, out, "differs from the one that was sent")

    def _report_missing(self, readback: _Readback, out: OutgoingBatch, text: str) -> None:
        """Report that an acknowledged record batch is not on the target."""
        runs = out.runs
        self._reporter.report_at(
            IncidentKind.RESUME_MISMATCH,
            readback.part,
            f"the record batch at offset {out.base_offset} on {self._target_alias} {text}: source "
            f"offsets {runs[0].first} to {runs[-1].first + runs[-1].length - 1} "
            f"({counted(out.count, 'record')}) are missing there",
        )
