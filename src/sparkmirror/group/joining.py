# SPDX-License-Identifier: Apache-2.0
"""One try to become a member of the next generation: join, decide if leader, take the assignment.

A try has a thread and a line of its own, for it may wait for a minute, and whoever began it must be
able to turn to something else. It is given values and reports what came of it; it may be abandoned
at any time, and then reports nothing more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.errors import ClusterError, SparkmirrorError
from sparkmirror.formats.connect_protocol import (
    FLOW_PROTOCOL,
    NO_ERROR,
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    WorkerMetadata,
)
from sparkmirror.group.assignor import (
    AssignableConnectors,
    AssignmentContext,
    GroupAssignment,
    PreviousAssignment,
    assign,
)
from sparkmirror.kafka.coordinator_client import CoordinatorClient, JoinParameters, JoinResult
from sparkmirror.system.clock import Clock

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.1


class ConfigView(Protocol):
    """What this worker knows of the config topic, or its own piece; for any thread."""

    def cached(self) -> AssignableConnectors:
        """What was read so far, at once."""
        ...

    def latest(self) -> AssignableConnectors:
        """What there is now, after reading to the end; raises a ClusterError if that fails."""
        ...


@dataclass(frozen=True, slots=True)
class MemberIdReceived:
    """The coordinator has given a name."""

    member_id: str


@dataclass(frozen=True, slots=True)
class GroupJoined:
    """All members are there; from now on heartbeats are about this generation."""

    joined: JoinResult


@dataclass(frozen=True, slots=True)
class AssignmentReceived:
    """A place in a generation, with the assignment, and what the leader is to remember."""

    joined: JoinResult
    assignment: Assignment
    sent_at: float
    known_offset: int
    next_state: PreviousAssignment | None
    config_error: ClusterError | None  # why the newest configs could not be read

    @property
    def is_usable(self) -> bool:
        """Whether this worker knows the configs that the assignment is about, or newer ones.

        Newer ones may lack a connector that was assigned; what is new in them needs another round.
        """
        return (
            self.assignment.error == NO_ERROR and self.known_offset >= self.assignment.config_offset
        )


@dataclass(frozen=True, slots=True)
class JoinFailed:
    """Nothing came of it."""

    error: Exception


JoinEvent: TypeAlias = MemberIdReceived | GroupJoined | AssignmentReceived | JoinFailed


@dataclass(frozen=True, slots=True)
class JoiningMember:
    """Who wants to join, and what it brings along."""

    member_id: str  # "" for somebody new
    url: str
    current: Assignment | None
    previous: PreviousAssignment


class JoinAttempt:
    """One try, in a thread of its own."""

    def __init__(
        self,
        candidate: JoiningMember,
        settings: GroupSettings,
        configs: ConfigView,
        line: CoordinatorClient,
        report: Callable[[JoinAttempt, JoinEvent], None],
        *,
        clock: Clock,
    ) -> None:
        self._candidate = candidate
        self._settings = settings
        self._configs = configs
        self._line = line
        self._report_to = report
        self._clock = clock
        self._abandoned = False
        self._member_id = candidate.member_id
        self._thread = threading.Thread(
            target=self._run, name=f"{settings.group_id}/join", daemon=True
        )

    @property
    def member_id(self) -> str:
        """The name under which it joins; empty before the coordinator has given one."""
        return self._member_id

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def abandon(self) -> None:
        """Nobody wants to know any more; does not wait."""
        self._abandoned = True
        self._line.close()

    def _run(self) -> None:
        try:
            self._join()
        except SparkmirrorError as error:
            self._report(JoinFailed(error))
        except Exception as error:
            # The root of the thread. A line that is closed under a question raises anything.
            if not self._abandoned:
                log.exception(f"{self._thread.name}: joining failed.")
            self._report(JoinFailed(error))
        finally:
            self._line.close()

    def _join(self) -> None:
        known = self._configs.cached()
        metadata = WorkerMetadata(
            self._candidate.url, known.config_offset, self._candidate.current, known.flow
        )
        settings = self._settings
        how = JoinParameters(
            PROTOCOL_TYPE,
            {PROTOCOL if known.flow is None else FLOW_PROTOCOL: metadata.encode()},
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
        )
        joined = self._line.join(self._candidate.member_id, how, self._on_member_id)
        self._report(GroupJoined(joined))
        memory, assignments = None, {}
        if joined.is_leader:
            decision = self._assign(joined)
            memory = decision.next_state
            assignments = encode_assignments(decision, joined.leader, self._candidate.url)
        asked_at = self._clock()
        assignment = Assignment.decode(self._line.sync(joined, how, assignments))
        offset, error = self._catch_up(assignment)
        self._report(AssignmentReceived(joined, assignment, asked_at, offset, memory, error))

    def _on_member_id(self, member_id: str) -> None:
        self._member_id = member_id
        self._report(MemberIdReceived(member_id))

    def _assign(self, joined: JoinResult) -> GroupAssignment:
        members = {name: WorkerMetadata.decode(data) for name, data in joined.members.items()}
        known = self._configs.cached()  # others may have taken their time
        if known.config_offset < max(member.config_offset for member in members.values()):
            try:
                known = self._configs.latest()
            except ClusterError as error:
                # The others are told that their leader knows too little, and so is this worker.
                log.warning(f"{self._thread.name}: the leader cannot read the configs: {error}")
        circumstances = AssignmentContext(
            joined.generation, self._clock(), self._settings.rebalance_delay_ms / 1000
        )
        return assign(members, known, self._candidate.previous, circumstances)

    def _catch_up(self, assignment: Assignment) -> tuple[int, ClusterError | None]:
        """Read the configs that the assignment is about, if they are not known yet."""
        offset = self._configs.cached().config_offset
        deadline = self._clock() + self._settings.sync_timeout_ms / 1000
        error: ClusterError | None = None
        while offset < assignment.config_offset and not self._abandoned:
            try:
                offset = self._configs.latest().config_offset
                error = None
            except ClusterError as reason:
                error = reason
            if offset >= assignment.config_offset or self._clock() > deadline:
                break
            time.sleep(_PAUSE_SECONDS)
        return offset, error

    def _report(self, news: JoinEvent) -> None:
        if not self._abandoned:
            self._report_to(self, news)


def encode_assignments(decision: GroupAssignment, leader: str, url: str) -> dict[str, bytes]:
    """What the leader hands to the coordinator, by member."""
    return {
        member: Assignment(
            leader=leader,
            leader_url=url,
            config_offset=decision.config_offset,
            connectors=share.assigned,
            revoked=share.revoked,
            delay_ms=decision.delay_ms,
            error=decision.error,
        ).encode()
        for member, share in decision.deltas.items()
    }
