# SPDX-License-Identifier: Apache-2.0
"""One topic partition of a task's split: both sides of it, and its accounts."""

from __future__ import annotations

import time
import uuid
from typing import NamedTuple

from sparkmirror.formats.map_chunk import MapChunk, MappedRun
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import NO_PRODUCER, ProducerState, TopicPartition
from sparkmirror.offsets.map_builder import MapBuilder, MapMark
from sparkmirror.pipeline.comparison import Comparison, Estimate, Hole, Verdict
from sparkmirror.pipeline.contract import (
    PartitionProgress,
    PartitionStart,
    Receipt,
    chunk_from_text,
    chunk_to_text,
)
from sparkmirror.pipeline.runs import Runs
from sparkmirror.wire import error_codes
from sparkmirror.wire.fetch_session import SourcePartition
from sparkmirror.wire.producer import TargetPartition


class Pair(NamedTuple):
    """A point at which both sides are known to agree."""

    position: int  # the next source offset
    downstream: int  # our records before the position are on the target up to this offset
    producer: ProducerState


class MovedBack(NamedTuple):
    """An earlier pair, by a guess, to compare from because the target lost records."""

    pair: Pair
    estimate: Estimate


class Savepoint(NamedTuple):
    """What is committed of a partition: where a transaction that is thrown away goes back to."""

    position: int
    downstream: int
    records: int
    bytes: int
    leader_epoch: int
    map: MapMark


