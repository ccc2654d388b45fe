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
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.connect.assignor import Memory, Placement
from sparkmirror.connect.heartbeats import Heartbeats, Identity
from sparkmirror.connect.joining import (
    Answered,
    Candidate,
    Configs,
    Failed,
    Named,
    News,
    Placed,
    Try,
)
from sparkmirror.connect.session import Clock, Session, steady_clock
from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.formats.connect_protocol import NOTHING, Assignment, TaskId, Version, Work
from sparkmirror.kafka.group_line import (
    COORDINATOR_CODES,
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    GroupLine,
)

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5  # how long the queue may keep us from looking at the clock
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_QUIET_PAUSE_SECONDS = 1.0  # a coordinator that moves, or a group that reads on, is no news before
_CONNECT_SECONDS = 5.0
_NO_GENERATION = -1

OnAssigned: TypeAlias = Callable[[Assignment], None]
OnRevoked: TypeAlias = Callable[[tuple[str, ...], tuple[TaskId, ...]], None]


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker is in a generation of its group; the assignment holds all of its work."""

    member_id: str
    generation: int
    version: Version
    assignment: Assignment

    @property
    def leads(self) -> bool:
        """Whether this worker decides for all."""
        return self.assignment.leader == self.member_id


@dataclass(frozen=True, slots=True)
class _Beat:
    identity: Identity
    code: int


@dataclass(frozen=True, slots=True)
class _Tried:
    by: Try
    news: News


class _Order:
    """Somebody asks for a new round, or for the end; what was asked is in the flags."""


class Membership:
    """Keeps a worker in its group from `start` to `stop`; properties may be read by any thread."""

    def __init__(
        self,
        connection: ConnectionSettings,
        settings: GroupSettings,
        url: str,
        configs: Configs,
        *,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
        placement: Placement = Placement.SPREAD,
        clock: Clock = steady_clock,
    ) -> None:
        """`on_assigned` gets all of the work, in each generation, also when nothing has changed.

        `on_revoked` returns when the named work has ended. Neither may call `stop`.
        """
        self._settings = settings
        self._connection = replace(
            connection,
            connect_timeout_seconds=min(connection.connect_timeout_seconds, _CONNECT_SECONDS),
            request_timeout_seconds=min(
                connection.request_timeout_seconds, max(1.0, settings.session_timeout_ms / 3000)
            ),
        )
        self._url = url
        self._configs = configs
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._placement = placement
        self._clock = clock
        self._name = settings.group_id
        self._session = Session(
            settings.session_timeout_ms / 1000, settings.rebalance_timeout_ms / 1000, clock
        )
        self._heartbeats = Heartbeats(
            self._name,
            self._open_line,
            self._session,
            settings.heartbeat_interval_ms / 1000,
            clock,
            lambda identity, code: self._events.put(_Beat(identity, code)),
        )
        self._events: queue.SimpleQueue[_Beat | _Tried | _Order] = queue.SimpleQueue()
        self._place: Place | None = None
        self._member_id = ""
        self._memory = Memory()
        self._try: Try | None = None
        self._join_at: float | None = 0.0  # None: not before something happens
        self._again = threading.Event()
        self._stopping = threading.Event()
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"{self._name}/member", daemon=True)

    def start(self) -> None:
        """Begin to join; the group calls back when there is a place."""
        self._thread.start()
        self._heartbeats.start()

    def stop(self, seconds: float | None = None) -> bool:
        """End all work (`on_revoked`), leave the group and wait for that; whether it has ended."""
        self._stopping.set()
        self._events.put(_Order())
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def rejoin(self) -> None:
        """Ask for a new round: connectors or tasks have come or gone."""
        self._again.set()
        self._events.put(_Order())

    @property
    def is_member(self) -> bool:
        """Whether this worker certainly has its place: nobody else was given its work."""
        return self._place is not None and self._session.is_alive

    @property
    def is_leader(self) -> bool:
        """Whether this worker certainly leads the group."""
        place = self._place
        return place is not None and place.leads and self._session.is_alive

    @property
    def is_settled(self) -> bool:
        """Whether no new round is under way or due, so far as this worker knows."""
        waiting = self._try is None and not self._again.is_set()
        return self.is_member and waiting and (self._join_at is None or not self._is_due())

    @property
    def member_id(self) -> str:
        """The name that the coordinator gave; empty before."""
        return self._member_id

    @property
    def generation(self) -> int:
        """The generation of the group that this worker has a place in, or -1."""
        place = self._place
        return place.generation if place is not None else _NO_GENERATION

    @property
    def leader_id(self) -> str | None:
        """The leader's member id, if there is one."""
        place = self._place
        return place.assignment.leader if place is not None else None

    @property
    def leader_url(self) -> str | None:
        """Where the leader's REST API is, if there is one."""
        place = self._place
        return place.assignment.leader_url if place is not None else None

    @property
    def assignment(self) -> Work:
        """All that this worker is to run."""
        place = self._place
        return place.assignment.work if place is not None else NOTHING

    @property
    def config_offset(self) -> int:
        """The configs that the assignment is about, or -1."""
        place = self._place
        return place.assignment.config_offset if place is not None else -1

    @property
    def version(self) -> Version | None:
        """The version of Connect's protocol that the group speaks."""
        place = self._place
        return place.version if place is not None else None

    @property
    def trouble(self) -> str | None:
        """Why this worker has no place, or will not keep it; None if all is well."""
        return self._trouble

    def owner_url(self, connector: str, task: int | None = None) -> str | None:
        """Where a connector or task runs, by the last decision; only the leader knows."""
        if not self.is_leader:
            return None
        memory = self._memory
        owner = memory.tasks.get(TaskId(connector, task)) if task is not None else None
        if owner is None and (task is None or self._placement is Placement.TOGETHER):
            owner = memory.connectors.get(connector)
        return owner.url if owner is not None and owner.until is None else None

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
            self._retire("the worker stops")
        except Exception as error:
            # The root of the thread: without it there is no place, so nothing may go on.
            log.exception(f"{self._name}/member: this worker is no member any more.")
            self._trouble = repr(error)
            self._give_up("of an error")
        finally:
            self._heartbeats.stop()
            self._leave()

    def _step(self) -> None:
        if self._again.is_set() and self._try is None and self._place is not None:
            self._again.clear()
            self._join_in(0.0)
        if self._try is None and self._is_due():
            self._begin_to_join()
        try:
            event = self._events.get(timeout=self._patience())
        except queue.Empty:
            event = None
        if self._session.has_expired:  # before anything else, and before any news
            self._lose("no heartbeat was answered in time")
            return
        match event:
            case _Beat(identity, code):
                self._beaten(identity, code)
            case _Tried(by, news) if by is self._try:
                self._tried(news)

    def _patience(self) -> float:
        waits = [_LOOK_SECONDS, self._session.seconds_left]
        if self._try is None and self._join_at is not None:
            waits.append(max(0.0, self._join_at - self._clock()))
        return min(waits)

    def _is_due(self) -> bool:
        return self._join_at is not None and self._clock() >= self._join_at

    def _join_in(self, seconds: float) -> None:
        at = self._clock() + seconds
        self._join_at = at if self._join_at is None else min(at, self._join_at)

    def _beaten(self, identity: Identity, code: int) -> None:
        if identity.member_id != self._member_id or self._place is None:
            return
        if code == REBALANCE_IN_PROGRESS:
            if self._try is None:
                self._join_in(0.0)
        elif code == UNKNOWN_MEMBER_ID:
            self._member_id = ""
            self._lose("the coordinator does not know this worker any more")
        elif (
            code == ILLEGAL_GENERATION
            and self._try is None
            and identity == self._heartbeats.identity
        ):
            self._lose("the group went on without this worker")

    def _begin_to_join(self) -> None:
        place = self._place
        if place is not None and place.version is Version.EAGER:
            self._revoke(place.assignment.work)
        self._join_at = None
        self._again.clear()
        self._session.joining()
        place = self._place
        self._try = Try(
            Candidate(
                self._member_id,
                self._url,
                None if place is None else place.assignment,
                self._memory if self._memory.generation == self.generation else Memory(),
            ),
            self._settings,
            self._configs,
            self._open_line(),
            lambda by, news: self._events.put(_Tried(by, news)),
            placement=self._placement,
            clock=self._clock,
        )
        self._try.start()

    def _tried(self, news: News) -> None:
        match news:
            case Named(member_id):
                self._member_id = member_id
            case Answered(joined):
                self._heartbeats.beat_for(Identity(joined.member_id, joined.generation))
            case Failed(error):
                self._try = None
                self._not_joined(error)
            case Placed():
                self._try = None
                self._placed(news)

    def _placed(self, placed: Placed) -> None:
        before, found = self._place, placed.assignment
        self._session.begin(placed.asked_at)
        if self._session.has_expired:
            self._lose("the assignment came too late")
            return
        held = NOTHING if before is None else before.assignment.work
        eager = placed.version is Version.EAGER
        # A follower that joins again may be told what it was told before: that is not added to
        # what it has. An eager assignment is all there is, and what ran before ends.
        is_new = before is None or before.generation != placed.joined.generation or eager
        revoked = held if eager else held.minus(held.minus(found.revoked)) if is_new else NOTHING
        work = held.minus(revoked).plus(found.work) if is_new else held
        self._place = Place(
            placed.joined.member_id,
            placed.joined.generation,
            placed.version,
            replace(found, work=work, revoked=NOTHING, delay_ms=0, error=0),
        )
        if placed.memory is not None:
            self._memory = placed.memory
        log.info(
            f"{self._name}/member: generation {placed.joined.generation}, leader "
            f"{found.leader_url}, {len(work.connectors)} connectors and {len(work.tasks)} tasks "
            f"here"
        )
        if revoked and not eager:
            self._join_in(0.0)
        elif found.delay_ms > 0 and is_new:
            self._join_in(found.delay_ms / 1000)
        if revoked:
            self._on_revoked(revoked.connectors, revoked.tasks)
        if placed.config_error is not None:
            self._withdraw(placed.config_error)
        elif not placed.may_begin:
            pause = self._next_pause()
            self._join_in(pause)
            if pause > _QUIET_PAUSE_SECONDS:
                self._in_trouble(
                    f"begins nothing new: it knows the configs up to {placed.known_offset}, and "
                    f"its group is at {found.config_offset}; trying again"
                )
        else:
            self._all_is_well()
            if self._session.is_alive:
                self._on_assigned(self._place.assignment)

    def _not_joined(self, error: Exception) -> None:
        code = error.code if isinstance(error, BrokerError) else 0
        if code == UNKNOWN_MEMBER_ID:
            self._member_id = ""
            self._join_in(0.0)
            if self._place is not None:
                self._lose("the coordinator does not know this worker any more")
            return
        if code in {ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS}:  # the next round has begun already
            self._join_in(0.0)
            return
        pause = self._next_pause()
        self._join_in(pause)
        if code not in COORDINATOR_CODES or pause > _QUIET_PAUSE_SECONDS:
            self._in_trouble(f"cannot join its group, trying again: {error}")

    def _withdraw(self, error: ClusterError) -> None:
        """As in Connect: a worker that cannot read the configs is of no use to its group."""
        sentence = f"the configs cannot be read: {error}"
        self._in_trouble(f"leaves its group for a while, because {sentence}")
        self._retire(sentence)
        self._leave()
        self._join_at = self._clock() + self._settings.unsync_backoff_ms / 1000

    def _lose(self, reason: str) -> None:
        self._in_trouble(f"has lost its place, because {reason}; all of its work ends")
        self._give_up(reason)
        self._join_in(0.0)

    def _retire(self, reason: str) -> None:
        """All work ends while the place is still ours, and then the place is given up."""
        self._abandon_try()
        self._revoke(self.assignment)
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        """There is no place any more, so all work must end."""
        place, self._place = self._place, None
        self._abandon_try()
        self._heartbeats.beat_for(None)
        self._session.end()
        self._memory = Memory()
        self._join_at = None
        if place is not None and place.assignment.work:
            log.info(f"{self._name}/member: all work is revoked, because {reason}")
            self._revoke(place.assignment.work)

    def _abandon_try(self) -> None:
        if self._try is not None:
            self._try.abandon()
            self._try = None

    def _revoke(self, work: Work) -> None:
        place = self._place
        if place is not None:
            kept = place.assignment.work.minus(work)
            self._place = replace(place, assignment=replace(place.assignment, work=kept))
        if work:
            self._on_revoked(work.connectors, work.tasks)

    def _leave(self) -> None:
        member_id, self._member_id = self._member_id, ""
        if not member_id:
            return
        with self._open_line() as line:
            try:
                line.leave(member_id)
            except ClusterError as error:
                log.warning(
                    f"{self._name}/member: could not leave; the group waits for the session's "
                    f"end: {error}"
                )

    def _open_line(self) -> GroupLine:
        return GroupLine(self._connection, self._settings.group_id)

    def _next_pause(self) -> float:
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return pause

    def _in_trouble(self, sentence: str) -> None:
        if self._trouble is None:
            log.warning(f"{self._name}/member: this worker {sentence}")
        self._trouble = f"This worker {sentence}"

    def _all_is_well(self) -> None:
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        if self._trouble is not None:
            log.info(f"{self._name}/member: this worker has its place in the group")
        self._trouble = None
