# SPDX-License-Identifier: Apache-2.0
"""Read a small topic from start to end, such as the offsets topic, and append to it.

Reads up to the end offset instead of counting records, because transaction markers and compaction
leave offsets without records. A `TopicLog` belongs to one thread.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import LEADER_CODES, PAUSE_SECONDS, Closable, ClusterClient
from sparkmirror.kafka.log_records import FetchedRecords, LogRecord, decode_records
from sparkmirror.kafka.topic_requests import log_fetch_request
from sparkmirror.kafka.topic_writer import TopicWriter
from sparkmirror.kafka.transactions import blocked_read_error
from sparkmirror.model import TopicPartition
from sparkmirror.wire.record_batch import HEADER_SIZE, build_key_value_batch, stamp
from sparkmirror.wire.settings import ConnectionSettings

KeyValue = tuple[bytes | None, bytes | None]

_REQUEST_BYTES = 1024  # upper bound of a request without its records
_RECORD_BYTES = 32  # upper bound of a record without key and value
_BATCH_BYTES = 512 * 1024  # half of the default max.message.bytes


class TopicLog(Closable):
    """One topic on one cluster; entering the context requests its metadata."""

    def __init__(
        self,
        connection: ConnectionSettings,
        topic: str,
        isolation_level: str = "read_committed",
        client: ClusterClient | None = None,
    ) -> None:
        self._topic = topic
        self._isolation_level = isolation_level
        self._has_own_client = client is None  # a shared client stays open
        self._client = client or ClusterClient(connection)
        self._admin = ClusterAdmin(connection, self._client)
        self._writer = TopicWriter(self._client, topic)
        self.partitions = 0
        self._ids: list[uuid.UUID | None] = []  # the topic ids of the last two entries

    def __enter__(self) -> Self:
        answer = self._admin.topics([self._topic])
        if self._topic in answer.failed:
            self.close()
            raise answer.failed[self._topic]
        found = answer.found[self._topic]
        self.partitions = found.partitions
        self._ids.append(found.topic_id)
        del self._ids[:-2]
        return self

    def close(self) -> None:
        if self._has_own_client:
            self._client.close()

    def read_to_end(
        self, timeout_seconds: float = 60.0, since: dict[TopicPartition, int] | None = None
    ) -> Iterator[LogRecord]:
        """Yield every record up to the current end, in order within each partition.

        `since` limits the records to these offsets and above; it is updated for the next call.
        UnreachableError without progress for `timeout_seconds`, OpenTransactionError if an open
        transaction blocks it.
        """
        positions, ends = self._offset_ranges()
        if since is not None:
            read = {tp: since[tp] for tp in positions if tp in since}
            positions |= {tp: max(positions[tp], offset) for tp, offset in read.items()}
            positions = {tp: offset for tp, offset in positions.items() if offset < ends[tp]}
        deadline = time.monotonic() + timeout_seconds
        while positions:
            fetched = self._client.retry(self._operation(), partial(self._fetch, positions))
            for tp, answer in fetched.items():
                yield from answer.records
                if answer.next_offset > positions[tp]:
                    positions[tp] = answer.next_offset
                    if since is not None:
                        since[tp] = answer.next_offset
                    deadline = time.monotonic() + timeout_seconds
                if answer.next_offset >= ends[tp]:
                    del positions[tp]
            if time.monotonic() > deadline:
                raise blocked_read_error(self._client, sorted(positions), timeout_seconds)
            if not fetched:
                self._client.pause(PAUSE_SECONDS)

    def was_replaced(self, since: Mapping[TopicPartition, int]) -> bool:
        """Whether the topic was recreated, or truncated below these offsets."""
        if len(set(self._ids)) > 1:
            return True
        ends = self._admin.end_offsets(since, "read_uncommitted").found if since else {}
        return any(offset > ends.get(tp, offset) for tp, offset in since.items())

    def read_at(self, tp: TopicPartition, offset: int) -> LogRecord | None:
        """Return the record at an offset; None if the log cleaner has removed it."""
        step = partial(self._fetch, {tp: offset})
        answer = self._client.retry(self._operation(), step).get(tp)
        found = answer.records[0] if answer is not None and answer.records else None
        return found if found is not None and found.offset == offset else None

    def append(self, records: Mapping[int, Sequence[KeyValue]]) -> None:
        """Write records, one batch per partition, and wait for all replicas.

        Retries may duplicate records, so use it for compacted topics. Splits the records into
        several requests at the connection's max_request_bytes.
        """
        most = self._client.connection.max_request_bytes
        for some in [records] if most is None else _split_by_size(records, most):
            batches = {index: build_record_batch(part) for index, part in some.items()}
            self._writer.append(batches)

    def _offset_ranges(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The log start and end offsets of each partition that is not empty."""
        partitions = [TopicPartition(self._topic, number) for number in range(self.partitions)]
        starts = self._admin.earliest_offsets(partitions)
        # Also with read_committed: open transactions are read once they end.
        ends = self._admin.end_offsets(partitions, "read_uncommitted")
        for error in (starts.failed | ends.failed).values():
            raise error
        filled = [tp for tp in partitions if starts.found[tp] < ends.found[tp]]
        return {tp: starts.found[tp] for tp in filled}, {tp: ends.found[tp] for tp in filled}

    def _fetch(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FetchedRecords]:
        fetched: dict[TopicPartition, FetchedRecords] = {}
        leaders, codes = self._client.partitions_by_leader(positions)
        requests = {
            leader: log_fetch_request({tp: positions[tp] for tp in some}, self._isolation_level)
            for leader, some in leaders.items()
        }
        for response in self._client.send_to_each(requests).values():
            for topic in response.responses:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.topic, partition.partition_index)
                    if partition.error_code:
                        codes[tp] = partition.error_code
                    else:
                        fetched[tp] = decode_partition(tp, partition, positions[tp])
        for tp, code in codes.items():
            if code not in LEADER_CODES:
                raise self._client.broker_error(f"reading {tp}", code, tp.topic)
        return fetched

    def _operation(self) -> str:
        return f"reading topic '{self._topic}'"