class CopyPartition:
    """Where copying one topic partition stands."""

    __slots__ = (
        "bytes",
        "comparison",
        "downstream",
        "is_dirty",
        "is_held_back",
        "is_taken_over",
        "is_unproven",
        "leader_epoch",
        "map",
        "moved_back",
        "next_sequence",
        "notable",
        "position",
        "records",
        "runs",
        "saved",
        "source",
        "start",
        "stored",
        "target",
        "trouble",
        "trouble_code",
        "unsynced",
    )

    def __init__(self, start: PartitionStart) -> None:
        topic_id = uuid.UUID(start.topic_id) if start.topic_id else None
        target_topic_id = uuid.UUID(start.target_topic_id) if start.target_topic_id else None
        self.start = start
        self.source = SourcePartition(
            start.source,
            start.position,
            stop_at=start.stop_at,
            topic_id=topic_id,
            last_epoch=start.leader_epoch,
        )
        state = start.producer
        self.target = TargetPartition(
            start.target,
            state.producer_id,
            state.producer_epoch,
            state.next_sequence,
            target_topic_id,
        )
        # The newest one of the source's log up to what was offered to the target; what is only read
        # to be compared does not count.
        self.leader_epoch = start.leader_epoch
        self.position = start.position  # everything before it is acknowledged or was skipped
        self.downstream = start.downstream
        self.next_sequence = state.next_sequence  # of the first record that is not acknowledged
        self.comparison: Comparison | None = None
        self.moved_back: MovedBack | None = None
        self.is_taken_over = start.is_handed_over
        self.is_held_back = False  # it cannot be written, so it is not read
        self.is_unproven = False  # our first record batch since a take-over is to be read back
        self.records = 0
        self.bytes = 0
        self.runs = Runs()
        self.map = (
            MapBuilder.going_on(chunk_from_text(start.map_chunk))
            if start.map_chunk
            else MapBuilder(start.position, start.downstream + 1)
        )
        self.unsynced: list[MappedRun] = []  # not said yet in an offset sync
        self.stored = self.stored_position()  # what the offsets topic has
        self.saved: Savepoint | None = None  # in transactions only: elsewhere all that is
        # acknowledged counts
        self.is_dirty = False
        self.notable = True  # changed since the last progress report
        self.trouble_code = error_codes.NONE
        self.trouble = ""

    @property
    def is_finished(self) -> bool:
        """Everything wanted has been copied (a bounded run)."""
        return self.is_taken_over and self.source.is_finished and self.target.is_idle

    def move_to(self, position: int) -> None:
        """Everything before the position is done with."""
        if position != self.position:
            self.position = position
            self.is_dirty = True
            self.notable = True

    def set_trouble(self, code: int, cluster: str, tp: TopicPartition, text: str) -> None:
        """Remember why nothing moves, or (with code 0) that it moves again."""
        self.trouble_code = code
        self.trouble = ""
        if code:
            explanation = text or error_codes.advice(code)
            self.trouble = f"{cluster}: {tp}: {error_codes.name(code)}: {explanation}"
        self.notable = True

    @property
    def pair(self) -> Pair:
        """Where both sides agree: what is acknowledged."""
        if self.moved_back is not None:
            return self.moved_back.pair
        return Pair(self.position, self.downstream, self._producer)

    @property
    def _producer(self) -> ProducerState:
        return ProducerState(
            self.target.producer_id, self.target.producer_epoch, self.next_sequence
        )

    def settle(self) -> None:
        """The pair to go on at has been found."""
        moved, self.moved_back = self.moved_back, None
        if moved is not None:
            pair = moved.pair
            self.move_to(pair.position)
            self.downstream = pair.downstream
            self.next_sequence = pair.producer.next_sequence
            self.target.next_sequence = self.next_sequence
            self.account()
            self.map.begin(pair.position, pair.downstream + 1)

    def introduce(self, *, is_known: bool) -> None:
        """Write on as the flow's producer; `is_known`: the broker remembers it."""
        self.target.next_sequence = self.next_sequence
        self.target.is_introduced = is_known
        self.target.idle_since = time.monotonic()

    def become(self, producer_id: int, producer_epoch: int) -> None:
        """Write on as a new producer."""
        self.target.producer_id, self.target.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.introduce(is_known=False)
        self.is_dirty = True

    def adopt(self, comparison: Comparison) -> None:
        """Go on where a comparison ended, behind the last record of ours on the target."""
        self.account()  # what is fresh came before what was compared
        position, behind = comparison.position, comparison.end_downstream + 1
        if self.moved_back is not None:
            # The earlier pair is a guess. What lies before the first match is in older chunks.
            first = next((one for one in comparison.matched if isinstance(one, MappedRun)), None)
            if first is not None:
                self.map.begin(first.source, first.target)
            else:
                self.map.begin(position, behind)
        self.moved_back = None
        for one in comparison.matched:
            if isinstance(one, Hole):
                self.map.interrupt(one.first, one.end)
            else:
                self.map.add(*one)
                self.unsynced.append(one)
        if comparison.verdict is Verdict.CUT:
            self.map.begin(position, behind)
        self.move_to(position)
        self.downstream = comparison.end_downstream
        self.next_sequence = comparison.end_sequence
        self.leader_epoch = self.source.last_epoch
        self.introduce(is_known=not comparison.has_no_goal)
        self.is_dirty = True

    def cut_off(self, position: int) -> None:
        """The source lost its tail: what comes from this position on is new."""
        self.account()
        self.map.begin(position, self.downstream + 1)
        self.leader_epoch = self.source.last_epoch
        self.move_to(position)

    def save(self) -> None:
        """All that is acknowledged is committed."""
        self.saved = Savepoint(
            self.position,
            self.downstream,
            self.records,
            self.bytes,
            self.leader_epoch,
            self.map.mark(),
        )
        self.stored = self.stored_position()
        self.notable = True

    def go_back(self) -> None:
        """What was acknowledged since the last commit is thrown away."""
        if self.saved is None:
            return
        saved = self.saved
        self.position, self.downstream = saved.position, saved.downstream
        self.records, self.bytes = saved.records, saved.bytes
        self.source.last_epoch = self.leader_epoch = saved.leader_epoch
        self.runs.clear()
        self.map.return_to(saved.map)
        self.unsynced.clear()
        self.is_dirty = False
        self.notable = True

    def account(self) -> None:
        """Enter what was copied since the last time into the offset map."""
        for run in self.runs.settle():
            self.map.add(*run)
            self.unsynced.append(run)

    def take_unsynced(self) -> list[MappedRun]:
        """What was copied since this was last asked."""
        taken, self.unsynced = self.unsynced, []
        return taken

    def new_chunks(self, markers: int = 0) -> list[MapChunk]:
        """What the offset map is to say before the position is stored.

        Behind the last record come as many markers, of the transaction that all this is in.
        """
        self.account()
        return self.map.take(self.position, self.downstream + 1 + markers)

    def stored_position(self) -> StoredPosition:
        """The position as the offsets topic keeps it: the last offset that is done with."""
        return StoredPosition(
            self.position - 1,
            self.downstream,
            self._producer,
            self.leader_epoch,
            self.start.topic_id,
            self.start.target_topic_id,
        )

    def progress(self) -> PartitionProgress:
        """A line of a progress report; in transactions it tells what is committed."""
        seen = self if self.saved is None else self.saved
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
            trouble_code=self.trouble_code,
            trouble=self.trouble,
            next_sequence=producer.next_sequence,
            leader_epoch=stored.leader_epoch,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            stored_position=stored.offset + 1,
            stored_downstream=-1 if stored.downstream is None else stored.downstream,
        )

    @property
    def is_stored(self) -> bool:
        """What was copied is in the offset map and in the stored position."""
        return not self.is_dirty and self.stored.offset + 1 == self.position

    def _end(self) -> Pair:
        """Where a successor begins: it finds again what is on the target but in no map yet."""
        stored = self.stored
        if self.is_stored or stored.producer is None or stored.downstream is None:
            return Pair(self.position, self.downstream, self._producer)
        return Pair(stored.offset + 1, stored.downstream, stored.producer)

    def receipt(self, split: int) -> Receipt:
        """Where the partition stands at the end of its task."""
        self.account()
        tp, end = self.source.tp, self._end()
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
            error_code=self.trouble_code,
            error=self.trouble,
            map_chunk=chunk_to_text(self.map.open_chunk(self.position, self.downstream + 1)),
        )
