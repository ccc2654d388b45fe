# SPDX-License-Identifier: Apache-2.0
"""Read new records of a small topic repeatedly, and append to it, with few requests.

Unlike `TopicLog`, it caches the leaders and positions. Without new records, a read takes one round
trip to each leader.

A  The end offset comes from ListOffsets, not from the high watermark of a fetch, which may be stale
   on a new leader (KIP-207). With read_committed it is the last stable offset: a read does not wait
   for open transactions, but it does wait for the offsets that the caller passes.
B  Fetches use the topic id, so that every request detects a recreated topic. Brokers before Kafka
   3.1 fetch by name; with them, each read requests the topic id.
C  After any unexpected response, the cached leaders are dropped.

Belongs to one thread; does not close the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import (
    LEADER_CODES,
    PAUSE_SECONDS,
    ClusterClient,
    TopicLeaders,
    find_topic_leaders,
    partition_results,
)
from sparkmirror.kafka.log_records import FetchedRecords, LogRecord
from sparkmirror.kafka.topic_log import decode_partition
from sparkmirror.kafka.topic_requests import (
    FIRST_FETCH_BY_ID,
    LATEST,
    list_offsets_request,
    log_fetch_request,
)
from sparkmirror.kafka.topic_writer import TopicWriter
from sparkmirror.kafka.transactions import blocked_read_error
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes

_METADATA_MAX_AGE_SECONDS = 5.0  # new partitions are found within this time
_WAIT_MS = 200
_UNKNOWN_TOPIC_ID = 100
_INCONSISTENT_TOPIC_ID = 103
# The cached leaders are stale.
_STALE_METADATA_CODES = LEADER_CODES | {
    error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    _UNKNOWN_TOPIC_ID,
    _INCONSISTENT_TOPIC_ID,
}
_ISOLATION = "read_committed"


class TopicTail:
    """One topic on one cluster, and the positions up to which it was read."""

    def __init__(self, client: ClusterClient, topic: str, on_replaced: Callable[[], None]) -> None:
        """Calls `on_replaced` if the topic was recreated or truncated; then reads it again."""
        self._client = client
        self._admin = ClusterAdmin(client.connection, client)
        self._topic = topic
        self._writer = TopicWriter(client, topic, self._find_leaders, self._forget_leaders)
        self._on_replaced = on_replaced
        self._leaders: TopicLeaders | None = None
        self._last_leaders = TopicLeaders(topic, None, ())  # may be stale
        self._metadata_at = 0.0
        self._reads_by_id = False
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._read_at_least: dict[TopicPartition, int] = {}

    @property
    def partitions(self) -> int:
        """The number of partitions at the last metadata request; 0 before the first."""
        return len(self._last_leaders.leaders)

    def refresh_metadata(self) -> None:
        step = partial(find_topic_leaders, self._client, self._topic)
        leaders = self._client.retry(f"describing topic '{self._topic}'", step)
        before = self._last_leaders.topic_id
        if None not in (before, leaders.topic_id) and before != leaders.topic_id:
            self._reset()
        self._leaders = self._last_leaders = leaders
        self._metadata_at = time.monotonic()

    def append(self, batches: Mapping[int, bytes]) -> dict[TopicPartition, int]:
        """See `TopicWriter.append`."""
        return self._writer.append(batches)

    def read_new(
        self, reach: Mapping[TopicPartition, int], timeout_seconds: float
    ) -> Iterator[LogRecord]:
        """Yield every new record up to the current end offset, and at least up to `reach`.

        UnreachableError without progress for `timeout_seconds`, OpenTransactionError if an open
        transaction blocks it.
        """
        self._read_at_least, self._ends = dict(reach), {}
        wait_ms = 0
        deadline = time.monotonic() + timeout_seconds
        while True:
            step = partial(self._fetch_next, wait_ms)
            answers = self._client.retry(f"reading topic '{self._topic}'", step)
            if answers is None:
                return
            for tp, answer in answers.items():
                yield from answer.records
                if answer.next_offset > self._positions[tp]:
                    self._positions[tp] = answer.next_offset
                    deadline = time.monotonic() + timeout_seconds
            left = self._unread()
            if left and time.monotonic() > deadline:
                raise blocked_read_error(self._client, left, timeout_seconds)
            if self._leaders is None or not self._leaders.has_all_leaders:
                self._client.pause(PAUSE_SECONDS)
            wait_ms = _WAIT_MS

    def _find_leaders(
        self, wanted: Collection[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, int]]:
        return self._current_leaders().by_leader(wanted), {}

    def _forget_leaders(self) -> None:
        self._leaders = None  # C

    def _fetch_next(self, wait_ms: int) -> dict[TopicPartition, FetchedRecords] | None:
        """Fetch the next records of each partition; None if all are read."""
        try:
            leaders = self._current_leaders()
            self._add_partitions(leaders)
            left = self._unread()
            return self._fetch(leaders, left, wait_ms) if left else None
        except Exception:
            self._forget_leaders()
            raise

    def _fetch(
        self, leaders: TopicLeaders, left: Sequence[TopicPartition], wait_ms: int
    ) -> dict[TopicPartition, FetchedRecords]:
        fetched: dict[TopicPartition, FetchedRecords] = {}
        codes: dict[TopicPartition, int] = {}
        for leader, some in leaders.by_leader(left).items():
            unknown_end = [tp for tp in some if tp not in self._ends]
            positions = {tp: self._positions[tp] for tp in some}
            fetch = log_fetch_request(
                positions, _ISOLATION, topic_id=leaders.topic_id, wait_ms=wait_ms
            )
            list_ends = (
                [list_offsets_request(unknown_end, LATEST, _ISOLATION)] if unknown_end else []
            )
            *listed, answer = self._client.send_all([*list_ends, fetch], leader)
            self._reads_by_id = (fetch.version or 0) >= FIRST_FETCH_BY_ID
            for tp, one in (pair for ends in listed for pair in partition_results(ends.topics)):
                if one.error_code:
                    codes[tp] = one.error_code
                else:
                    self._ends[tp] = max(one.offset, self._read_at_least.get(tp, 0))  # A
            for one in (p for topic in answer.responses for p in topic.partitions):
                tp = TopicPartition(self._topic, one.partition_index)
                if one.error_code:
                    codes[tp] = one.error_code
                else:
                    fetched[tp] = decode_partition(tp, one, positions[tp])
        for tp, code in codes.items():
            self._handle_error(tp, code)
        return {tp: answer for tp, answer in fetched.items() if tp in self._positions}

    def _handle_error(self, tp: TopicPartition, code: int) -> None:
        if code in _STALE_METADATA_CODES:
            self._forget_leaders()
        elif code == error_codes.OFFSET_OUT_OF_RANGE:
            self._reset_position(tp)
        else:
            raise self._client.broker_error(f"reading {tp}", code, self._topic)

    def _reset_position(self, tp: TopicPartition) -> None:
        """Handle OFFSET_OUT_OF_RANGE: below the log start offset, or above the log end offset."""
        starts = self._admin.earliest_offsets([tp])
        ends = self._admin.end_offsets([tp], "read_uncommitted")
        for error in (starts.failed | ends.failed).values():
            raise error
        if self._positions.get(tp, 0) > ends.found[tp]:
            self._reset()
        else:
            self._positions[tp] = max(self._positions.get(tp, 0), starts.found[tp])

    def _current_leaders(self) -> TopicLeaders:
        is_old = time.monotonic() > self._metadata_at + _METADATA_MAX_AGE_SECONDS
        if self._leaders is None or is_old or not self._reads_by_id:
            self.refresh_metadata()
        return self._last_leaders

    def _add_partitions(self, leaders: TopicLeaders) -> None:
        new = [tp for tp in leaders.partitions if tp not in self._positions]
        if new:
            starts = self._admin.earliest_offsets(new)
            for error in starts.failed.values():
                raise error
            self._positions |= starts.found

    def _unread(self) -> list[TopicPartition]:
        """The partitions that are not read to their end, or whose end is unknown."""
        return [
            tp
            for tp in self._last_leaders.partitions
            if tp not in self._ends or self._positions.get(tp, 0) < self._ends[tp]
        ]

    def _reset(self) -> None:
        # The caller's own records are below the end of the new log, or lost with the old one.
        for offsets in (self._positions, self._ends, self._read_at_least):
            offsets.clear()
        self._on_replaced()