def _split_by_size(
    records: Mapping[int, Sequence[KeyValue]], most: int
) -> Iterator[dict[int, list[KeyValue]]]:
    """Split the records into requests of at most `most` bytes; keeps their order."""
    chunk: dict[int, list[KeyValue]] = {}
    size = _REQUEST_BYTES
    for index, some in records.items():
        for record in some:
            added = sum(len(part or b"") for part in record) + _RECORD_BYTES
            added += 0 if index in chunk else HEADER_SIZE + _RECORD_BYTES
            if chunk and size + added > most:
                yield chunk
                chunk, size = {}, _REQUEST_BYTES
                added += HEADER_SIZE
            chunk.setdefault(index, []).append(record)
            size += added
    if chunk:
        yield chunk


def split_into_batches(
    records: Iterable[KeyValue], most_bytes: int = _BATCH_BYTES
) -> Iterator[list[KeyValue]]:
    """Split records into batches of at most `most_bytes`; a larger record has its own batch."""
    some: list[KeyValue] = []
    size = 0
    for record in records:
        added = sum(len(part) for part in record if part is not None)
        if some and size + added > most_bytes:
            yield some
            some, size = [], 0
        some.append(record)
        size += added
    if some:
        yield some


def build_record_batch(
    records: Sequence[KeyValue],
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """Build a record batch; without a producer id it is not idempotent."""
    batch = build_key_value_batch(records)
    stamp(memoryview(batch), producer_id, producer_epoch, sequence)
    return bytes(batch)


def decode_partition(tp: TopicPartition, partition: Any, position: int) -> FetchedRecords:
    """Decode the records of one partition of a fetch response."""
    aborted = [(a.producer_id, a.first_offset) for a in partition.aborted_transactions or ()]
    return decode_records(memoryview(partition.records or b""), tp.partition, position, aborted)
