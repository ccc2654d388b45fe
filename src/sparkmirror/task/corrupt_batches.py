# SPDX-License-Identifier: Apache-2.0
"""Handles source record batches that do not match their checksum.

A corrupt batch is read several times, because it may have been damaged in transit. Then the policy
applies: `stop` reports it and retries forever; `skip` writes a ledger entry and continues after it.
Owned by the task's thread.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, Incident, IncidentKind
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.incident_reporter import IncidentReporter, new_incident
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.record_batch import HEADER_SIZE, LENGTH_OVERHEAD, RecordBatch

_MAX_ATTEMPTS = 3  # reads before a batch counts as corrupt on the broker's disk
_PREFIX = struct.Struct(">qi")  # base offset, length
_LAST_DELTA_AT = 23


class CorruptBatches:
    """The corrupt record batches of one task's partitions."""

    def __init__(
        self,
        fetcher: Fetcher,
        policy: str,
        reporter: IncidentReporter,
        parts: Mapping[TopicPartition, CopyPartition],
    ) -> None:
        self._fetcher = fetcher
        self._policy = policy
        self._reporter = reporter
        self._parts = parts
        self._attempts: dict[TopicPartition, tuple[int, int]] = {}  # position, attempts

    def try_skip(self, part: FetchPartition, records: memoryview, text: str) -> bool:
        """Count a read of the corrupt batch at the position. Returns whether it is skipped."""
        before, attempts = self._attempts.get(part.tp, (-1, 0))
        attempts = attempts + 1 if before == part.position else 1
        self._attempts[part.tp] = (part.position, attempts)
        if attempts < _MAX_ATTEMPTS:
            return False
        following = offset_after_corrupt_batch(records, part.position, part.end_offset)
        last = part.position if following is None else following - 1
        cause = text if following is not None else f"{text}; its end is unknown"
        found = new_incident(
            IncidentKind.CORRUPT_BATCH,
            part.tp,
            (part.position, last),
            -1 if following is None else following - part.position,
            cause,
            STOP if following is None else self._policy,
        )
        if self._policy == STOP or following is None:
            self._reporter.report(found)
            return False
        self._fetcher.pause(part)
        self._skip_to(part, following, found)
        return True

    def _skip_to(self, part: FetchPartition, position: int, found: Incident) -> None:
        before = part.position

        def recorded() -> None:
            mine = self._parts[part.tp]
            is_waiting = mine.comparison is None and not mine.is_taken_over
            if part.position != before or is_waiting:
                return  # the position was reset; the batch is read again
            if mine.target.is_idle and mine.comparison is None:
                mine.set_position(position)
            self._fetcher.resume_at(part, position)

        self._reporter.record([found], recorded)


def offset_after_corrupt_batch(records: memoryview, position: int, end_offset: int) -> int | None:
    """Return the offset to continue at; `records` start with the corrupt batch at `position`.

    None if it is unknown, because the next batch is truncated or corrupt as well. The header of a
    corrupt batch is not reliable. The base offset of the next batch is, if its CRC matches. Without
    a next batch, the header counts as long as it stays below the log end offset.
    """
    if len(records) < HEADER_SIZE:
        return None
    base, length = _PREFIX.unpack_from(records)
    (delta,) = struct.unpack_from(">i", records, _LAST_DELTA_AT)
    following = LENGTH_OVERHEAD + length
    if following < HEADER_SIZE or following > len(records):
        return None
    if len(records) >= following + HEADER_SIZE:
        _base, size = _PREFIX.unpack_from(records, following)
        whole = records[following : following + LENGTH_OVERHEAD + max(size, 0)]
        try:
            next_batch = RecordBatch(whole)
            next_batch.verify()
        except (CorruptRecordBatchError, struct.error):
            next_batch = None
        if next_batch is not None and position < next_batch.base_offset <= end_offset:
            return int(next_batch.base_offset)
    claimed = base + delta + 1
    return claimed if position < claimed <= end_offset else None
