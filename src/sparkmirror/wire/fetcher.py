# SPDX-License-Identifier: Apache-2.0
"""Read raw record batches from the leaders of a task's partitions.

One fetch session per broker, one request in flight per session: after the first, a request names
only the partitions whose position changed, so idle partitions cost nothing. A broker that is far
away gets several sessions, so that something is always on its way. A partition that has enough
waiting to be written is left out until it has drained. Owned by the loop's thread.

Brokers before 1.1, and services such as Azure Event Hubs, know no sessions (Fetch < 7): there every
request names all partitions that are wanted. Brokers before 2.7 (Fetch < 12) do not say that a log
was cut and grew again, so they are asked with OffsetForLeaderEpoch whenever a partition finds its
leader.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Protocol

from sparkmirror.errors import CorruptRecordBatchError, UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import Connection
from sparkmirror.wire.error_codes import Remedy
from sparkmirror.wire.fetch_protocol import (
    FETCH_KEY,
    FINAL_SESSION_EPOCH,
    IDS_VERSION,
    NAMES_VERSION,
    OLDEST_VERSION,
    FetchLimits,
    PartitionData,
    fetch_request,
    parse_response,
)
from sparkmirror.wire.fetch_session import UNKNOWN_EPOCH, FetchSession, SourcePartition
from sparkmirror.wire.leader_epochs import EpochEnd, ask_epoch_ends
from sparkmirror.wire.loop import Loop
from sparkmirror.wire.outgoing import AbortedTransaction

_HELD_BACK_WAIT_MS = 10  # do not long-poll for idle partitions while busy ones wait for their turn
_SMALLEST_FETCH = 1 << 20
_LARGEST_SLICE = 4 << 20  # of one partition: an epoch that ends waits until it is written
_LANES = 8  # sessions with a broker that is far away
_SESSION_EPOCH_MASK = 0x7FFFFFFF


class FetchSink(Protocol):
    """Who takes what was read."""

    def received(
        self,
        part: SourcePartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        buffer: Buffer,
    ) -> int:
        """Record batches of one partition, in order; returns the position after them.

        Whoever keeps one pins the buffer. Raises CorruptRecordBatchError if the first is damaged.
        """

    def fetched(self) -> None:
        """One response has been handed over completely."""

    def fetch_trouble(self, part: SourcePartition, code: int, text: str) -> None:
        """A partition cannot be read now; it is tried again with growing pauses."""

    def fetch_recovered(self, part: SourcePartition) -> None:
        """A partition in trouble can be read again."""

    def out_of_range(self, part: SourcePartition) -> None:
        """The position is outside the log; call `resume` with a new one, or never."""

    def diverged(self, part: SourcePartition, end_offset: int) -> None:
        """The log was truncated and has grown anew from there; call `resume`, or never."""

    def ended_early(self, part: SourcePartition) -> None:
        """Everything has been read, and the partition is to be read further than that."""


class Fetcher:
    """All reading of one task."""

    def __init__(
        self, loop: Loop, cluster: Cluster, limits: FetchLimits, budget: Budget, sink: FetchSink
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._limits = limits
        self._budget = budget
        self._sink = sink
        self._parts: dict[TopicPartition, SourcePartition] = {}
        self._homeless: dict[TopicPartition, SourcePartition] = {}
        self._sessions: dict[tuple[int, int], FetchSession] = {}  # by broker and lane
        self._crowded: set[int] = set()  # brokers that refused further connections
        self._without_room: list[FetchSession] = []  # those that wait for memory, first come
        self._closing = False
        cluster.on_metadata.append(self._settle)

    # --- which partitions

    def start(self, parts: Iterable[SourcePartition]) -> None:
        """Begin to read these partitions."""
        for part in parts:
            self._parts[part.tp] = part
            if not part.is_finished:
                self._place(part)
        self._cluster.want({tp.topic for tp in self._homeless})
        self.pump()

    def read_from(self, part: SourcePartition, position: int) -> None:
        """Begin, or go on, at this position; `pump` sends."""
        self._turn(part, position)
        self._parts[part.tp] = part
        if part.is_finished:
            self._evict(part)
            return
        self._place(part)
        if part.tp in self._homeless:
            self._cluster.want({part.tp.topic})

    def _place(self, part: SourcePartition) -> None:
        """Find its leader, or let it wait for the first answer about its topic."""
        if not self._cluster.knows(part.tp):
            self._homeless[part.tp] = part
            return
        self._find_home(part)
        if part.session is not None and part.session.in_flight:
            part.session.expect_more()

    def resume(self, part: SourcePartition, position: int) -> None:
        """Go on with a partition from a position that its leader named."""
        self._parts[part.tp] = part
        self._turn(part, position)
        self._find_home(part)
        self.pump()

    def pause(self, part: SourcePartition, position: int | None = None) -> None:
        """Read nothing of this partition until `read_from`; what is after the position is due."""
        self._evict(part)
        self._parts.pop(part.tp, None)  # also whoever would bring it back by a timer
        self._homeless.pop(part.tp, None)
        if position is not None:
            self._turn(part, position)

    def rewind(self, part: SourcePartition, position: int, pause: float) -> None:
        """Read on from an earlier position, or the same, after a pause."""
        self._evict(part)
        self._parts[part.tp] = part
        self._turn(part, position)
        self._loop.call_later(pause, lambda: self._return(part))

    def forget(self, part: SourcePartition) -> None:
        """Read this partition no more."""
        self._evict(part)
        self._parts.pop(part.tp, None)
        self._homeless.pop(part.tp, None)

    @staticmethod
    def _turn(part: SourcePartition, position: int) -> None:
        if position > part.position:  # an older epoch would seem to end before it
            part.last_epoch = UNKNOWN_EPOCH
        part.position = position
        part.is_at_end = False

    def drained(self, part: SourcePartition) -> None:
        """The target acknowledged some of what was queued."""
        session = part.session
        if session is None or part.tp not in session.held_back:
            return
        if part.queued_bytes < self._slice(session):
            session.held_back.discard(part.tp)
            session.join(part)

    def _find_home(self, part: SourcePartition) -> None:
        leader = self._cluster.leaders.get(part.tp)
        if leader is None:
            self._complain(part, self._cluster.leader_error(part.tp))
            return
        if self._is_recreated(part):
            self._complain(part, error_codes.TOPIC_RECREATED)
            return
        self._evict(part)
        part.leader = leader
        part.is_checked = False
        lanes = [one for one in self._sessions.values() if one.node == leader.node]
        session = min(lanes, key=lambda one: one.size) if lanes else self._open(leader.node, 0)
        part.session = session
        session.join(part)

    def _open(self, node: int, lane: int) -> FetchSession:
        session = self._sessions[node, lane] = FetchSession(node, lane)
        return session

    def _spread(self, session: FetchSession) -> None:
        """To a broker that is far away: several sessions share its partitions."""
        node = session.node
        others = sum(1 for one in self._sessions.values() if one.size and one.node != node)
        room = self._budget.limit // (4 * _SMALLEST_FETCH) - others
        lanes = min(_LANES, len(session.members), room)
        if lanes > 1 and node not in self._crowded:
            free = [lane for lane in range(lanes + 1) if (node, lane) not in self._sessions]
            session.hand_over([self._open(node, lane) for lane in free[: lanes - 1]])
            self.pump()

    def _is_alone(self, session: FetchSession) -> bool:
        return sum(1 for one in self._sessions.values() if one.node == session.node) == 1

    def _is_recreated(self, part: SourcePartition) -> bool:
        now_id = self._cluster.topic_ids.get(part.tp.topic)
        return part.topic_id is not None and now_id is not None and now_id != part.topic_id

    def _settle(self) -> None:
        """Metadata arrived: partitions without a leader look again."""
        homeless, self._homeless = self._homeless, {}
        for part in homeless.values():
            self._find_home(part)
        self.pump()

    def _evict(self, part: SourcePartition) -> None:
        session, part.session = part.session, None
        if session is not None:
            session.held_back.discard(part.tp)
            session.leave(part)

    # --- requests

    def pump(self) -> None:
        """Ask every broker that has nothing to answer, as far as the memory bound allows."""
        for session in [*self._without_room, *self._sessions.values()]:
            if not session.in_flight:
                self._pump(session)

    def _share(self) -> int:
        """The most that one answer may hold."""
        sessions = sum(1 for one in self._sessions.values() if one.size)
        share = self._budget.limit // (4 * max(1, sessions))
        return min(self._limits.max_bytes, max(_SMALLEST_FETCH, share))

    def _slice(self, session: FetchSession) -> int:
        """The most that one answer should hold of one partition; two of them waiting are enough."""
        fixed = self._limits.max_partition_bytes
        if fixed >= 0:
            return max(1, fixed)
        part = max(_SMALLEST_FETCH, self._share() // max(1, session.busy))
        return min(part, _LARGEST_SLICE)

    def _pump(self, session: FetchSession) -> None:
        if self._closing or session.in_flight or not session.members:
            return
        wanted = min(self._share(), max(self._budget.available, _SMALLEST_FETCH))
        if self._budget.held and self._budget.available < wanted:
            if session not in self._without_room:
                self._without_room.append(session)
            return
        enough = self._slice(session)
        if len(session.changed) == len(session.members) and all(
            part.queued_bytes >= enough for part in session.changed.values()
        ):
            return  # everything has enough to do
        try:
            connection = self._cluster.connection(session.node, session.lane)
        except UnreachableError as error:
            self._lost(session, error)
            return
        session.in_flight = True
        if session in self._without_room:
            self._without_room.remove(session)
        self._budget.take(wanted)
        connection.when_ready(
            lambda: self._send(connection, session, wanted),
            lambda error: self._lost(session, error, wanted),
        )

    def _pump_next(self, session: FetchSession) -> None:
        """After an answer; those that wait for memory first, or idle brokers would have it all."""
        for waiting in [*self._without_room]:
            self._pump(waiting)
        self._pump(session)

    def _send(self, connection: Connection, session: FetchSession, wanted: int) -> None:
        if connection.is_far and self._is_alone(session):
            self._spread(session)
        version = self._version(connection, session)
        if version < OLDEST_VERSION:
            self._give_up(session, wanted)
            return
        if version < NAMES_VERSION and self._check_epochs(connection, session, wanted):
            return
        full = session.id == 0
        if full:
            session.start_over()
        for part in [*session.changed.values()]:
            if self._is_recreated(part):  # a new topic must not be read at the old one's position
                self._complain(part, error_codes.TOPIC_RECREATED)
        changed, session.changed = session.changed, {}
        forgotten, session.forgotten = session.forgotten, {}
        request = fetch_request(
            version,
            self._limits,
            max_wait_ms=self._patience(session),
            max_bytes=wanted,
            max_partition_bytes=self._slice(session),
            session=(session.id, session.session_epoch),
            wanted={
                tp: (part.position, _leader_epoch(part), part.last_epoch)
                for tp, part in changed.items()
            },
            forgotten=() if full else forgotten,
            topic_ids=self._cluster.topic_ids,
        )
        connection.exchange(
            request,
            lambda frame: self._answered(session, frame, version, wanted),
            lambda error: self._lost(session, error, wanted),
            newest=version,
        )

    def _version(self, connection: Connection, session: FetchSession) -> int:
        newest = IDS_VERSION if self._all_have_ids(session) else NAMES_VERSION
        try:
            return connection.version(FETCH_KEY, newest)
        except WireError:
            return 0

    def _check_epochs(self, connection: Connection, session: FetchSession, wanted: int) -> bool:
        """Ask whether the log still holds what was read, and send after the answer.

        False: there is nothing to ask, or nobody who could tell.
        """
        parts = [(part, part.position, part.last_epoch) for part in session.unchecked()]
        if not parts:
            return False

        def answered(ends: dict[TopicPartition, EpochEnd]) -> None:
            for part, *asked in [] if self._closing else parts:
                if part.session is session and [part.position, part.last_epoch] == asked:
                    self._checked(part, ends.get(part.tp))
            if session.members and not self._closing:
                self._send(connection, session, wanted)
            else:
                session.in_flight = False
                self._budget.give_back(wanted)

        epochs = {part.tp: (_leader_epoch(part), last) for part, _position, last in parts}
        try:
            ask_epoch_ends(
                connection, epochs, answered, lambda error: self._lost(session, error, wanted)
            )
        except WireError:
            for part, *_asked in parts:
                part.is_checked = True
            return False
        return True

    def _checked(self, part: SourcePartition, end: EpochEnd | None) -> None:
        """Treat the answer as a broker treats the last epoch of a fetch request of version 12."""
        if end is None or end.error in error_codes.NOT_AUTHORIZED:
            part.is_checked = True  # it cannot be known here
        elif end.error:
            self._complain(part, end.error)
        elif end.end_offset < 0:
            self._complain(part, error_codes.OFFSET_OUT_OF_RANGE)
        # Brokers before 2.0 do not name the epoch that the offset ends.
        elif UNKNOWN_EPOCH < end.leader_epoch < part.last_epoch or end.end_offset < part.position:
            self._diverged(part, end.leader_epoch, end.end_offset)
        else:
            part.is_checked = True

    def _patience(self, session: FetchSession) -> int:
        """How long the broker may wait for data.

        A partition that is held back may get its turn any moment, and must not wait for idle
        neighbours; nor must those that join one after the other, as in a take-over. While nothing
        comes at all there is no hurry.
        """
        longest = self._limits.max_wait_ms
        wait = _HELD_BACK_WAIT_MS << min(session.empty_answers, 10)
        if wait >= longest:
            session.has_late_comers = False
        is_urgent = session.held_back or session.has_late_comers
        return min(wait, longest) if is_urgent else longest

    def _all_have_ids(self, session: FetchSession) -> bool:
        return all(tp.topic in self._cluster.topic_ids for tp in session.members)

    # --- answers

    def _answered(
        self, session: FetchSession, frame: memoryview, version: int, wanted: int
    ) -> None:
        response = parse_response(frame, version)  # if it cannot be read, the request is lost
        session.in_flight = False
        self._budget.give_back(wanted)
        if self._closing:
            return
        if response.error:
            session.start_over()
            if response.error not in error_codes.SESSION_ERRORS:
                for part in [*session.members.values()]:
                    self._complain(part, response.error)
            self._pump(session)
            return
        session.has_answered = True
        session.id = response.session_id
        session.session_epoch = (session.session_epoch + 1) & _SESSION_EPOCH_MASK or 1
        buffer = Buffer(self._budget, len(frame))
        is_empty = not any(data.records for data in response.partitions)
        session.empty_answers = session.empty_answers + 1 if is_empty else 0
        enough = 2 * self._slice(session)
        for data in response.partitions:
            topic = data.topic
            if isinstance(topic, uuid.UUID):
                topic = self._cluster.topic_names.get(topic, "")
                if not topic:  # a topic that was recreated is still in the broker's session
                    session.start_over()
                    self._cluster.refresh()
                    continue
            member = session.members.get(TopicPartition(topic, data.partition))
            # One that has changed since the request was sent gets its answer to the next one:
            # data from an older position would look like a gap.
            if member is not None and member.tp not in session.changed:
                self._take(session, member, data, buffer, enough)
        buffer.settle()
        if len(frame) > _SMALLEST_FETCH // 2:
            session.count_busy()
        self._sink.fetched()
        self._pump_next(session)

    def _take(
        self,
        session: FetchSession,
        part: SourcePartition,
        data: PartitionData,
        buffer: Buffer,
        enough: int,
    ) -> None:
        if data.error:
            self._complain(part, data.error)
            return
        if data.diverging is not None:
            self._diverged(part, *data.diverging)
            return
        committed = self._limits.read_committed and data.last_stable_offset >= 0
        part.end_offset = data.last_stable_offset if committed else data.high_watermark
        part.high_watermark = data.high_watermark
        part.log_start = data.log_start_offset
        if data.records:
            aborted = data.aborted if self._limits.read_committed else ()
            try:
                part.position = self._sink.received(part, data.records, aborted, buffer)
            except CorruptRecordBatchError as error:
                self._complain(part, error_codes.CORRUPT_SOURCE, str(error))
                return
            if part.session is not session:
                return  # whoever took it has turned to another position
            session.changed[part.tp] = part
            if session.id == 0:
                session.move_back(part)
            if part.queued_bytes >= enough:
                session.held_back.add(part.tp)
                session.leave(part)
        self._taken(part)

    def _taken(self, part: SourcePartition) -> None:
        part.is_at_end = part.position >= part.end_offset
        if part.trouble:
            part.trouble = error_codes.NONE
            part.backoff.reset()
            self._sink.fetch_recovered(part)
        if part.is_finished:
            self._evict(part)
        elif part.is_at_end and part.stop_at is not None:
            self._sink.ended_early(part)

    def _diverged(self, part: SourcePartition, leader_epoch: int, end_offset: int) -> None:
        """The log has this epoch in common with what was read, and goes on differently."""
        self._evict(part)
        part.trouble = error_codes.SOURCE_TRUNCATED
        part.last_epoch = leader_epoch
        self._sink.diverged(part, end_offset)

    def _complain(self, part: SourcePartition, code: int, text: str = "") -> None:
        """Take a partition out, report it, and see to it that it comes back."""
        self._evict(part)
        remedy = error_codes.remedy(code)
        part.trouble = code
        if remedy is Remedy.OUT_OF_RANGE:
            self._sink.out_of_range(part)
            return
        self._sink.fetch_trouble(part, code, text)
        if self._parts.get(part.tp) is not part:
            return  # it is wanted no more
        if remedy is Remedy.REFRESH:
            self._homeless[part.tp] = part
            self._cluster.refresh(after=part.backoff.next_pause())
            return
        pause = part.backoff.next_pause(slow=remedy is Remedy.QUARANTINE)
        self._loop.call_later(pause, lambda: self._return(part))

    def _return(self, part: SourcePartition) -> None:
        if not self._closing and part.session is None and self._parts.get(part.tp) is part:
            self._homeless[part.tp] = part
            self._cluster.refresh()

    def _lost(self, session: FetchSession, error: UnreachableError, wanted: int = 0) -> None:
        session.in_flight = False
        self._budget.give_back(wanted)
        self._cluster.complain(error)
        session.start_over()
        if not self._is_alone(session):
            self._shut(session)
        if not self._closing:
            for part in [*session.members.values()]:
                self._complain(part, error_codes.LOST_CONNECTION)

    def _shut(self, session: FetchSession) -> None:
        """One of several lanes is lost: its partitions go to those that are left."""
        self._sessions.pop((session.node, session.lane), None)
        if session in self._without_room:
            self._without_room.remove(session)
        if not session.has_answered:
            self._crowded.add(session.node)  # it may not take so many connections
        for part in self._parts.values():
            if part.session is session and part.tp not in session.members:  # held back
                session.join(part)

    def _give_up(self, session: FetchSession, wanted: int) -> None:
        session.in_flight = False
        self._budget.give_back(wanted)
        for part in [*session.members.values()]:
            self._complain(part, error_codes.UNSUPPORTED_VERSION)

    def close(self) -> None:
        """Stop reading and tell the brokers that the sessions are over."""
        self._closing = True
        for session in self._sessions.values():
            if session.id == 0:
                continue
            try:
                connection = self._cluster.connection(session.node, session.lane)
            except UnreachableError:
                continue  # the session is lost with the broker
            if connection.api_versions:
                goodbye = fetch_request(
                    NAMES_VERSION,
                    self._limits,
                    max_wait_ms=0,
                    max_bytes=0,
                    max_partition_bytes=0,
                    session=(session.id, FINAL_SESSION_EPOCH),
                )
                connection.exchange(goodbye, lambda _f: None, lambda _e: None, newest=NAMES_VERSION)


def _leader_epoch(part: SourcePartition) -> int:
    return part.leader.leader_epoch if part.leader else UNKNOWN_EPOCH
