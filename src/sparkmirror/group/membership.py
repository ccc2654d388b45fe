# SPDX-License-Identifier: Apache-2.0
"""A worker's place in its group: it joins, is given work, gives work up, and knows who leads.

Three threads. `<group>/member` owns the state and makes all calls back, one at a time, and never
waits for a broker; `<group>/heartbeats` keeps the place; `<group>/join` exists while a generation
of the group forms. They tell the first one through its queue.

    A  `is_member` is false as soon as the place may be somebody else's, by the local clock, and
       whoever writes for the group asks it first.
    B  A place that is lost is lost with all its work: the caller has ended everything
       (`on_revoked` has returned) before this worker asks for a place again.
    C  Work that is revoked has ended before this worker joins the round that gives it to others.
    D  Who leads is decided by the coordinator, once in each generation.
    E  While the group has members of another kind (Java's workers; pairs, for a worker), this one
       stands by: the coordinator lets one kind in only. It takes over when they have left.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.formats.connect_protocol import Assignment
from sparkmirror.group.assignor import PreviousAssignment
from sparkmirror.group.heartbeats import HeartbeatSender, MemberIdentity
from sparkmirror.group.joining import (
    AssignmentReceived,
    ConfigView,
    GroupJoined,
    JoinAttempt,
    JoinEvent,
    JoinFailed,
    JoiningMember,
    MemberIdReceived,
)
from sparkmirror.group.session import Session
from sparkmirror.group.status_message import StatusMessage
from sparkmirror.kafka.coordinator_client import (
    COORDINATOR_CODES,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    CoordinatorClient,
)
from sparkmirror.system.clock import Clock, steady_clock
from sparkmirror.wire.settings import ConnectionSettings

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5  # how long the queue may keep us from looking at the clock
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_QUIET_PAUSE_SECONDS = 1.0  # a coordinator that moves, or a group that reads on, is no news before
_STAND_BY_SECONDS = 1.0  # how often to look whether the others have left
_LONGEST_BEAT_SECONDS = 1.0  # a member hears of a new round by its heartbeats only
_CONNECT_SECONDS = 5.0
_NO_GENERATION = -1

ConnectorNames: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """What a worker is in a generation of its group; the assignment holds all of its work."""

    member_id: str
    generation: int
    assignment: Assignment

    @property
    def is_leader(self) -> bool:
        """Whether this worker decides for all."""
        return self.assignment.leader == self.member_id


@dataclass(frozen=True, slots=True)
class _HeartbeatResponse:
    identity: MemberIdentity
    code: int


@dataclass(frozen=True, slots=True)
class _JoinProgress:
    by: JoinAttempt
    news: JoinEvent


class _Wakeup:
    """Somebody asks for a new round, or for the end; what was asked is in the flags."""


class Membership:
    """Keeps a worker in its group from `start` to `stop`; properties may be read by any thread."""

    def __init__(
        self,
        connection: ConnectionSettings,
        settings: GroupSettings,
        url: str,
        configs: ConfigView,
        *,
        on_assigned: Callable[[ConnectorNames], None],
        on_revoked: Callable[[ConnectorNames], None],
        clock: Clock = steady_clock,
    ) -> None:
        """`on_assigned` gets all connectors that are to run here, in each generation.

        Also if the same ran before; the newest configs may lack one of them, which has gone since.
        `on_revoked` returns when the named ones have ended. Neither may call `stop`.
        """
        self._settings = settings
        self._connection = self._with_short_timeouts(connection)
        self._url = url
        self._configs = configs
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._clock = clock
        self._name = settings.group_id
        self._session = Session(
            settings.session_timeout_ms / 1000, settings.rebalance_timeout_ms / 1000, clock
        )
        self._heartbeats = HeartbeatSender(
            self._name,
            self._open_coordinator_client,
            self._session,
            min(settings.heartbeat_interval_ms / 1000, _LONGEST_BEAT_SECONDS),
            clock,
            lambda identity, code: self._events.put(_HeartbeatResponse(identity, code)),
        )
        self._events: queue.SimpleQueue[_HeartbeatResponse | _JoinProgress | _Wakeup] = (
            queue.SimpleQueue()
        )
        self._generation: Generation | None = None
        self._member_id = ""
        self._previous = PreviousAssignment()
        self._join: JoinAttempt | None = None
        self._join_at: float | None = 0.0  # None: not before something happens
        self._rejoin_requested = threading.Event()
        self._stopping = threading.Event()
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._trouble = StatusMessage(f"{self._name}/member")
        self._error: Exception | None = None
        self.failure: Exception | None = None  # what has ended its thread
        self._thread = threading.Thread(target=self._run, name=f"{self._name}/member", daemon=True)

    def _with_short_timeouts(self, connection: ConnectionSettings) -> ConnectionSettings:
        patience = max(1.0, self._settings.session_timeout_ms / 3000)
        return replace(
            connection,
            connect_timeout_seconds=min(connection.connect_timeout_seconds, _CONNECT_SECONDS),
            request_timeout_seconds=min(connection.request_timeout_seconds, patience),
        )

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Connect in another way from now on; what stands goes on."""
        self._connection = self._with_short_timeouts(connection)
        self._heartbeats.update_connection(self._connection)

    def start(self) -> None:
        """Begin to join; the group calls back when there is a place."""
        self._thread.start()
        self._heartbeats.start()

    def stop(self, seconds: float | None = None) -> bool:
        """End all work (`on_revoked`), leave the group and wait for that; whether it has ended."""
        self._stopping.set()
        self._events.put(_Wakeup())
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def rejoin(self) -> None:
        """Ask for a new round: connectors have come or gone."""
        self._rejoin_requested.set()
        self._events.put(_Wakeup())

    @property
    def is_member(self) -> bool:
        """Whether this worker certainly has its place: nobody else was given its work."""
        return self._generation is not None and self._session.is_alive

    @property
    def is_leader(self) -> bool:
        """Whether this worker certainly leads the group."""
        place = self._generation
        return place is not None and place.is_leader and self._session.is_alive

    @property
    def is_settled(self) -> bool:
        """Whether no new round is under way or due, so far as this worker knows."""
        waiting = self._join is None and not self._rejoin_requested.is_set()
        return self.is_member and waiting and (self._join_at is None or not self._is_join_due())

    @property
    def member_id(self) -> str:
        """The name that the coordinator gave; empty before."""
        return self._member_id

    @property
    def generation(self) -> int:
        """The generation of the group that this worker has a place in, or -1."""
        place = self._generation
        return place.generation if place is not None else _NO_GENERATION

    @property
    def leader_id(self) -> str | None:
        """The leader's member id, if there is one."""
        place = self._generation
        return place.assignment.leader if place is not None else None

    @property
    def leader_url(self) -> str | None:
        """Where the leader's REST API is, if there is one."""
        place = self._generation
        return place.assignment.leader_url if place is not None else None

    @property
    def assignment(self) -> ConnectorNames:
        """All connectors that this worker is to run."""
        place = self._generation
        return place.assignment.connectors if place is not None else ()

    @property
    def problem(self) -> str | None:
        """Why this worker has no place, or will not keep it; None if all is well."""
        return self._trouble.text

    @property
    def error(self) -> Exception | None:
        """What the last try to join ended with, if nothing came of it."""
        return self._error

    @property
    def is_standby(self) -> bool:
        """Whether workers of another kind have the group."""
        error = self._error
        return isinstance(error, BrokerError) and error.code == INCONSISTENT_GROUP_PROTOCOL

    def owner_url(self, connector: str) -> str | None:
        """Where a connector runs, by the last decision; only the leader knows."""
        if not self.is_leader:
            return None
        owner = self._previous.owners.get(connector)
        return owner.url if owner is not None and owner.reassign_at is None else None

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
            self._revoke_and_leave("the worker stops")
        except Exception as error:
            # The root of the thread: without it there is no place, so nothing may go on.
            log.exception(f"{self._name}/member: this worker is no member any more.")
            self._trouble.set("is no member any more, until it is started again", repr(error))
            self.failure = error
            self._drop_generation("of an error")
        finally:
            self._heartbeats.stop()
            self._leave()

    def _step(self) -> None:
        if self._check_session():
            return
        if self._rejoin_requested.is_set() and self._join is None and self._generation is not None:
            self._rejoin_requested.clear()
            self._join_in(0.0)
        if self._join is None and self._is_join_due():
            self._start_join()
        try:
            event = self._events.get(timeout=self._poll_timeout())
        except queue.Empty:
            event = None
        if self._check_session():  # whatever the news is, it came too late
            return
        match event:
            case _HeartbeatResponse(identity, code):
                self._on_heartbeat_response(identity, code)
            case _JoinProgress(by, news) if by is self._join:
                self._on_join_event(news)

    def _check_session(self) -> bool:
        """Whether the time is over, and the place given up: asked before anything else happens."""
        is_lost = self._session.has_expired
        if is_lost:
            self._on_membership_lost("no heartbeat was answered in time")
        return is_lost

    def _poll_timeout(self) -> float:
        waits = [_LOOK_SECONDS, self._session.seconds_left]
        if self._join is None and self._join_at is not None:
            waits.append(max(0.0, self._join_at - self._clock()))
        return min(waits)

    def _is_join_due(self) -> bool:
        return self._join_at is not None and self._clock() >= self._join_at

    def _join_in(self, seconds: float) -> None:
        at = self._clock() + seconds
        self._join_at = at if self._join_at is None else min(at, self._join_at)

    def _on_heartbeat_response(self, identity: MemberIdentity, code: int) -> None:
        if identity.member_id != self._member_id or self._generation is None:
            return
        if code == REBALANCE_IN_PROGRESS:
            if self._join is None:
                self._join_in(0.0)
        elif code == UNKNOWN_MEMBER_ID:
            self._on_membership_lost("the coordinator does not know this worker any more")
            self._member_id = ""
        elif (
            code == ILLEGAL_GENERATION
            and self._join is None
            and identity == self._heartbeats.identity
        ):
            self._on_membership_lost("the group went on without this worker")

    def _start_join(self) -> None:
        self._join_at = None
        self._rejoin_requested.clear()
        self._session.start_rejoin()
        place = self._generation
        self._join = JoinAttempt(
            JoiningMember(
                self._member_id,
                self._url,
                None if place is None else place.assignment,
                self._previous
                if self._previous.generation == self.generation
                else PreviousAssignment(),
            ),
            self._settings,
            self._configs,
            self._open_coordinator_client(),
            lambda by, news: self._events.put(_JoinProgress(by, news)),
            clock=self._clock,
        )
        self._join.start()

    def _on_join_event(self, news: JoinEvent) -> None:
        match news:
            case MemberIdReceived(member_id):
                self._member_id = member_id
            case GroupJoined(joined):
                self._heartbeats.set_member(MemberIdentity(joined.member_id, joined.generation))
            case JoinFailed(error):
                self._join = None
                self._error = error
                self._on_join_failed(error)
            case AssignmentReceived():
                self._join = None
                self._error = None
                self._on_assignment(news)

    def _on_assignment(self, placed: AssignmentReceived) -> None:
        before, found = self._generation, placed.assignment
        self._session.begin(placed.sent_at)
        if self._session.has_expired:
            self._on_membership_lost("the assignment came too late")
            return
        held = self.assignment
        # A follower that joins again may be told what it was told before: that is not added to
        # what it has.
        is_new = before is None or before.generation != placed.joined.generation
        revoked = tuple(name for name in held if is_new and name in found.revoked)
        kept = tuple(name for name in held if name not in revoked)
        work = tuple(dict.fromkeys(kept + found.connectors)) if is_new else held
        self._generation = Generation(
            placed.joined.member_id,
            placed.joined.generation,
            replace(found, connectors=work, revoked=(), delay_ms=0, error=0),
        )
        if placed.next_state is not None:
            self._previous = placed.next_state
        log.info(
            f"{self._name}/member: generation {placed.joined.generation}, leader "
            f"{found.leader_url}, {len(work)} connectors here"
        )
        if revoked:
            self._join_in(0.0)
        elif found.delay_ms > 0 and is_new:
            self._join_in(found.delay_ms / 1000)
        if revoked:
            self._on_revoked(revoked)
        if placed.config_error is not None:
            self._leave_temporarily(placed.config_error)
        elif not placed.is_usable:
            pause = self._next_pause()
            self._join_in(pause)
            if pause > _QUIET_PAUSE_SECONDS:
                self._trouble.set(
                    "begins nothing new, because it waits for configs",
                    f"it has read them up to {placed.known_offset}, its group knows them up to "
                    f"{found.config_offset}.",
                )
        else:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            self._trouble.clear()
            if self._session.is_alive:
                self._on_assigned(work)

    def _on_join_failed(self, error: Exception) -> None:
        code = error.code if isinstance(error, BrokerError) else 0
        if code == UNKNOWN_MEMBER_ID:
            self._member_id = ""
            self._join_in(0.0)
            if self._generation is not None:
                self._on_membership_lost("the coordinator does not know this worker any more")
            return
        if code in {ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS}:  # the next round has begun already
            self._join_in(0.0)
            return
        if code == INCONSISTENT_GROUP_PROTOCOL:
            self._enter_standby()
            return
        pause = self._next_pause()
        self._join_in(pause)
        if code not in COORDINATOR_CODES or pause > _QUIET_PAUSE_SECONDS:
            self._trouble.set("cannot join its group, and tries again", str(error))

    def _enter_standby(self) -> None:
        if self._generation is not None:
            self._on_membership_lost("members of another kind have its group")
        self._leave()  # they would wait for a member that has a name and does not join
        self._join_at = self._clock() + _STAND_BY_SECONDS
        self._trouble.set(
            "stands by",
            f"group '{self._settings.group_id}' on cluster '{self._connection.alias}' is used by "
            f"workers of another kind (Kafka Connect, MirrorMaker 2, or sparkmirror's other way to "
            f"run). It takes over when they have left; to run beside them it needs another "
            f"group.id, and topics of its own.",
        )

    def _leave_temporarily(self, error: ClusterError) -> None:
        """As in Connect: a worker that cannot read the configs is of no use to its group."""
        sentence = f"the configs cannot be read: {error}"
        self._trouble.set("leaves its group for a while", sentence)
        self._revoke_and_leave(sentence)
        self._leave()
        self._join_at = self._clock() + self._settings.unsync_backoff_ms / 1000

    def _on_membership_lost(self, reason: str) -> None:
        self._trouble.set("has lost its place, and all of its work ends", f"{reason}.")
        self._drop_generation(reason)
        self._join_in(0.0)

    def _revoke_and_leave(self, reason: str) -> None:
        """All work ends while the place is still ours, and then the place is given up."""
        self._abandon_join()
        place = self._generation
        if place is not None and place.assignment.connectors:
            self._generation = replace(place, assignment=replace(place.assignment, connectors=()))
            self._on_revoked(place.assignment.connectors)
        self._drop_generation(reason)

    def _drop_generation(self, reason: str) -> None:
        """There is no place any more, so all work must end."""
        place, self._generation = self._generation, None
        self._abandon_join()
        self._heartbeats.set_member(None)
        self._session.end()
        self._previous = PreviousAssignment()
        self._join_at = None
        if place is not None and place.assignment.connectors:
            log.info(f"{self._name}/member: all work is revoked, because {reason}")
            self._on_revoked(place.assignment.connectors)

    def _abandon_join(self) -> None:
        if self._join is not None:
            self._member_id = self._member_id or self._join.member_id
            self._join.abandon()
            self._join = None

    def _leave(self) -> None:
        member_id, self._member_id = self._member_id, ""
        if not member_id:
            return
        with self._open_coordinator_client() as line:
            try:
                line.leave(member_id)
            except ClusterError as error:
                log.warning(
                    f"{self._name}/member: could not leave; the group waits for the session's "
                    f"end: {error}"
                )

    def _open_coordinator_client(self) -> CoordinatorClient:
        return CoordinatorClient(self._connection, self._settings.group_id)

    def _next_pause(self) -> float:
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return pause
