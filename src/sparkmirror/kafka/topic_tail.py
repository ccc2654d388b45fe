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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import LEADER_CODES, PAUSE_SECONDS, ClusterClient
from sparkmirror.kafka.open_transactions import held_up
from sparkmirror.kafka.records import Fetched, LogRecord
from sparkmirror.kafka.requests import (
    FIRST_FETCH_BY_ID,
    LATEST,
    append_request,
    fetch_request,
    offsets_request,
)
from sparkmirror.kafka.topic_log import decode_answer
from sparkmirror.kafka.topic_place import TopicPlace, find_topic
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
        self._on_another = on_another
        self._place: TopicPlace | None = None
        self._known = TopicPlace(topic, None, ())  # the last place, though it may be elsewhere now
        self._looked_at = 0.0
        self._reads_by_id = False
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._reach: dict[TopicPartition, int] = {}

    @property
    def partitions(self) -> int:
        """How many there were when somebody looked last; 0 before."""
        return len(self._known.leaders)

    def look(self) -> None:
        """See where the topic is."""
        step = partial(find_topic, self._client, self._topic)
        place = self._client.persist(f"describing topic '{self._topic}'", step)
        before = self._known.topic_id
        if None not in (before, place.topic_id) and before != place.topic_id:
            self._begin_anew()
        self._place = self._known = place
        self._looked_at = time.monotonic()

    def append(self, batches: Mapping[int, bytes]) -> dict[TopicPartition, int]:
        """Write a record batch to each of some partitions; their offsets, once replicated.

        The same bytes are written again if an answer is lost. A record batch that a producer has
        written already has offset -1 if the broker does not know it any more.
        """
        left = {TopicPartition(self._topic, index): batch for index, batch in batches.items()}
        offsets: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self._client.connection.request_timeout_seconds
        while True:
            step = partial(self._produce, left)
            found, codes = self._client.persist(f"writing to topic '{self._topic}'", step)
            offsets |= found
            left = {tp: batch for tp, batch in left.items() if tp not in found}
            for tp, code in codes.items():
                if not error_codes.is_retriable(code) or time.monotonic() > deadline:
                    raise self._client.error(f"writing to {tp}", code, self._topic)
            if not left:
                return offsets
            self._place = None  # C
            time.sleep(PAUSE_SECONDS)

    def read_on(
        self, reach: Mapping[TopicPartition, int], timeout_seconds: float
    ) -> Iterator[LogRecord]:
        """Every record up to the end seen now, and up to `reach` in any case.

        UnreachableError if nothing moves for `timeout_seconds`, OpenTransactionError if that is
        because of a transaction.
        """
        self._reach, self._ends = dict(reach), {}
        wait_ms = 0
        deadline = time.monotonic() + timeout_seconds
        while True:
            step = partial(self._ask_on, wait_ms)
            answers = self._client.persist(f"reading topic '{self._topic}'", step)
            if answers is None:
                return
            for tp, answer in answers.items():
                yield from answer.records
                if answer.next_offset > self._positions[tp]:
                    self._positions[tp] = answer.next_offset
                    deadline = time.monotonic() + timeout_seconds
            left = self._left()
            if left and time.monotonic() > deadline:
                raise held_up(self._client, left, timeout_seconds)
            if self._place is None or not self._place.is_served:
                time.sleep(PAUSE_SECONDS)
            wait_ms = _WAIT_MS

    def _produce(
        self, batches: Mapping[TopicPartition, bytes]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The offsets of what was written, and the error codes of those that were answered."""
        offsets: dict[TopicPartition, int] = {}
        codes: dict[TopicPartition, int] = {}
        timeout_ms = round(self._client.connection.request_timeout_seconds * 1000)
        try:
            place = self._found()
            for leader, some in place.by_leader(batches).items():
                request = append_request(
                    self._topic, {tp.partition: batches[tp] for tp in some}, timeout_ms
                )
                for topic in self._client.ask(request, leader).responses:
                    for one in topic.partition_responses:
                        tp = TopicPartition(self._topic, one.index)
                        if one.error_code in (0, error_codes.DUPLICATE_SEQUENCE_NUMBER):
                            offsets[tp] = one.base_offset
                        else:
                            codes[tp] = one.error_code
        except Exception:
            self._place = None  # C
            raise
        unserved = batches.keys() - offsets.keys() - codes.keys()
        return offsets, codes | dict.fromkeys(unserved, error_codes.UNKNOWN_LEADER)

    def _ask_on(self, wait_ms: int) -> dict[TopicPartition, Fetched] | None:
        """What follows, of the partitions that answered; None if all is read."""
        try:
            place = self._found()
            self._begin(place)
            left = self._left()
            return self._fetch(place, left, wait_ms) if left else None
        except Exception:
            self._place = None  # C
            raise

    def _fetch(
        self, place: TopicPlace, left: Sequence[TopicPartition], wait_ms: int
    ) -> dict[TopicPartition, Fetched]:
        fetched: dict[TopicPartition, Fetched] = {}
        codes: dict[TopicPartition, int] = {}
        for leader, some in place.by_leader(left).items():
            endless = [tp for tp in some if tp not in self._ends]
            positions = {tp: self._positions[tp] for tp in some}
            fetch: Any = fetch_request(
                positions, _ISOLATION, topic_id=place.topic_id, wait_ms=wait_ms
            )
            ask_ends = [offsets_request(endless, LATEST, _ISOLATION)] if endless else []
            *listed, answer = self._client.ask_all([*ask_ends, fetch], leader)
            self._reads_by_id = fetch.API_VERSION >= FIRST_FETCH_BY_ID
            for one in (
                p for answer in listed for topic in answer.topics for p in topic.partitions
            ):
                tp = TopicPartition(self._topic, one.partition_index)
                if one.error_code:
                    codes[tp] = one.error_code
                else:
                    self._ends[tp] = max(one.offset, self._reach.get(tp, 0))  # A
            for one in (p for topic in answer.responses for p in topic.partitions):
                tp = TopicPartition(self._topic, one.partition_index)
                if one.error_code:
                    codes[tp] = one.error_code
                else:
                    fetched[tp] = decode_answer(tp, one, positions[tp])
        for tp, code in codes.items():
            self._heed(tp, code)
        return {tp: answer for tp, answer in fetched.items() if tp in self._positions}

    def _heed(self, tp: TopicPartition, code: int) -> None:
        if code in _ELSEWHERE:
            self._place = None  # C
        elif code == error_codes.OFFSET_OUT_OF_RANGE:
            self._return_to_log(tp)
        else:
            raise self._client.error(f"reading {tp}", code, self._topic)

    def _return_to_log(self, tp: TopicPartition) -> None:
        """The position is before the log, whose beginning was deleted, or beyond its end."""
        starts = self._admin.earliest_offsets([tp])
        ends = self._admin.end_offsets([tp], "read_uncommitted")
        for error in (starts.failed | ends.failed).values():
            raise error
        if self._positions.get(tp, 0) > ends.found[tp]:
            self._begin_anew()
        else:
            self._positions[tp] = max(self._positions.get(tp, 0), starts.found[tp])

    def _found(self) -> TopicPlace:
        is_old = time.monotonic() > self._looked_at + _LOOK_SECONDS
        if self._place is None or is_old or not self._reads_by_id:
            self.look()
        return self._known

    def _begin(self, place: TopicPlace) -> None:
        new = [tp for tp in place.partitions if tp not in self._positions]
        if new:
            starts = self._admin.earliest_offsets(new)
            for error in starts.failed.values():
                raise error
            self._positions |= starts.found

    def _left(self) -> list[TopicPartition]:
        """The partitions that are not read to their end, or whose end is not known."""
        return [
            tp
            for tp in self._known.partitions
            if tp not in self._ends or self._positions.get(tp, 0) < self._ends[tp]
        ]

    def _begin_anew(self) -> None:
        # What we wrote is in the new log, before its end, or gone with the old one.
        for of_the_old_log in (self._positions, self._ends, self._reach):
            of_the_old_log.clear()
        self._on_another()
