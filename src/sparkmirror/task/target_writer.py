# SPDX-License-Identifier: Apache-2.0
"""Handles produce responses of copied partitions: acknowledgements, errors and refusals.

Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.delivery import Delivery
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.read_control import ReadControl
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.task.take_over import TakeOver
from sparkmirror.task.target_readback import TargetReadback
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.wire import error_codes
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition, RefusedBatch
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.record_batch import SEQUENCE_MASK


class TargetWriter:
    """The produce listener of a task's copied partitions."""

    def __init__(
        self,
        parts: Mapping[TopicPartition, CopyPartition],  # by target
        producer: Producer,
        fetcher: Fetcher,
        read_control: ReadControl,
        delivery: Delivery,
        take_over: TakeOver,
        truncation: TargetTruncation,
        readback: TargetReadback,
        refused: RefusedRecords,
        reporter: IncidentReporter,
        target_alias: str,
        *,
        is_transactional: bool,
    ) -> None:
        self._parts = parts
        self._producer = producer
        self._fetcher = fetcher
        self._read_control = read_control
        self._delivery = delivery
        self._take_over = take_over
        self._truncation = truncation
        self._readback = readback
        self._refused = refused
        self._reporter = reporter
        self._target_alias = target_alias
        self._is_transactional = is_transactional

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Update counts, offset map and position for an acknowledged record batch."""
        mine = self._parts[part.tp]
        source = mine.source
        if not mine.is_taken_over:
            return  # the comparison accounts for it
        if 0 <= out.base_offset <= mine.downstream:
            self._on_target_truncated(mine, out)
            return
        source.queued_bytes -= out.source_size
        if mine.is_paused:
            mine.is_paused = False
            self._fetcher.seek(source, source.position)
        self._fetcher.on_drained(source)
        mine.records += out.count
        mine.bytes += out.size
        if out.sequence >= 0:
            mine.next_sequence = (out.sequence + out.count) & SEQUENCE_MASK
        if out.base_offset >= 0:
            # With transactions a partition may start without knowing the target's log end.
            is_known = mine.downstream >= 0 or not self._is_transactional
            is_unexpected = is_known and out.base_offset != mine.downstream + 1
            if mine.verify_next_batch or (is_unexpected and not mine.expects_other_writers):
                self._readback.start(mine, out)
            mine.downstream = out.base_offset + out.count - 1
            mine.runs.add(out)
        elif out.runs:
            mine.map_copied_runs()
            mine.map_builder.leave_hole(out.runs[0].first, out.next_position)
        # Once the last record batch is acknowledged, skipped markers after it count as copied.
        mine.set_position(source.position if part.is_idle else out.next_position)
        self._delivery.on_acked(mine, out)

    def _on_target_truncated(self, mine: CopyPartition, out: OutgoingBatch) -> None:
        """Handle an append at an acknowledged offset: the target lost records."""
        if not self._delivery.handles_truncated_target(mine.target):
            self._read_control.halt(mine)
            self._producer.drop_unsent(mine.target)
            self._truncation.on_truncated(mine, mine.downstream + 1 - out.base_offset)

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """Show the error and stop reading, unless refused records are being recorded."""
        mine = self._parts[part.tp]
        self._reporter.counts.request_errors["target", code] += 1
        if mine.is_recording:
            return
        if code in error_codes.NOT_AUTHORIZED:
            cause = f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
            self._reporter.report_at(IncidentKind.REFUSED, mine, cause)
        mine.set_target_error(code, text)
        self._read_control.pause(mine)

    def on_produce_recovered(self, part: ProducePartition) -> None:
        self._parts[part.tp].set_target_error(error_codes.NONE)

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """Split the record batch, or record the refused records."""
        self._reporter.counts.request_errors["target", refused.code] += 1
        return self._refused.replace(self._parts[refused.partition.tp], refused)

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:
        """Read again from the last acknowledged position. Returns True: always possible."""
        self._read_control.reread(self._parts[part.tp], pause)
        return True

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:
        """Abort the transaction, or compare: another task wrote with this flow's producer id."""
        if self._delivery.handles_lost_sequence(part):
            return
        mine = self._parts[part.tp]
        self._read_control.halt(mine)
        self._reporter.notice(
            f"resume: {self._target_alias}: {part.tp}: out-of-order sequence; comparing source and "
            "target"
        )
        self._take_over.on_sequence_lost(mine, pause)
