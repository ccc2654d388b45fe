# SPDX-License-Identifier: Apache-2.0
"""Requests of one member to the coordinator of its group: join, sync, heartbeat, leave.

A broker works on one request of a connection at a time, and a join may wait for a minute until all
members are there: heartbeats need a client of their own. Finds the coordinator when it is not
known or has moved. Sends each request once; the caller decides about retries. For one thread;
`close` is for any thread and makes a request that waits fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.kafka.error_mapping import REQUEST_ERRORS
from sparkmirror.kafka.group_requests import (
    find_coordinator_request,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from sparkmirror.kafka.request import Request
from sparkmirror.wire.settings import ConnectionSettings

ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
# Loading, not available, not the coordinator.
COORDINATOR_CODES = frozenset({14, 15, 16})

_MEMBER_ID_REQUIRED = 79
_JOIN_GRACE_SECONDS = 5.0  # as in Java: the coordinator itself needs some time, too


@dataclass(frozen=True, slots=True)
class JoinParameters:
    """How somebody wants to be a member; protocols with their metadata, the preferred first."""

    protocol_type: str
    protocols: Mapping[str, bytes]
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class JoinResult:
    """A generation of the group; only its leader sees the members and their metadata."""

    generation: int
    member_id: str
    leader: str
    protocol: str
    members: Mapping[str, bytes]

    @property
    def is_leader(self) -> bool:
        """Whether this member decides for all."""
        return self.leader == self.member_id


class CoordinatorClient(Closable):
    """Connects with the first request; raises ClusterErrors, with the code that a broker gave."""

    def __init__(self, connection: ConnectionSettings, group: str) -> None:
        self._group = group
        self._client = ClusterClient(connection)
        self._coordinator: int | None = None

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other settings after the connection is lost. For any thread."""
        self._client.connection = connection

    def close(self) -> None:
        """Close for good, from any thread: a request that waits fails."""
        self._client.interrupt()
        self._client.close()

    def join(self, member_id: str, how: JoinParameters, named: Callable[[str], None]) -> JoinResult:
        """Waits until all members are there; tells the name that the coordinator gave before."""
        patience = how.rebalance_timeout_ms / 1000 + _JOIN_GRACE_SECONDS
        while True:
            request = join_request(
                self._group,
                member_id,
                how.protocol_type,
                how.protocols,
                session_timeout_ms=how.session_timeout_ms,
                rebalance_timeout_ms=how.rebalance_timeout_ms,
            )
            answer = self._send("joining", request, patience, fine=(0, _MEMBER_ID_REQUIRED))
            member_id = answer.member_id
            named(member_id)
            if answer.error_code == 0:
                break
        return JoinResult(
            answer.generation_id,
            member_id,
            answer.leader,
            answer.protocol_name or "",
            {member.member_id: bytes(member.metadata) for member in answer.members},
        )

    def sync(
        self, joined: JoinResult, how: JoinParameters, assignments: Mapping[str, bytes]
    ) -> bytes:
        """This member's assignment; the leader brings those of all members."""
        patience = how.rebalance_timeout_ms / 1000 + _JOIN_GRACE_SECONDS
        protocol = (how.protocol_type, joined.protocol)
        request = sync_request(
            self._group, joined.member_id, joined.generation, protocol, assignments
        )
        return bytes(self._send("taking the assignment", request, patience).assignment)

    def heartbeat(self, member_id: str, generation: int) -> int:
        """What the coordinator thinks of this member: 0, or one of the codes above."""
        fine = (0, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS)
        request = heartbeat_request(self._group, member_id, generation)
        code: int = self._send("a heartbeat", request, None, fine=fine).error_code
        return code

    def leave(self, member_id: str) -> None:
        """Gives the place up; that the coordinator has forgotten it already is fine."""
        fine = (0, UNKNOWN_MEMBER_ID)
        self._send("leaving", leave_request(self._group, member_id), None, fine=fine)

    def _send(
        self, doing: str, request: Request, patience: float | None, fine: tuple[int, ...] = (0,)
    ) -> Any:
        doing = f"{doing} (group '{self._group}')"
        try:
            answer = self._client.send(request, self._find_coordinator(), patience)
        except REQUEST_ERRORS as error:
            failure = self._client.failure(doing, error)
            self._forget_coordinator()
            raise failure from error
        except ClusterError:
            self._forget_coordinator()
            raise
        if answer.error_code not in fine:
            if answer.error_code in COORDINATOR_CODES:
                self._coordinator = None
            raise self._client.broker_error(doing, answer.error_code, None)
        return answer

    def _find_coordinator(self) -> int:
        if self._coordinator is None:
            answer = self._client.send(find_coordinator_request(self._group))
            if answer.error_code:
                raise self._client.broker_error(
                    f"finding the coordinator of group '{self._group}'", answer.error_code, None
                )
            self._coordinator = answer.node_id
        return self._coordinator

    def _forget_coordinator(self) -> None:
        self._coordinator = None
        self._client.close()
