# SPDX-License-Identifier: Apache-2.0
"""One attempt to join the next generation: JoinGroup, assign if leader, SyncGroup.

An attempt has its own thread and connection, because it may wait for a minute. It gets values and
reports events. It can be abandoned at any time, and then reports nothing more.
"""

from __future__ import annotations

import logging
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
from sparkmirror.system.log_scope import ScopedThread

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.1


class ConfigView(Protocol):
    """What this member knows of the config topic, or its flow. Thread-safe."""

    def cached(self) -> AssignableConnectors:
        """What was read so far; does not block."""
        ...

    def latest(self) -> AssignableConnectors:
        """The current content, read to the end. Raises ClusterError."""
        ...


@dataclass(frozen=True, slots=True)
class MemberIdReceived:
    """The coordinator has assigned a member id."""

    member_id: str


@dataclass(frozen=True, slots=True)
class GroupJoined:
    """All members have joined; heartbeats use this generation from now on."""

    joined: JoinResult


@dataclass(frozen=True, slots=True)
class AssignmentReceived:
    """The member's assignment in a generation, and the leader's next state."""

    joined: JoinResult
    assignment: Assignment
    sent_at: float
    known_offset: int
    next_state: PreviousAssignment | None
    config_error: ClusterError | None  # why the newest configs cannot be read

    @property
    def is_usable(self) -> bool:
        """Whether this member has read the configs of the assignment, or newer ones.

        Newer ones may lack an assigned connector; their new connectors need another round.
        """
        return (
            self.assignment.error == NO_ERROR and self.known_offset >= self.assignment.config_offset
        )


@dataclass(frozen=True, slots=True)
class JoinFailed:
    """The attempt failed."""

    error: Exception


JoinEvent: TypeAlias = MemberIdReceived | GroupJoined | AssignmentReceived | JoinFailed


@dataclass(frozen=True, slots=True)
class JoiningMember:
    """The member that joins, with its current assignment."""

    member_id: str  # "" for a new member
    url: str
    current: Assignment | None
    previous: PreviousAssignment


class JoinAttempt:
    """One attempt, on its own thread."""

    def __init__(
        self,
        member: JoiningMember,
        settings: GroupSettings,
        configs: ConfigView,
        client: CoordinatorClient,
        on_event: Callable[[JoinAttempt, JoinEvent], None],
        *,
        clock: Clock,
    ) -> None:
        self._member = member
        self._settings = settings
        self._configs = configs
        self._client = client
        self._on_event = on_event
        self._clock = clock
        self._abandoned = False
        self._member_id = member.member_id
        self._thread = ScopedThread(target=self._run, name=f"{settings.group_id}/join", daemon=True)

    @property
    def member_id(self) -> str:
        """The member id; empty before the coordinator has assigned one."""
        return self._member_id

    def start(self) -> None:
        self._thread.start()

    def abandon(self) -> None:
        """Cancel without waiting; reports nothing more."""
        self._abandoned = True
        self._client.close()

    def _run(self) -> None:
        try:
            self._join()
        except SparkmirrorError as error:
            self._report(JoinFailed(error))
        except Exception as error:
            # The root of the thread. A connection closed by `abandon` may raise anything.
            if not self._abandoned:
                log.exception(f"{self._thread.name}: joining failed unexpectedly; retrying.")
            self._report(JoinFailed(error))
        finally:
            self._client.close()

    def _join(self) -> None:
        known = self._configs.cached()
        metadata = WorkerMetadata(
            self._member.url, known.config_offset, self._member.current, known.flow
        )
        settings = self._settings
        parameters = JoinParameters(
            PROTOCOL_TYPE,
            {PROTOCOL if known.flow is None else FLOW_PROTOCOL: metadata.encode()},
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
        )
        joined = self._client.join(self._member.member_id, parameters, self._on_member_id)
        self._report(GroupJoined(joined))
        next_state, assignments = None, {}
        if joined.is_leader:
            decision = self._assign(joined)
            next_state = decision.next_state
            assignments = encode_assignments(decision, joined.leader, self._member.url)
        sent_at = self._clock()
        assignment = Assignment.decode(self._client.sync(joined, parameters, assignments))
        offset, error = self._catch_up(assignment)
        self._report(AssignmentReceived(joined, assignment, sent_at, offset, next_state, error))

    def _on_member_id(self, member_id: str) -> None:
        self._member_id = member_id
        self._report(MemberIdReceived(member_id))

    def _assign(self, joined: JoinResult) -> GroupAssignment:
        members = {name: WorkerMetadata.decode(data) for name, data in joined.members.items()}
        known = self._configs.cached()  # read again: the other members may have been slow
        if known.config_offset < max(member.config_offset for member in members.values()):
            try:
                known = self._configs.latest()
            except ClusterError as error:
                # All members, this one included, get a config mismatch.
                log.warning(
                    f"{self._thread.name}: the leader cannot read the config topic, so all members "
                    f"join again: {error}"
                )
        context = AssignmentContext(
            joined.generation, self._clock(), self._settings.rebalance_delay_ms / 1000
        )
        return assign(members, known, self._member.previous, context)

    def _catch_up(self, assignment: Assignment) -> tuple[int, ClusterError | None]:
        """Read the config topic up to the assignment's offset, with a timeout."""
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

    def _report(self, event: JoinEvent) -> None:
        if not self._abandoned:
            self._on_event(self, event)


def encode_assignments(decision: GroupAssignment, leader: str, url: str) -> dict[str, bytes]:
    """Encode the assignment of each member."""
    return {
        member: Assignment(
            leader=leader,
            leader_url=url,
            config_offset=decision.config_offset,
            connectors=delta.assigned,
            revoked=delta.revoked,
            delay_ms=decision.delay_ms,
            error=decision.error,
        ).encode()
        for member, delta in decision.deltas.items()
    }
