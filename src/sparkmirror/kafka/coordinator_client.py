# SPDX-License-Identifier: Apache-2.0
"""Requests of one member to its group coordinator: join, sync, heartbeat, leave.

A broker serves one request per connection at a time, and a join may block for a minute until all
members have joined, so heartbeats need a separate client. Finds the coordinator when it is unknown
or has moved. Sends each request once; the caller retries. For one thread; `close` is thread-safe
and makes a blocked request fail.
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
# The coordinator is loading, not available or has moved.
COORDINATOR_CODES = frozenset({14, 15, 16})

_MEMBER_ID_REQUIRED = 79
_JOIN_GRACE_SECONDS = 5.0  # beyond the rebalance timeout, as in the Java client


@dataclass(frozen=True, slots=True)
class JoinParameters:
    """The parameters of JoinGroup; protocols with their metadata, in order of preference."""

    protocol_type: str
    protocols: Mapping[str, bytes]
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class JoinResult:
    """A generation of the group; only the leader gets the members and their metadata."""

    generation: int
    member_id: str
    leader: str
    protocol: str
    members: Mapping[str, bytes]

    @property
    def is_leader(self) -> bool:
        return self.leader == self.member_id


class CoordinatorClient(Closable):
    """Connects on demand; raises ClusterError, as a BrokerError with the broker's error code."""

    def __init__(self, connection: ConnectionSettings, group: str) -> None:
        self._group = group
        self._client = ClusterClient(connection)
        self._coordinator: int | None = None

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use new settings at the next reconnect. Thread-safe."""
        self._client.connection = connection

    def close(self) -> None:
        """Close permanently; a blocked request fails. Thread-safe."""
        self._client.interrupt()
        self._client.close()

    def join(
        self, member_id: str, parameters: JoinParameters, on_member_id: Callable[[str], None]
    ) -> JoinResult:
        """Block until all members have joined; calls `on_member_id` with the assigned id."""
        timeout_seconds = parameters.rebalance_timeout_ms / 1000 + _JOIN_GRACE_SECONDS
        while True:
            request = join_request(
                self._group,
                member_id,
                parameters.protocol_type,
                parameters.protocols,
                session_timeout_ms=parameters.session_timeout_ms,
                rebalance_timeout_ms=parameters.rebalance_timeout_ms,
            )
            success = (0, _MEMBER_ID_REQUIRED)
            answer = self._send("joining", request, timeout_seconds, success)
            member_id = answer.member_id
            on_member_id(member_id)
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
        self, joined: JoinResult, parameters: JoinParameters, assignments: Mapping[str, bytes]
    ) -> bytes:
        """Return this member's assignment; the leader passes those of all members."""
        timeout_seconds = parameters.rebalance_timeout_ms / 1000 + _JOIN_GRACE_SECONDS
        protocol = (parameters.protocol_type, joined.protocol)
        request = sync_request(
            self._group, joined.member_id, joined.generation, protocol, assignments
        )
        return bytes(self._send("syncing", request, timeout_seconds).assignment)

    def heartbeat(self, member_id: str, generation: int) -> int:
        """Return 0, or the error code that requires a new join."""
        success = (0, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS)
        request = heartbeat_request(self._group, member_id, generation)
        code: int = self._send("a heartbeat", request, None, success).error_code
        return code

    def leave(self, member_id: str) -> None:
        """Leave the group; succeeds also if the coordinator has removed the member already."""
        success = (0, UNKNOWN_MEMBER_ID)
        self._send("leaving", leave_request(self._group, member_id), None, success)

    def _send(
        self,
        doing: str,
        request: Request,
        timeout_seconds: float | None,
        success: tuple[int, ...] = (0,),
    ) -> Any:
        doing = f"{doing} (group '{self._group}')"
        try:
            answer = self._client.send(request, self._find_coordinator(), timeout_seconds)
        except REQUEST_ERRORS as error:
            failure = self._client.failure(doing, error)
            self._forget_coordinator()
            raise failure from error
        except ClusterError:
            self._forget_coordinator()
            raise
        if answer.error_code not in success:
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
