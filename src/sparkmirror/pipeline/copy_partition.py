# SPDX-License-Identifier: Apache-2.0
"""One topic partition of a task's split: both sides of it, and its accounts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.contract import (
    END,
    RUN,
    PartitionProgress,
    PartitionStart,
    Receipt,
)
from sparkmirror.pipeline.runs import Runs
from sparkmirror.state.positions import StoredPosition
from sparkmirror.wire import error_codes
from sparkmirror.wire.fetch_session import SourcePartition
from sparkmirror.wire.producer import TargetPartition


class CopyPartition:
    """Where copying one topic partition stands."""

    __slots__ = (
        "bytes",
        "downstream",
        "is_dirty",
        "notable",
        "position",
        "records",
        "runs",
        "source",
        "start",
        "target",
        "trouble",
        "trouble_code",
    )

    def __init__(self, start: PartitionStart) -> None:
        topic_id = uuid.UUID(start.topic_id) if start.topic_id else None
        self.start = start
        self.source = SourcePartition(
            start.source, start.position, stop_at=start.stop_at, topic_id=topic_id
        )
        state = start.producer
        self.target = TargetPartition(
            start.target, state.producer_id, state.producer_epoch, state.next_sequence
        )
        self.position = start.position  # everything before it is acknowledged or was skipped
        self.downstream = start.downstream
        self.records = 0
        self.bytes = 0
        self.runs = Runs()
        self.is_dirty = not start.is_stored and start.position > 0
        self.notable = True  # changed since the last progress report
        self.trouble_code = error_codes.NONE
        self.trouble = ""

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

    def stored_position(self) -> StoredPosition:
        """The position as the offsets topic keeps it: the last offset that is done with."""
        return StoredPosition(self.position - 1, self.downstream if self.downstream >= 0 else None)

    def progress(self) -> PartitionProgress:
        """A line of a progress report."""
        return PartitionProgress(
            topic=self.source.tp.topic,
            partition=self.source.tp.partition,
            position=self.position,
            downstream=self.downstream,
            end_offset=self.source.end_offset,
            records=self.records,
            bytes=self.bytes,
            trouble_code=self.trouble_code,
            trouble=self.trouble,
        )

    def receipts(self, split: int) -> Iterator[Receipt]:
        """A row per run that was copied, and one for where the partition stands."""
        tp, target = self.source.tp, self.target
        for run in self.runs.rows:
            yield Receipt(
                kind=RUN,
                split=split,
                topic=tp.topic,
                partition=tp.partition,
                source_first=run.source_first,
                source_last=run.source_last,
                target_first=run.target_first,
                records=run.records,
                bytes=run.bytes,
                is_exact=run.is_exact,
            )
        yield Receipt(
            kind=END,
            split=split,
            topic=tp.topic,
            partition=tp.partition,
            source_first=self.start.position,
            source_last=self.position - 1,
            target_first=-1,
            records=self.records,
            bytes=self.bytes,
            is_exact=True,
            position=self.position,
            downstream=self.downstream,
            producer_id=target.producer_id,
            producer_epoch=target.producer_epoch,
            next_sequence=target.next_sequence,
            is_clean=target.is_idle,
            error_code=self.trouble_code,
            error=self.trouble,
        )
