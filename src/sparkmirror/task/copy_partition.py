# SPDX-License-Identifier: Apache-2.0
"""One copied topic partition: both sides, position, counts, error, and its part of the offset map.

`CopiedRuns` keeps which source offsets became which target offsets since the offset map was last
updated. Inside a run, target = source + constant. Runs are joined while both sides continue without
a gap, so an acknowledged record batch costs a few comparisons; everything else happens once a
second or less.
"""

from __future__ import annotations

import time
import uuid
from typing import NamedTuple

from sparkmirror.formats.map_chunk import MapChunk, MappedRun
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import NO_PRODUCER, ProducerState, TopicPartition
from sparkmirror.offsets.map_builder import MapBuilder, MapSavepoint
from sparkmirror.task.comparison import Comparison, ComparisonOutcome, EstimateBounds, UnmappedRange
from sparkmirror.task.messages import (
    PartitionProgress,
    PartitionStart,
    Receipt,
    chunk_from_text,
    chunk_to_text,
)
from sparkmirror.wire import error_codes
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition


class ClusterAliases(NamedTuple):
    """The names of both clusters, for error texts."""

    source: str
    target: str


class ResumePoint(NamedTuple):
    """A point at which both sides are known to agree."""

    position: int  # the next source offset
    downstream: int  # our records before the position are on the target up to this offset
    producer: ProducerState


class EstimatedPoint(NamedTuple):
    """An estimated earlier resume point, to compare from because the target lost records."""

    point: ResumePoint
    estimate: EstimateBounds


