# SPDX-License-Identifier: Apache-2.0
"""Decode the records of a fetched partition, for small topics only. Supports every codec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparkmirror.wire.record_batch import RecordBatch, split_batches
from sparkmirror.wire.records import decode_body, raw_records


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a topic's log."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """The records of one fetch, and the offset of the next fetch."""

    records: list[LogRecord]
    next_offset: int


def decode_records(
    data: memoryview, partition: int, start: int, aborted: Iterable[tuple[int, int]]
) -> FetchedRecords:
    """Decode the records at or after `start`, without those of aborted transactions.

    `aborted` has the (producer id, first offset) pairs of this fetch response.
    """
    records: list[LogRecord] = []
    next_offset = start
    for batch, is_committed in committed_batches(data, aborted):
        if is_committed:
            records.extend(r for r in _records(batch, partition) if r.offset >= start)
        next_offset = max(next_offset, batch.next_offset)
    return FetchedRecords(records, next_offset)


def committed_batches(
    data: memoryview, aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield every record batch, and whether its records are visible: no marker, not aborted."""
    waiting = sorted(aborted, key=lambda transaction: transaction[1])
    aborting: set[int] = set()
    for batch in split_batches(data):
        batch.verify()
        while waiting and waiting[0][1] < batch.next_offset:
            aborting.add(waiting.pop(0)[0])
        is_aborted = batch.is_transactional and batch.producer_id in aborting
        # The log cleaner may leave a control batch without its marker.
        if batch.is_control and batch.count and batch.is_abort_marker():
            aborting.discard(batch.producer_id)
        yield batch, not batch.is_control and not is_aborted


def _records(batch: RecordBatch, partition: int) -> Iterator[LogRecord]:
    for frame in raw_records(batch.view, batch.base_offset):
        key, value, headers = decode_body(frame.body)
        yield LogRecord(partition, frame.offset, frame.timestamp, key, value, tuple(headers))
