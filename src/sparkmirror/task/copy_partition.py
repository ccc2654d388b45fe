# SPDX-License-Identifier: Apache-2.0
"""State of one copied partition: source, target, position, counts, error, and its offset map.

`CopiedRuns` records which source offsets became which target offsets since the last update of the
offset map. Within a run, target = source + constant. Adjacent runs are merged, so an acknowledged
record batch costs a few comparisons; all other work happens at most once a second.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sparkmirror.formats.map_chunk import MapChunk, MappedRun
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import NO_PRODUCER, ProducerState, TopicPartition
from sparkmirror.offsets.map_builder import MapBuilder, MapSavepoint
from sparkmirror.state.remedies import error_command
from sparkmirror.task.comparison import Comparison, ComparisonOutcome, EstimateBounds, UnmappedRange
from sparkmirror.task.latency_histogram import PartitionTimesList
from sparkmirror.task.messages import (
    PartitionProgress,
    PartitionStart,
    Receipt,
    chunk_from_text,
    chunk_to_text,
)
from sparkmirror.task.producer_verdicts import ProducerVerdicts
from sparkmirror.wire import error_codes
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.outgoing import OutgoingBatch, SkippedBatch
from sparkmirror.wire.produce_partition import ProducePartition


class ClusterAliases(NamedTuple):
    """The aliases of both clusters, the flow and its connector, for error messages."""

    source: str
    target: str
    flow: str = ""
    connector: str = ""


class ResumePoint(NamedTuple):
    """A source position and the matching target offset and producer state."""

    position: int  # the next source offset
    downstream: int  # the target offset of the flow's last record before the position
    producer: ProducerState


class EstimatedPoint(NamedTuple):
    """An estimated earlier resume point, used after the target lost records."""

    point: ResumePoint
    estimate: EstimateBounds


class Savepoint(NamedTuple):
    """The committed state of a partition; an abort restores it."""

    position: int
    downstream: int
    records: int
    bytes: int
    leader_epoch: int
    map: MapSavepoint


class CopyPartition:
    """The state of one copied topic partition."""

    __slots__ = (
        "_aliases",
        "bytes",
        "comparison",
        "downstream",
        "error",
        "error_code",
        "estimate",
        "is_changed",
        "is_dirty",
        "is_paused",
        "is_recording",
        "is_taken_over",
        "is_target_unreadable",
        "leader_epoch",
        "map_builder",
        "next_sequence",
        "position",
        "records",
        "runs",
        "savepoint",
        "skipped_records",
        "skipped_until",
        "source",
        "start",
        "stored",
        "target",
        "times",
        "unsynced",
        "verdicts",
        "verify_next_batch",
    )

    def __init__(self, start: PartitionStart, aliases: ClusterAliases) -> None:
        topic_id = uuid.UUID(start.topic_id) if start.topic_id else None
        target_topic_id = uuid.UUID(start.target_topic_id) if start.target_topic_id else None
        self.start = start
        self._aliases = aliases
        self.source = FetchPartition(
            start.source,
            start.position,
            stop_at=start.stop_at,
            topic_id=topic_id,
            last_epoch=start.leader_epoch,
        )
        state = start.producer
        self.target = ProducePartition(
            start.target,
            state.producer_id,
            state.producer_epoch,
            state.next_sequence,
            target_topic_id,
        )
        # The newest leader epoch of records enqueued for the target, without records that were read
        # for a comparison.
        self.leader_epoch = start.leader_epoch
        self.position = start.position  # all records before it are acknowledged or skipped
        self.downstream = start.downstream
        self.next_sequence = state.next_sequence  # of the first unacknowledged record
        self.comparison: Comparison | None = None
        self.estimate: EstimatedPoint | None = None
        self.is_taken_over = start.is_handed_over
        self.is_paused = False  # not read, because the target cannot be written
        self.is_recording = False  # refused records are being recorded; reading waits for that
        self.is_target_unreadable = False  # no READ on the target, so no comparisons
        self.verify_next_batch = False  # read back the first record batch after a take-over
        self.verdicts: ProducerVerdicts | None = None  # None: nothing is skipped
        self.records = 0
        self.bytes = 0
        self.skipped_records = 0  # that another flow copied to the source
        self.skipped_until = start.position  # counted up to this source offset
        self.runs = CopiedRuns()
        self.map_builder = (
            MapBuilder.resume(chunk_from_text(start.map_chunk))
            if start.map_chunk
            else MapBuilder(start.position, start.downstream + 1)
        )
        self.unsynced: list[MappedRun] = []  # not in an offset sync yet
        self.stored = self.stored_position()  # the value in the offsets topic
        self.savepoint: Savepoint | None = None  # exactly-once only
        self.is_dirty = False  # changed since the last flush
        self.is_changed = True  # changed since the last progress report
        self.error_code = error_codes.NONE
        self.error = ""
        self.times: PartitionTimesList = []

    @property
    def is_finished(self) -> bool:
        """Whether a bounded run has copied this partition completely."""
        return self.is_taken_over and self.source.is_finished and self.target.is_idle

    def set_position(self, position: int) -> None:
        """Set the position: all records before it are acknowledged or skipped."""
        if position != self.position:
            self.position = position
            self.is_dirty = True
            self.is_changed = True

    def set_source_error(self, code: int, text: str = "") -> None:
        """Set why the source partition cannot be read; code 0 clears the partition's error."""
        self._set_error(code, self._aliases.source, self.source.tp, text)

    def set_target_error(self, code: int, text: str = "") -> None:
        """Set why the target partition cannot be used; code 0 clears the partition's error."""
        self._set_error(code, self._aliases.target, self.target.tp, text)

    def _set_error(self, code: int, cluster: str, tp: TopicPartition, text: str) -> None:
        self.error_code = code
        self.error = ""
        if code:
            named = self._aliases
            command = error_command(code, self.source.tp, named.flow, named.connector)
            explanation = (text or error_codes.advice(code)) + command
            self.error = f"{cluster}: {tp}: {error_codes.name(code)}: {explanation}"
        self.is_changed = True

    def count_skipped(self, batches: Iterable[SkippedBatch]) -> None:
        """Count skipped record batches; those that are read again count once."""
        for next_offset, records in batches:
            if next_offset > self.skipped_until:
                self.skipped_until = next_offset
                self.skipped_records += records

    @property
    def skips(self) -> Mapping[int, bool] | None:
        """Known producer ids, and whether their record batches are skipped; None: copy all."""
        return None if self.verdicts is None else self.verdicts.skips

    @property
    def expects_other_writers(self) -> bool:
        """Whether clients and other flows write to the remote topic as well."""
        return self.verdicts is not None and self.verdicts.expects_other_writers

    @property
    def resume_point(self) -> ResumePoint:
        """The last acknowledged state, or an estimate after the target lost records."""
        if self.estimate is not None:
            return self.estimate.point
        return ResumePoint(self.position, self.downstream, self._producer)

    @property
    def _producer(self) -> ProducerState:
        return ProducerState(
            self.target.producer_id, self.target.producer_epoch, self.next_sequence
        )

    def apply_estimate(self) -> None:
        """Continue at the estimated resume point, if there is one."""
        estimate, self.estimate = self.estimate, None
        if estimate is not None:
            point = estimate.point
            self.set_position(point.position)
            self.downstream = point.downstream
            self.next_sequence = point.producer.next_sequence
            self.target.next_sequence = self.next_sequence
            self.map_copied_runs()
            self.map_builder.start_chunk(point.position, point.downstream + 1)

    def resume_producer(self, *, is_known: bool) -> None:
        """Continue with the flow's producer id; `is_known`: the broker has its state."""
        self.target.next_sequence = self.next_sequence
        self.target.is_producer_known = is_known
        self.target.idle_since = time.monotonic()

    def replace_producer(self, producer_id: int, producer_epoch: int) -> None:
        self.target.producer_id, self.target.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.resume_producer(is_known=False)
        self.is_dirty = True

    def apply_comparison(self, comparison: Comparison) -> None:
        """Continue where a comparison ended: after the flow's last record on the target."""
        self.map_copied_runs()  # they precede the compared records
        position, next_downstream = comparison.position, comparison.end_downstream + 1
        if self.estimate is not None:
            # The resume point is an estimate: older chunks cover what is before the first match.
            first = next((one for one in comparison.matched if isinstance(one, MappedRun)), None)
            if first is not None:
                self.map_builder.start_chunk(first.source, first.target)
            else:
                self.map_builder.start_chunk(position, next_downstream)
        self.estimate = None
        for one in comparison.matched:
            if isinstance(one, UnmappedRange):
                self.map_builder.leave_hole(one.first, one.end)
            else:
                self.map_builder.add(*one)
                self.unsynced.append(one)
        if comparison.outcome is ComparisonOutcome.SOURCE_TRUNCATED:
            self.map_builder.start_chunk(position, next_downstream)
        self.set_position(position)
        self.downstream = comparison.end_downstream
        self.next_sequence = comparison.end_sequence
        self.leader_epoch = self.source.last_leader_epoch
        self.resume_producer(is_known=not comparison.reads_to_log_end)
        self.is_dirty = True

    def truncate_to(self, position: int) -> None:
        """Continue at the new end of a truncated source log."""
        self.map_copied_runs()
        self.map_builder.start_chunk(position, self.downstream + 1)
        self.leader_epoch = self.source.last_leader_epoch
        self.skipped_until = position
        self.set_position(position)

    def set_savepoint(self) -> None:
        """Save the current state as committed."""
        self.savepoint = Savepoint(
            self.position,
            self.downstream,
            self.records,
            self.bytes,
            self.leader_epoch,
            self.map_builder.savepoint(),
        )
        self.stored = self.stored_position()
        self.is_changed = True

    def roll_back(self) -> None:
        """Restore the last committed state."""
        if self.savepoint is None:
            return
        saved = self.savepoint
        self.position, self.downstream = saved.position, saved.downstream
        self.records, self.bytes = saved.records, saved.bytes
        self.source.last_leader_epoch = self.leader_epoch = saved.leader_epoch
        self.runs.clear()
        self.map_builder.rollback(saved.map)
        self.unsynced.clear()
        self.is_dirty = False
        self.is_changed = True

    def map_copied_runs(self) -> None:
        """Move the copied runs since the last call into the offset map."""
        for run in self.runs.drain():
            self.map_builder.add(*run)
            self.unsynced.append(run)

    def drain_unsynced(self) -> list[MappedRun]:
        """Remove and return the runs that are not in an offset sync yet."""
        runs, self.unsynced = self.unsynced, []
        return runs

    def chunks_to_write(self, markers: int = 0) -> list[MapChunk]:
        """Return the offset map chunks to write before the position is stored.

        `markers`: how many transaction markers will follow the last record.
        """
        self.map_copied_runs()
        return self.map_builder.drain(self.position, self.downstream + 1 + markers)

    def stored_position(self) -> StoredPosition:
        """Return the position for the offsets topic, with the last offset instead of the next."""
        return StoredPosition(
            self.position - 1,
            self.downstream,
            self._producer,
            self.leader_epoch,
            self.start.topic_id,
            self.start.target_topic_id,
        )

    def progress(self) -> PartitionProgress:
        """Return the partition's progress; with exactly-once, only committed records."""
        saved = self.savepoint
        state = self if saved is None or saved.records == self.records else saved
        stored = self.stored
        producer = stored.producer or NO_PRODUCER
        return PartitionProgress(
            topic=self.source.tp.topic,
            partition=self.source.tp.partition,
            position=state.position,
            downstream=state.downstream,
            end_offset=self.source.end_offset,
            records=state.records,
            bytes=state.bytes,
            error_code=self.error_code,
            error=self.error,
            next_sequence=producer.next_sequence,
            leader_epoch=stored.leader_epoch,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            stored_position=stored.offset + 1,
            stored_downstream=-1 if stored.downstream is None else stored.downstream,
            skipped_records=self.skipped_records,
        )

    @property
    def is_stored(self) -> bool:
        """Whether offset map and stored position are up to date."""
        return not self.is_dirty and self.stored.offset + 1 == self.position

    def _hand_over_point(self) -> ResumePoint:
        """Return where the next task resumes; it compares records that are not in the map yet."""
        stored = self.stored
        if self.is_stored or stored.producer is None or stored.downstream is None:
            return ResumePoint(self.position, self.downstream, self._producer)
        return ResumePoint(stored.offset + 1, stored.downstream, stored.producer)

    def receipt(self, split: int) -> Receipt:
        """Return the partition's state at the end of its task."""
        self.map_copied_runs()
        tp, end = self.source.tp, self._hand_over_point()
        is_current = end.position == self.position
        return Receipt(
            split=split,
            topic=tp.topic,
            partition=tp.partition,
            records=self.records,
            bytes=self.bytes,
            position=end.position,
            downstream=end.downstream,
            producer_id=end.producer.producer_id,
            producer_epoch=end.producer.producer_epoch,
            next_sequence=end.producer.next_sequence,
            leader_epoch=self.leader_epoch if is_current else self.stored.leader_epoch,
            is_clean=self.target.is_idle and self.is_taken_over and self.is_stored,
            error_code=self.error_code,
            error=self.error,
            map_chunk=chunk_to_text(
                self.map_builder.open_chunk(self.position, self.downstream + 1)
            ),
        )


class CopiedRuns:
    """The copied runs of one partition that are not in the offset map yet."""

    __slots__ = ("_source_end", "_target_end", "fresh")

    def __init__(self) -> None:
        self.fresh: list[list[int]] = []  # first source offset, first target offset, length
        self._source_end = self._target_end = -1  # offsets after the last run

    def add(self, out: OutgoingBatch) -> None:
        """Add an acknowledged record batch."""
        target = out.base_offset
        for first, length in out.runs:
            if self.fresh and first == self._source_end and target == self._target_end:
                self.fresh[-1][2] += length
            else:
                self.fresh.append([first, target, length])
            target += length
            self._source_end, self._target_end = first + length, target

    def clear(self) -> None:
        self.fresh = []

    def drain(self) -> list[MappedRun]:
        """Remove and return the runs."""
        runs = [MappedRun(*run) for run in self.fresh]
        self.fresh = []
        return runs
