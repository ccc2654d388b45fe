# SPDX-License-Identifier: Apache-2.0
"""Fetch raw record batches from the leaders of a task's partitions.

One fetch session per broker, one request in flight per session: after the first, a request names
only the partitions whose position changed, so idle partitions cost nothing. A high-latency broker
has several sessions, to keep requests in flight. Backpressure: a partition with enough queued bytes
leaves the session until they are written. Owned by the loop's thread.

Brokers before 1.1, and services such as Azure Event Hubs, have no sessions (Fetch < 7): every
request names all partitions. Brokers before 2.7 (Fetch < 12) do not report log truncation, so
OffsetForLeaderEpoch validates the position whenever a partition gets a leader.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from sparkmirror.errors import CorruptRecordBatchError, UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.error_codes import Remedy
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_lanes import SMALLEST_FETCH, FetchLanes
from sparkmirror.wire.fetch_partition import (
    UNKNOWN_LEADER_EPOCH,
    FetchPartition,
    LogChangeListener,
    leader_epoch,
)
from sparkmirror.wire.fetch_protocol import (
    FETCH_KEY,
    IDS_VERSION,
    NAMES_VERSION,
    OLDEST_VERSION,
    PartitionData,
    fetch_request,
    parse_response,
)
from sparkmirror.wire.fetch_session import FetchSession
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer
from sparkmirror.wire.position_validation import (
    EpochEnds,
    is_diverged,
    request_validation,
    validation_error,
)
from sparkmirror.wire.settings import FetchSettings

_BACKPRESSURE_WAIT_MS = 10  # no long poll for idle partitions while others are held back
_SESSION_EPOCH_MASK = 0x7FFFFFFF


class Fetcher:
    """Reads all partitions of one task; set `log_changes` before adding the first partition."""

    log_changes: LogChangeListener

    def __init__(
        self,
        loop: EventLoop,
        cluster: Cluster,
        settings: FetchSettings,
        budget: MemoryBudget,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._settings = settings
        self._reads_committed = settings.reads_committed
        self._budget = budget
        self._parts: dict[TopicPartition, FetchPartition] = {}
        self._without_leader: dict[TopicPartition, FetchPartition] = {}
        self._lanes = FetchLanes(settings, budget)
        self._waiting_for_memory: list[FetchSession] = []  # in order of arrival
        self._closing = False
        # Called in this order after each response.
        self.on_response: tuple[Callable[[], None], ...] = ()
        cluster.metadata_listeners.append(self._on_metadata)

    # --- which partitions

    def add(self, parts: Iterable[FetchPartition]) -> None:
        for part in parts:
            self._parts[part.tp] = part
            if not part.is_finished:
                self._assign_or_wait(part)
        self._cluster.track_topics({tp.topic for tp in self._without_leader})
        self.send_fetches()

    def seek(self, part: FetchPartition, position: int) -> None:
        """Continue at this position with the next `send_fetches`."""
        part.moves += 1
        self._set_position(part, position)
        self._parts[part.tp] = part
        if part.is_finished:
            self._remove_from_session(part)
            return
        self._assign_or_wait(part)
        if part.tp in self._without_leader:
            self._cluster.track_topics({part.tp.topic})

    def _assign_or_wait(self, part: FetchPartition) -> None:
        """Assign a partition to its leader, or wait for the metadata of its topic."""
        if not self._cluster.has_metadata(part.tp):
            self._without_leader[part.tp] = part
            return
        self._assign_to_leader(part)
        if part.session is not None and part.session.in_flight:
            part.session.note_late_add()

    def resume_at(self, part: FetchPartition, position: int) -> None:
        """Continue a partition at a position, and send the fetches."""
        part.moves += 1
        self._parts[part.tp] = part
        self._set_position(part, position)
        self._assign_to_leader(part)
        self.send_fetches()

    def pause(self, part: FetchPartition, position: int | None = None) -> None:
        """Stop reading a partition until `seek`; sets its position, if given."""
        part.moves += 1
        self._remove_from_session(part)
        self._parts.pop(part.tp, None)  # `_retry` checks this
        self._without_leader.pop(part.tp, None)
        if position is not None:
            self._set_position(part, position)

    def seek_later(self, part: FetchPartition, position: int, pause: float) -> None:
        """Continue at the same or an earlier position, after a pause."""
        part.moves += 1
        self._remove_from_session(part)
        self._parts[part.tp] = part
        self._set_position(part, position)
        self._loop.call_later(pause, lambda: self._retry(part))

    def remove(self, part: FetchPartition) -> None:
        self._remove_from_session(part)
        self._parts.pop(part.tp, None)
        self._without_leader.pop(part.tp, None)

    @staticmethod
    def _set_position(part: FetchPartition, position: int) -> None:
        if position > part.position:  # an older epoch may end before the new position
            part.last_leader_epoch = UNKNOWN_LEADER_EPOCH
        part.position = position
        part.is_at_end = False

    def on_drained(self, part: FetchPartition) -> None:
        """End the backpressure of a partition once the target has acknowledged enough."""
        session = part.session
        if session is None or part.tp not in session.backpressured:
            return
        if part.queued_bytes < self._lanes.max_partition_bytes(session):
            session.backpressured.discard(part.tp)
            session.add(part)

    def _assign_to_leader(self, part: FetchPartition) -> None:
        leader = self._cluster.leaders.get(part.tp)
        if leader is None:
            self._fail_partition(part, self._cluster.leader_error(part.tp))
            return
        if self._is_recreated(part):
            self._fail_partition(part, error_codes.TOPIC_RECREATED)
            return
        self._remove_from_session(part)
        part.leader = leader
        part.is_position_validated = False
        session = self._lanes.smallest(leader.node)
        part.session = session
        session.add(part)

    def _is_recreated(self, part: FetchPartition) -> bool:
        now_id = self._cluster.topic_ids.get(part.tp.topic)
        return part.topic_id is not None and now_id is not None and now_id != part.topic_id

    def _on_metadata(self) -> None:
        waiting, self._without_leader = self._without_leader, {}
        for part in waiting.values():
            self._assign_to_leader(part)
        self.send_fetches()

    def _remove_from_session(self, part: FetchPartition) -> None:
        session, part.session = part.session, None
        if session is not None:
            session.backpressured.discard(part.tp)
            session.remove(part)

    # --- requests

    def send_fetches(self) -> None:
        """Send a fetch on every session without one in flight, within the memory budget."""
        for session in [*self._waiting_for_memory, *self._lanes.sessions.values()]:
            if not session.in_flight:
                self._send_if_possible(session)

    def _send_if_possible(self, session: FetchSession) -> None:
        if self._closing or session.in_flight or not session.partitions:
            return
        wanted = min(self._lanes.max_response_bytes(), max(self._budget.available, SMALLEST_FETCH))
        if self._budget.held and self._budget.available < wanted:
            if session not in self._waiting_for_memory:
                self._waiting_for_memory.append(session)
            return
        enough = self._lanes.max_partition_bytes(session)
        if len(session.changed) == len(session.partitions) and all(
            part.queued_bytes >= enough for part in session.changed.values()
        ):
            return  # every partition has enough queued
        try:
            connection = self._cluster.connection(session.node, session.lane)
        except UnreachableError as error:
            self._on_connection_lost(session, error)
            return
        session.in_flight = True
        if session in self._waiting_for_memory:
            self._waiting_for_memory.remove(session)
        self._budget.reserve(wanted)
        connection.when_ready(
            lambda: self._send(connection, session, wanted),
            lambda error: self._on_connection_lost(session, error, wanted),
        )

    def _send_next(self, session: FetchSession) -> None:
        """Send the next fetch; sessions that wait for memory come first, to prevent starvation."""
        for waiting in [*self._waiting_for_memory]:
            self._send_if_possible(waiting)
        self._send_if_possible(session)

    def _send(self, connection: BrokerConnection, session: FetchSession, wanted: int) -> None:
        may_split = connection.is_high_latency and self._lanes.is_single(session)
        if may_split and self._lanes.split(session):
            self.send_fetches()
        version = self._version(connection, session)
        if version < OLDEST_VERSION:
            self._fail_unsupported(session, wanted)
            return
        if version < NAMES_VERSION and request_validation(
            connection,
            session,
            lambda ends: self._on_epoch_ends(connection, session, wanted, ends),
            lambda error: self._on_connection_lost(session, error, wanted),
        ):
            return
        full = session.id == 0
        if full:
            session.reset()
        for part in [*session.changed.values()]:
            if self._is_recreated(part):  # the position belongs to the deleted topic
                self._fail_partition(part, error_codes.TOPIC_RECREATED)
        changed, session.changed = session.changed, {}
        forgotten, session.forgotten = session.forgotten, {}
        request = fetch_request(
            version,
            self._settings,
            max_wait_ms=self._max_wait_ms(session),
            max_bytes=wanted,
            max_partition_bytes=self._lanes.max_partition_bytes(session),
            session=(session.id, session.session_epoch),
            wanted={
                tp: (part.position, leader_epoch(part), part.last_leader_epoch)
                for tp, part in changed.items()
            },
            forgotten=() if full else forgotten,
            topic_ids=self._cluster.topic_ids,
        )
        connection.request_raw(
            request,
            lambda frame: self._on_response(session, frame, version, wanted),
            lambda error: self._on_connection_lost(session, error, wanted),
            newest=version,
        )

    def _version(self, connection: BrokerConnection, session: FetchSession) -> int:
        newest = IDS_VERSION if self._all_have_ids(session) else NAMES_VERSION
        try:
            return connection.negotiated_version(FETCH_KEY, newest)
        except WireError:
            return 0

    def _on_epoch_ends(
        self, connection: BrokerConnection, session: FetchSession, wanted: int, ends: EpochEnds
    ) -> None:
        """Handle epoch ends like a Fetch response of version 12, then fetch."""
        for part, end in () if self._closing else ends:
            if end is None or end.error in error_codes.NOT_AUTHORIZED:
                part.is_position_validated = True  # this broker cannot validate it
            elif code := validation_error(end):
                self._fail_partition(part, code)
            elif is_diverged(part, end):
                self._diverged(part, end.leader_epoch, end.end_offset)
            else:
                part.is_position_validated = True
        if session.partitions and not self._closing:
            self._send(connection, session, wanted)
        else:
            session.in_flight = False
            self._budget.release(wanted)

    def _max_wait_ms(self, session: FetchSession) -> int:
        """The fetch.max.wait.ms of the next request.

        Short while partitions are under backpressure or were added late, as in a take-over: they
        must not wait for idle partitions. Doubles with each empty response.
        """
        longest = self._settings.fetch_max_wait_ms
        wait = _BACKPRESSURE_WAIT_MS << min(session.empty_responses, 10)
        if wait >= longest:
            session.has_late_adds = False
        is_urgent = session.backpressured or session.has_late_adds
        return min(wait, longest) if is_urgent else longest

    def _all_have_ids(self, session: FetchSession) -> bool:
        return all(tp.topic in self._cluster.topic_ids for tp in session.partitions)

    # --- responses

    def _on_response(
        self, session: FetchSession, frame: memoryview, version: int, wanted: int
    ) -> None:
        response = parse_response(frame, version)  # raises before the request counts as answered
        session.in_flight = False
        self._budget.release(wanted)
        if self._closing:
            return
        if response.error:
            self._on_session_error(session, response.error)
            return
        session.has_responded = True
        session.id = response.session_id
        session.session_epoch = (session.session_epoch + 1) & _SESSION_EPOCH_MASK or 1
        buffer = SharedBuffer(self._budget, len(frame))
        is_empty = not any(data.records for data in response.partitions)
        session.empty_responses = session.empty_responses + 1 if is_empty else 0
        enough = 2 * self._lanes.max_partition_bytes(session)
        for data in response.partitions:
            topic = data.topic
            if isinstance(topic, uuid.UUID):
                topic = self._cluster.topic_names.get(topic, "")
                if not topic:  # the broker's session still has the deleted topic
                    session.reset()
                    self._cluster.refresh_metadata()
                    continue
            member = session.partitions.get(TopicPartition(topic, data.partition))
            # Ignore partitions whose position changed since the request: data from an older
            # position would look like a gap.
            if member is not None and member.tp not in session.changed:
                self._handle_partition(session, member, data, buffer, enough)
        buffer.release_owner()
        if len(frame) > SMALLEST_FETCH // 2:
            session.count_busy()
        for callback in self.on_response:
            callback()
        self._send_next(session)

    def _on_session_error(self, session: FetchSession, code: int) -> None:
        session.reset()
        if code not in error_codes.SESSION_ERRORS:
            for part in [*session.partitions.values()]:
                self._fail_partition(part, code)
        self._send_if_possible(session)

    def _handle_partition(
        self,
        session: FetchSession,
        part: FetchPartition,
        data: PartitionData,
        buffer: SharedBuffer,
        enough: int,
    ) -> None:
        if data.error:
            self._fail_partition(part, data.error)
            return
        if data.diverging is not None:
            self._diverged(part, *data.diverging)
            return
        committed = self._reads_committed and data.last_stable_offset >= 0
        part.end_offset = data.last_stable_offset if committed else data.high_watermark
        part.high_watermark = data.high_watermark
        part.log_start_offset = data.log_start_offset
        if data.records:
            aborted = data.aborted if self._reads_committed else ()
            try:
                part.position = part.listener.on_records(part, data.records, aborted, buffer)
            except CorruptRecordBatchError as error:
                self._fail_partition(part, error_codes.CORRUPT_SOURCE_BATCH, str(error))
                return
            if part.session is not session:
                return  # the listener moved it to another position
            session.changed[part.tp] = part
            if session.id == 0:
                session.move_to_end(part)
            if part.queued_bytes >= enough:
                session.backpressured.add(part.tp)
                session.remove(part)
        self._partition_read(part)

    def _partition_read(self, part: FetchPartition) -> None:
        part.is_at_end = part.position >= part.end_offset
        if part.error:
            part.error = error_codes.NONE
            part.backoff.reset()
            part.listener.on_fetch_recovered(part)
        if part.is_finished:
            self._remove_from_session(part)
        elif part.is_at_end and part.stop_at is not None:
            self.log_changes.on_ended_early(part)

    def _diverged(self, part: FetchPartition, leader_epoch: int, end_offset: int) -> None:
        """Handle a truncated log: `leader_epoch` is the last epoch in common."""
        self._remove_from_session(part)
        part.error = error_codes.SOURCE_TRUNCATED
        part.last_leader_epoch = leader_epoch
        self.log_changes.on_diverged(part, end_offset)

    def _fail_partition(self, part: FetchPartition, code: int, text: str = "") -> None:
        """Remove a partition from its session, report the error and schedule a retry."""
        self._remove_from_session(part)
        remedy = error_codes.remedy(code)
        part.error = code
        if remedy is Remedy.OUT_OF_RANGE:
            self.log_changes.on_out_of_range(part)
            return
        part.listener.on_fetch_error(part, code, text)
        if self._parts.get(part.tp) is not part:
            return  # the listener removed it
        if remedy is Remedy.REFRESH:
            self._without_leader[part.tp] = part
            self._cluster.refresh_metadata(after=part.backoff.next_pause())
            return
        pause = part.backoff.next_pause(slow=remedy is Remedy.QUARANTINE)
        self._loop.call_later(pause, lambda: self._retry(part))

    def _retry(self, part: FetchPartition) -> None:
        if not self._closing and part.session is None and self._parts.get(part.tp) is part:
            self._without_leader[part.tp] = part
            self._cluster.refresh_metadata()

    def _on_connection_lost(
        self, session: FetchSession, error: UnreachableError, wanted: int = 0
    ) -> None:
        session.in_flight = False
        self._budget.release(wanted)
        self._cluster.report_error(error)
        session.reset()
        if not self._lanes.is_single(session):
            self._remove_session(session)
        if not self._closing:
            for part in [*session.partitions.values()]:
                self._fail_partition(part, error_codes.CONNECTION_LOST)

    def _remove_session(self, session: FetchSession) -> None:
        """Remove one of several lanes; its partitions move to the others."""
        self._lanes.remove(session)
        if session in self._waiting_for_memory:
            self._waiting_for_memory.remove(session)
        for part in self._parts.values():
            if part.session is session and part.tp not in session.partitions:  # backpressured
                session.add(part)

    def _fail_unsupported(self, session: FetchSession, wanted: int) -> None:
        session.in_flight = False
        self._budget.release(wanted)
        for part in [*session.partitions.values()]:
            self._fail_partition(part, error_codes.UNSUPPORTED_VERSION)

    def close(self) -> None:
        """Stop reading, and close the sessions on the brokers."""
        self._closing = True
        self._lanes.close(self._cluster)
