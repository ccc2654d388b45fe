# SPDX-License-Identifier: Apache-2.0
"""A worker's membership in its group: joins, gets and gives up connectors, knows the leader.

Three threads. `<group>/member` owns the state and makes all callbacks, one at a time, and never
waits for a broker. `<group>/heartbeats` keeps the membership. `<group>/join` exists during a
rebalance. The other two send events to the first one's queue.

    A  `is_member` is false as soon as the membership may have expired, by the local clock.
       Callers check it before they write for the group.
    B  A lost membership ends all work: `on_revoked` has returned before this worker joins again.
    C  Revoked connectors have stopped before this worker joins the round that reassigns them.
    D  The coordinator chooses the leader, once per generation.
    E  While the group has members with another protocol (Java's workers, or flows of `run`), this
       worker is on standby: the coordinator accepts one protocol. It joins when they have left.
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
from sparkmirror.quantities import counted
from sparkmirror.system.clock import Clock, steady_clock
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.wire.settings import ConnectionSettings

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5  # how long the queue may block before the session is checked
_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 5.0
_QUIET_PAUSE_SECONDS = 1.0  # up to this pause a moving coordinator is not reported
_STANDBY_SECONDS = 1.0  # between attempts to join while other members use the group
_MAX_HEARTBEAT_SECONDS = 1.0  # a member learns of a rebalance by its heartbeats only
_CONNECT_SECONDS = 5.0
_NO_GENERATION = -1

ConnectorNames: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """A member in a generation; the assignment has all of its connectors."""

    member_id: str
    generation: int
    assignment: Assignment

    @property
    def is_leader(self) -> bool:
        """Whether this member assigns the connectors."""
        return self.assignment.leader == self.member_id


@dataclass(frozen=True, slots=True)
class _HeartbeatResponse:
    identity: MemberIdentity
    code: int


@dataclass(frozen=True, slots=True)
class _JoinProgress:
    by: JoinAttempt
    event: JoinEvent


class _Wakeup:
    """A rejoin or a stop was requested; the flags tell which."""


class Membership:
    """Keeps a worker in its group from `start` to `stop`. Properties are thread-safe."""

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
        """`on_assigned` gets all connectors to run here, in each generation.

        It is also called if nothing changed. A connector that was deleted since may be among them.
        `on_revoked` returns when the named connectors have stopped. Neither may call `stop`.
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
            min(settings.heartbeat_interval_ms / 1000, _MAX_HEARTBEAT_SECONDS),
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
        self._join_at: float | None = 0.0  # None: not before an event
        self._rejoin_requested = threading.Event()
        self._stopping = threading.Event()
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._problem = StatusMessage(f"{self._name}/member")
        self._error: Exception | None = None
        self.failure: Exception | None = None  # the error that ended the thread
        self._thread = ScopedThread(target=self._run, name=f"{self._name}/member", daemon=True)

    def _with_short_timeouts(self, connection: ConnectionSettings) -> ConnectionSettings:
        request_timeout = max(1.0, self._settings.session_timeout_ms / 3000)
        return replace(
            connection,
            connect_timeout_seconds=min(connection.connect_timeout_seconds, _CONNECT_SECONDS),
            request_timeout_seconds=min(connection.request_timeout_seconds, request_timeout),
        )

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other parameters for new connections; existing ones are kept."""
        self._connection = self._with_short_timeouts(connection)
        self._heartbeats.update_connection(self._connection)

    def start(self) -> None:
        """Start joining; `on_assigned` is called after success."""
        self._thread.start()
        self._heartbeats.start()

    def stop(self, seconds: float | None = None) -> bool:
        """Stop all work, leave the group and wait. Returns whether it has stopped."""
        self._stopping.set()
        self._events.put(_Wakeup())
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def rejoin(self) -> None:
        """Request a rebalance: connectors were added or removed."""
        self._rejoin_requested.set()
        self._events.put(_Wakeup())

    @property
    def is_member(self) -> bool:
        """Whether this worker certainly is a member: its connectors were not reassigned."""
        return self._generation is not None and self._session.is_alive

    @property
    def is_leader(self) -> bool:
        """Whether this worker certainly is the leader."""
        generation = self._generation
        return generation is not None and generation.is_leader and self._session.is_alive

    @property
    def is_settled(self) -> bool:
        """Whether no rebalance is in progress or due, as far as this worker knows."""
        waiting = self._join is None and not self._rejoin_requested.is_set()
        return self.is_member and waiting and (self._join_at is None or not self._is_join_due())

    @property
    def member_id(self) -> str:
        """The member id; empty before the coordinator has assigned one."""
        return self._member_id

    @property
    def generation(self) -> int:
        """The current generation, or -1."""
        generation = self._generation
        return generation.generation if generation is not None else _NO_GENERATION

    @property
    def leader_id(self) -> str | None:
        """The leader's member id, if known."""
        generation = self._generation
        return generation.assignment.leader if generation is not None else None

    @property
    def leader_url(self) -> str | None:
        """The URL of the leader's REST API, if known."""
        generation = self._generation
        return generation.assignment.leader_url if generation is not None else None

    @property
    def assignment(self) -> ConnectorNames:
        """All connectors that are assigned to this worker."""
        generation = self._generation
        return generation.assignment.connectors if generation is not None else ()

    @property
    def problem(self) -> str | None:
        """Why this worker is not a member, or will not remain one; None if all is well."""
        return self._problem.text

    @property
    def error(self) -> Exception | None:
        """The error of the last attempt to join, if it failed."""
        return self._error

    @property
    def is_standby(self) -> bool:
        """Whether members with another protocol use the group."""
        error = self._error
        return isinstance(error, BrokerError) and error.code == INCONSISTENT_GROUP_PROTOCOL

    def owner_url(self, connector: str) -> str | None:
        """The URL of the worker that a connector is assigned to; only the leader knows it."""
        if not self.is_leader:
            return None
        owner = self._previous.owners.get(connector)
        return owner.url if owner is not None and owner.reassign_at is None else None

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
            self._revoke_and_leave("shutdown")
        except Exception as error:
            # The root of the thread: without it there is no membership, so nothing may run.
            log.exception(
                f"{self._name}/member: group membership ended unexpectedly; restart the process."
            )
            self._problem.set("left its group until it is restarted", repr(error))
            self.failure = error
            self._drop_generation("internal error")
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
        if self._check_session():  # the event came too late
            return
        match event:
            case _HeartbeatResponse(identity, code):
                self._on_heartbeat_response(identity, code)
            case _JoinProgress(by, join_event) if by is self._join:
                self._on_join_event(join_event)

    def _check_session(self) -> bool:
        """Drop an expired membership; returns whether it did. Called before anything else."""
        is_lost = self._session.has_expired
        if is_lost:
            self._on_membership_lost("no heartbeat was confirmed in time")
        return is_lost

    def _poll_timeout(self) -> float:
        waits = [_POLL_SECONDS, self._session.seconds_left]
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
            self._on_membership_lost("the coordinator removed this member")
            self._member_id = ""
        elif (
            code == ILLEGAL_GENERATION
            and self._join is None
            and identity == self._heartbeats.identity
        ):
            self._on_membership_lost("the group rebalanced without this worker")

    def _start_join(self) -> None:
        self._join_at = None
        self._rejoin_requested.clear()
        self._session.start_rejoin()
        generation = self._generation
        self._join = JoinAttempt(
            JoiningMember(
                self._member_id,
                self._url,
                None if generation is None else generation.assignment,
                self._previous
                if self._previous.generation == self.generation
                else PreviousAssignment(),
            ),
            self._settings,
            self._configs,
            self._open_coordinator_client(),
            lambda by, event: self._events.put(_JoinProgress(by, event)),
            clock=self._clock,
        )
        self._join.start()

    def _on_join_event(self, event: JoinEvent) -> None:
        match event:
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
                self._on_assignment(event)

    def _on_assignment(self, received: AssignmentReceived) -> None:
        before, found = self._generation, received.assignment
        self._session.begin(received.sent_at)
        if self._session.has_expired:
            self._on_membership_lost("the assignment arrived too late")
            return
        held = self.assignment
        # A follower that rejoins may get the same incremental assignment again: it must not be
        # applied twice.
        is_new = before is None or before.generation != received.joined.generation
        revoked = tuple(name for name in held if is_new and name in found.revoked)
        kept = tuple(name for name in held if name not in revoked)
        work = tuple(dict.fromkeys(kept + found.connectors)) if is_new else held
        self._generation = Generation(
            received.joined.member_id,
            received.joined.generation,
            replace(found, connectors=work, revoked=(), delay_ms=0, error=0),
        )
        if received.next_state is not None:
            self._previous = received.next_state
        log.info(
            f"{self._name}/member: generation {received.joined.generation}, leader "
            f"{found.leader_url}, {counted(len(work), 'connector')} here"
        )
        if revoked:
            self._join_in(0.0)
        elif found.delay_ms > 0 and is_new:
            self._join_in(found.delay_ms / 1000)
        if revoked:
            self._on_revoked(revoked)
        if received.config_error is not None:
            self._leave_temporarily(received.config_error)
        elif not received.is_usable:
            pause = self._next_pause()
            self._join_in(pause)
            if pause > _QUIET_PAUSE_SECONDS:
                self._problem.set(
                    "starts no connectors until it has read the config topic",
                    f"it has read up to offset {received.known_offset}, the group is at "
                    f"{found.config_offset}.",
                )
        else:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            self._problem.clear()
            if self._session.is_alive:
                self._on_assigned(work)

    def _on_join_failed(self, error: Exception) -> None:
        code = error.code if isinstance(error, BrokerError) else 0
        if code == UNKNOWN_MEMBER_ID:
            self._member_id = ""
            self._join_in(0.0)
            if self._generation is not None:
                self._on_membership_lost("the coordinator removed this member")
            return
        if code in {ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS}:  # the next round has started
            self._join_in(0.0)
            return
        if code == INCONSISTENT_GROUP_PROTOCOL:
            self._enter_standby()
            return
        pause = self._next_pause()
        self._join_in(pause)
        if code not in COORDINATOR_CODES or pause > _QUIET_PAUSE_SECONDS:
            self._problem.set("cannot join its group and retries", str(error))

    def _enter_standby(self) -> None:
        if self._generation is not None:
            self._on_membership_lost("members with another protocol use its group")
        self._leave()  # a member id that does not join would delay the others
        self._join_at = self._clock() + _STANDBY_SECONDS
        self._problem.set(
            "is on standby",
            f"members with another protocol (Kafka Connect, MirrorMaker 2, or the other of "
            f"`sparkmirror run` and `sparkmirror worker`) use group '{self._settings.group_id}' on "
            f"cluster '{self._connection.alias}'. It joins when they leave. To run both, set "
            f"another group.id and other storage topics.",
        )

    def _leave_temporarily(self, error: ClusterError) -> None:
        """Leave for a while, as in Connect: a worker that cannot read the configs is of no use."""
        sentence = f"cannot read the config topic: {error}"
        self._problem.set("leaves its group for a while", sentence)
        self._revoke_and_leave(sentence)
        self._leave()
        self._join_at = self._clock() + self._settings.unsync_backoff_ms / 1000

    def _on_membership_lost(self, reason: str) -> None:
        self._problem.set("lost its group membership and stops all its connectors", f"{reason}.")
        self._drop_generation(reason)
        self._join_in(0.0)

    def _revoke_and_leave(self, reason: str) -> None:
        """Stop all work while still a member, then end the membership."""
        self._abandon_join()
        generation = self._generation
        if generation is not None and generation.assignment.connectors:
            self._generation = replace(
                generation, assignment=replace(generation.assignment, connectors=())
            )
            self._on_revoked(generation.assignment.connectors)
        self._drop_generation(reason)

    def _drop_generation(self, reason: str) -> None:
        """End the membership and stop all work."""
        generation, self._generation = self._generation, None
        self._abandon_join()
        self._heartbeats.set_member(None)
        self._session.end()
        self._previous = PreviousAssignment()
        self._join_at = None
        if generation is not None and generation.assignment.connectors:
            log.info(f"{self._name}/member: stopping all connectors: {reason}")
            self._on_revoked(generation.assignment.connectors)

    def _abandon_join(self) -> None:
        if self._join is not None:
            self._member_id = self._member_id or self._join.member_id
            self._join.abandon()
            self._join = None

    def _leave(self) -> None:
        member_id, self._member_id = self._member_id, ""
        if not member_id:
            return
        with self._open_coordinator_client() as client:
            try:
                client.leave(member_id)
            except ClusterError as error:
                log.warning(
                    f"{self._name}/member: cannot leave the group; its session must expire: {error}"
                )

    def _open_coordinator_client(self) -> CoordinatorClient:
        return CoordinatorClient(self._connection, self._settings.group_id)

    def _next_pause(self) -> float:
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, _MAX_PAUSE_SECONDS)
        return pause
