# SPDX-License-Identifier: Apache-2.0
"""A small topic that is read on and written to again and again, at the price of few requests.

`TopicLog` asks for everything anew each time; a tail remembers where the topic is and where it was
read to. Reading on when nothing is new takes one exchange with each leader.

A  The end is what leaders say it is (ListOffsets), not the high watermark of an answer, which a
   new leader may have to catch up with (KIP-207). With read_committed that is where the first open
   transaction begins: what is not decided is not waited for, but for what we wrote ourselves.
B  A topic is read by its id, so that one created anew is noticed by whatever is asked of it. With
   brokers before Kafka 3.1, which read by name, its id is asked for each time.
C  Whoever answers otherwise than expected is not believed to be the leader any more.

Belongs to one thread, and to whoever owns the client.
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

_LOOK_SECONDS = 5.0  # partitions that were added show within so many
_WAIT_MS = 200
_UNKNOWN_TOPIC_ID = 100
_INCONSISTENT_TOPIC_ID = 103
# The topic or its leader is elsewhere: look where.
_ELSEWHERE = LEADER_CODES | {
    error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    _UNKNOWN_TOPIC_ID,
    _INCONSISTENT_TOPIC_ID,
}
_ISOLATION = "read_committed"


class TopicTail:
    """One topic on one cluster, read up to somewhere."""

    def __init__(self, client: ClusterClient, topic: str, on_another: Callable[[], None]) -> None:
        """`on_another` is called when what was read so far is gone, and all is read anew."""
        self._client = client
        self._admin = ClusterAdmin(client.connection, client)
        self._topic = topic
        self._writer = TopicWriter(client, topic, self._find_leaders, self._forget_leaders)
        self._on_replaced = on_another
        self._leaders: TopicLeaders | None = None
        self._known = TopicLeaders(
            topic, None, ()
        )  # the last place, though it may be elsewhere now
        self._looked_at = 0.0
        self._reads_by_id = False
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._read_at_least: dict[TopicPartition, int] = {}

    @property
    def partitions(self) -> int:
        """How many there were when somebody looked last; 0 before."""
        return len(self._known.leaders)

    def refresh_metadata(self) -> None:
        """See where the topic is."""
        step = partial(find_topic_leaders, self._client, self._topic)
        place = self._client.retry(f"describing topic '{self._topic}'", step)
        before = self._known.topic_id
        if None not in (before, place.topic_id) and before != place.topic_id:
            self._reset()
        self._leaders = self._known = place
        self._looked_at = time.monotonic()

    def append(self, batches: Mapping[int, bytes]) -> dict[TopicPartition, int]:
        """Write a record batch to each of some partitions; their offsets, once replicated.

        The same bytes are written again if an answer is lost. A record batch that a producer has
        written already has offset -1 if the broker does not know it any more.
        """
        return self._writer.append(batches)

    def read_new(
        self, reach: Mapping[TopicPartition, int], timeout_seconds: float
    ) -> Iterator[LogRecord]:
        """Every record up to the end seen now, and up to `reach` in any case.

        UnreachableError if nothing moves for `timeout_seconds`, OpenTransactionError if that is
        because of a transaction.
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
        """What follows, of the partitions that answered; None if all is read."""
        try:
            place = self._current_leaders()
            self._add_partitions(place)
            left = self._unread()
            return self._fetch(place, left, wait_ms) if left else None
        except Exception:
            self._forget_leaders()
            raise

    def _fetch(
        self, place: TopicLeaders, left: Sequence[TopicPartition], wait_ms: int
    ) -> dict[TopicPartition, FetchedRecords]:
        fetched: dict[TopicPartition, FetchedRecords] = {}
        codes: dict[TopicPartition, int] = {}
        for leader, some in place.by_leader(left).items():
            endless = [tp for tp in some if tp not in self._ends]
            positions = {tp: self._positions[tp] for tp in some}
            fetch = log_fetch_request(
                positions, _ISOLATION, topic_id=place.topic_id, wait_ms=wait_ms
            )
            ask_ends = [list_offsets_request(endless, LATEST, _ISOLATION)] if endless else []
            *listed, answer = self._client.send_all([*ask_ends, fetch], leader)
            self._reads_by_id = (fetch.version or 0) >= FIRST_FETCH_BY_ID
            for one in (
                p for answer in listed for topic in answer.topics for p in topic.partitions
            ):
                tp = TopicPartition(self._topic, one.partition_index)
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
        if code in _ELSEWHERE:
            self._forget_leaders()
        elif code == error_codes.OFFSET_OUT_OF_RANGE:
            self._reset_position(tp)
        else:
            raise self._client.broker_error(f"reading {tp}", code, self._topic)

    def _reset_position(self, tp: TopicPartition) -> None:
        """The position is before the log, whose beginning was deleted, or beyond its end."""
        starts = self._admin.earliest_offsets([tp])
        ends = self._admin.end_offsets([tp], "read_uncommitted")
        for error in (starts.failed | ends.failed).values():
            raise error
        if self._positions.get(tp, 0) > ends.found[tp]:
            self._reset()
        else:
            self._positions[tp] = max(self._positions.get(tp, 0), starts.found[tp])

    def _current_leaders(self) -> TopicLeaders:
        is_old = time.monotonic() > self._looked_at + _LOOK_SECONDS
        if self._leaders is None or is_old or not self._reads_by_id:
            self.refresh_metadata()
        return self._known

    def _add_partitions(self, place: TopicLeaders) -> None:
        new = [tp for tp in place.partitions if tp not in self._positions]
        if new:
            starts = self._admin.earliest_offsets(new)
            for error in starts.failed.values():
                raise error
            self._positions |= starts.found

    def _unread(self) -> list[TopicPartition]:
        """The partitions that are not read to their end, or whose end is not known."""
        return [
            tp
            for tp in self._known.partitions
            if tp not in self._ends or self._positions.get(tp, 0) < self._ends[tp]
        ]

    def _reset(self) -> None:
        # What we wrote is in the new log, before its end, or gone with the old one.
        for of_the_old_log in (self._positions, self._ends, self._read_at_least):
            of_the_old_log.clear()
        self._on_replaced()
