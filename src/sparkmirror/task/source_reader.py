# SPDX-License-Identifier: Apache-2.0
"""Handles fetched source records: enqueues them for the target, or adds them to a comparison.

Owned by the task's thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, IncidentKind
from sparkmirror.task.batch_origins import BatchOrigins
from sparkmirror.task.comparison import Comparison
from sparkmirror.task.comparison_runner import ComparisonRunner
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.corrupt_batches import CorruptBatches
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.wire import error_codes
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer
from sparkmirror.wire.outgoing import AbortedTransaction, PreparedBatches, prepare_batches
from sparkmirror.wire.producer import Producer


class SourceReader:
    """The fetch listener of a task's copied partitions."""

    def __init__(
        self,
        parts: Mapping[TopicPartition, CopyPartition],  # by source
        codec: int | None,
        budget: MemoryBudget,
        fetcher: Fetcher,
        producer: Producer,
        refused: RefusedRecords,
        corrupt: CorruptBatches,
        comparisons: ComparisonRunner,
        origins: BatchOrigins,
        reporter: IncidentReporter,
        policies: IncidentPolicies,
    ) -> None:
        self._parts = parts
        self._codec = codec
        self._budget = budget
        self._fetcher = fetcher
        self._producer = producer
        self._refused = refused
        self._corrupt = corrupt
        self._comparisons = comparisons
        self._origins = origins
        self._reporter = reporter
        self._policies = policies

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        buffer: SharedBuffer,
    ) -> int:
        """Enqueue record batches for the target, or compare them with the target's."""
        mine = self._parts[part.tp]
        is_waiting = mine.comparison is None and not mine.is_taken_over
        if is_waiting or mine.is_recording:
            self._fetcher.pause(part)  # the position to read from is unknown yet
            return part.position
        # A comparison needs the leader epoch of each record batch, so they are not merged.
        merged_bytes = mine.target.max_merged_bytes if mine.comparison is None else 0
        try:
            batches = prepare_batches(
                records,
                part.position,
                aborted,
                codec=self._codec,
                merged_bytes=merged_bytes,
                skips=mine.skips,
                offers_skipped=mine.comparison is not None,
            )
        except CorruptRecordBatchError as error:
            if self._corrupt.try_skip(part, records, str(error)):
                return part.position
            raise
        if batches.has_unknown_producer:  # first: what follows may move the partition
            self._origins.wait(mine, records)
        now = time.monotonic()
        for out in batches.batches:
            out.fetched_at = now
            out.pin(buffer, self._budget)
        mine.is_changed = True
        counts = self._reporter.counts
        counts.skipped_records += batches.aborted_records
        if mine.comparison is not None:
            return self._compare(mine, mine.comparison, batches)
        for out in self._refused.filter_batches(mine, batches.batches):
            part.queued_bytes += out.source_size
            self._producer.enqueue(mine.target, out)
        counts.reframed += batches.reframed
        counts.merged += batches.merged
        counts.raw += sum(not out.owns_bytes for out in batches.batches)
        if batches.leader_epoch >= 0:  # unknown if the response had no complete record batch
            part.last_leader_epoch = mine.leader_epoch = batches.leader_epoch
        mine.count_skipped(batches.skipped_batches)
        if mine.target.is_idle:
            mine.set_position(batches.position)  # only markers and skipped records
        return batches.position

    def _compare(
        self, mine: CopyPartition, comparison: Comparison, batches: PreparedBatches
    ) -> int:
        part = mine.source
        part.position = batches.position
        for out in batches.batches:
            part.queued_bytes += out.source_size
            out.detach(self._budget)
            comparison.add_source_batch(out)
        comparison.skip_source_offsets(batches.skipped)
        if batches.leader_epoch >= 0:
            part.last_leader_epoch = batches.leader_epoch
        self._comparisons.step(mine)
        return part.position  # a concluded comparison has changed it

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:
        """Show the error; report a recreated topic if its policy is `stop`."""
        mine = self._parts[part.tp]
        self._reporter.counts.request_errors["source", code] += 1
        if code == error_codes.TOPIC_RECREATED and self._policies.source_recreated == STOP:
            self._reporter.report_at(
                IncidentKind.SOURCE_RECREATED, mine, "the stored position is not valid there", STOP
            )
        mine.set_source_error(code, text)

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        self._parts[part.tp].set_source_error(error_codes.NONE)