class Savepoint(NamedTuple):
    """What is committed of a partition: an aborted transaction goes back to it."""

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
        "source",
        "start",
        "stored",
        "target",
        "unsynced",
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
        # The newest leader epoch of the source up to what was enqueued for the target; records that
        # were read for a comparison do not count.
        self.leader_epoch = start.leader_epoch
        self.position = start.position  # everything before it is acknowledged or was skipped
        self.downstream = start.downstream
        self.next_sequence = state.next_sequence  # of the first record that is not acknowledged
        self.comparison: Comparison | None = None
        self.estimate: EstimatedPoint | None = None
        self.is_taken_over = start.is_handed_over
        self.is_paused = False  # it cannot be written, so it is not read
        self.is_recording = False  # its refused records are being recorded; it is read again after
        self.is_target_unreadable = False  # no READ on the target: there are no comparisons
        self.verify_next_batch = False  # the first record batch after a take-over is read back
        self.records = 0
        self.bytes = 0
        self.runs = CopiedRuns()
        self.map_builder = (
            MapBuilder.resume(chunk_from_text(start.map_chunk))
            if start.map_chunk
            else MapBuilder(start.position, start.downstream + 1)
        )
        self.unsynced: list[MappedRun] = []  # not in an offset sync yet
        self.stored = self.stored_position()  # what the offsets topic has
        self.savepoint: Savepoint | None = None  # in transactions only: elsewhere all that is
        # acknowledged counts
        self.is_dirty = False
        self.is_changed = True  # changed since the last progress report
        self.error_code = error_codes.NONE
        self.error = ""

    @property
    def is_finished(self) -> bool:
        """Everything wanted has been copied (a bounded run)."""
        return self.is_taken_over and self.source.is_finished and self.target.is_idle

    def set_position(self, position: int) -> None:
        """Set the position: everything before it is acknowledged or was skipped."""
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
            explanation = text or error_codes.advice(code)
            self.error = f"{cluster}: {tp}: {error_codes.name(code)}: {explanation}"
        self.is_changed = True

    @property
    def resume_point(self) -> ResumePoint:
        """Where to resume: what is acknowledged, or an estimate."""
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
        moved, self.estimate = self.estimate, None
        if moved is not None:
            pair = moved.point
            self.set_position(pair.position)
            self.downstream = pair.downstream
            self.next_sequence = pair.producer.next_sequence
            self.target.next_sequence = self.next_sequence
            self.map_copied_runs()
            self.map_builder.start_chunk(pair.position, pair.downstream + 1)

    def resume_producer(self, *, is_known: bool) -> None:
        """Continue with the flow's producer id; `is_known`: the broker remembers it."""
        self.target.next_sequence = self.next_sequence
        self.target.is_producer_known = is_known
        self.target.idle_since = time.monotonic()

    def replace_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Continue with a new producer id."""
        self.target.producer_id, self.target.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.resume_producer(is_known=False)
        self.is_dirty = True

    def apply_comparison(self, comparison: Comparison) -> None:
        """Continue where a comparison ended: after our last record on the target."""
        self.map_copied_runs()  # these came before what was compared
        position, behind = comparison.position, comparison.end_downstream + 1
        if self.estimate is not None:
            # The resume point is an estimate: what is before the first match is in older chunks.
            first = next((one for one in comparison.matched if isinstance(one, MappedRun)), None)
            if first is not None:
                self.map_builder.start_chunk(first.source, first.target)
            else:
                self.map_builder.start_chunk(position, behind)
        self.estimate = None
        for one in comparison.matched:
            if isinstance(one, UnmappedRange):
                self.map_builder.leave_hole(one.first, one.end)
            else:
                self.map_builder.add(*one)
                self.unsynced.append(one)
        if comparison.outcome is ComparisonOutcome.SOURCE_TRUNCATED:
            self.map_builder.start_chunk(position, behind)
        self.set_position(position)
        self.downstream = comparison.end_downstream
        self.next_sequence = comparison.end_sequence
        self.leader_epoch = self.source.last_leader_epoch
        self.resume_producer(is_known=not comparison.reads_to_log_end)
        self.is_dirty = True

    def truncate_to(self, position: int) -> None:
        """Continue at the end of a truncated source: its next records are new."""
        self.map_copied_runs()
        self.map_builder.start_chunk(position, self.downstream + 1)
        self.leader_epoch = self.source.last_leader_epoch
        self.set_position(position)

    def set_savepoint(self) -> None:
        """Keep the present state as committed."""
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
        """Go back to what was last committed."""
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
        """Enter what was copied since the last time into the offset map."""
        for run in self.runs.drain():
            self.map_builder.add(*run)
            self.unsynced.append(run)

    def drain_unsynced(self) -> list[MappedRun]:
        """What was copied since this was last asked."""
        taken, self.unsynced = self.unsynced, []
        return taken

    def chunks_to_write(self, markers: int = 0) -> list[MapChunk]:
        """The chunks of the offset map to write before the position is stored.

        Behind the last record come as many markers, of the transaction that all this is in.
        """
        self.map_copied_runs()
        return self.map_builder.drain(self.position, self.downstream + 1 + markers)

    def stored_position(self) -> StoredPosition:
        """The position as the offsets topic keeps it: the last offset, not the next one."""
        return StoredPosition(
            self.position - 1,
            self.downstream,
            self._producer,
            self.leader_epoch,
            self.start.topic_id,
            self.start.target_topic_id,
        )

    def progress(self) -> PartitionProgress:
        """The partition in a progress report; in transactions, what is committed."""
        seen = self if self.savepoint is None else self.savepoint
        stored = self.stored
        producer = stored.producer or NO_PRODUCER
        return PartitionProgress(
            topic=self.source.tp.topic,
            partition=self.source.tp.partition,
            position=seen.position,
            downstream=seen.downstream,
            end_offset=self.source.end_offset,
            records=seen.records,
            bytes=seen.bytes,
            error_code=self.error_code,
            error=self.error,
            next_sequence=producer.next_sequence,
            leader_epoch=stored.leader_epoch,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            stored_position=stored.offset + 1,
            stored_downstream=-1 if stored.downstream is None else stored.downstream,
        )

    @property
    def is_stored(self) -> bool:
        """Whether offset map and stored position have everything that was copied."""
        return not self.is_dirty and self.stored.offset + 1 == self.position

    def _hand_over_point(self) -> ResumePoint:
        """Where the next task resumes: it compares what is on the target but not in the map yet."""
        stored = self.stored
        if self.is_stored or stored.producer is None or stored.downstream is None:
            return ResumePoint(self.position, self.downstream, self._producer)
        return ResumePoint(stored.offset + 1, stored.downstream, stored.producer)

    def receipt(self, split: int) -> Receipt:
        """The partition's state at the end of its task."""
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
    """The runs of one topic partition that the offset map does not have yet."""

    __slots__ = ("_source_end", "_target_end", "fresh")

    def __init__(self) -> None:
        self.fresh: list[list[int]] = []  # first source offset, first target offset, length
        self._source_end = self._target_end = -1  # behind the last one

    def add(self, out: OutgoingBatch) -> None:
        """Count an acknowledged record batch."""
        target = out.base_offset
        for first, length in out.runs:
            if self.fresh and first == self._source_end and target == self._target_end:
                self.fresh[-1][2] += length
            else:
                self.fresh.append([first, target, length])
            target += length
            self._source_end, self._target_end = first + length, target

    def clear(self) -> None:
        """Forget what the offset map does not have yet."""
        self.fresh = []

    def drain(self) -> list[MappedRun]:
        """Hand over what the offset map does not have yet."""
        found = [MappedRun(*run) for run in self.fresh]
        self.fresh = []
        return found
