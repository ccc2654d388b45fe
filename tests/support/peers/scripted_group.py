# SPDX-License-Identifier: Apache-2.0
"""The coordinator of a group of one member, for a scripted cluster."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 10, 11, 12, 13, 14
REQUESTS = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
VERSIONS = {FIND_COORDINATOR: (0, 3), JOIN: (0, 9), HEARTBEAT: (0, 4), LEAVE: (0, 5), SYNC: (0, 5)}
_MEMBER_ID_REQUIRED, _UNKNOWN_MEMBER = 79, 25


class ScriptedGroup:
    """Serves the requests of a member."""

    def __init__(self, node: int, address: tuple[str, int]) -> None:
        self._node = node
        self._address = address
        self.generation = 0
        self.member_id = ""
        self.codes: dict[int, int] = {}  # the next error code, by API key

    def serve(self, api_key: int, request: Any) -> Any:
        """The response to a request."""
        code = self.codes.pop(api_key, 0)
        match api_key:
            case 10:
                host, port = self._address
                return FindCoordinatorResponse(
                    throttle_time_ms=0,
                    error_code=code,
                    error_message=None,
                    node_id=self._node,
                    host=host,
                    port=port,
                )
            case 11:
                return self._join(request, code)
            case 12:
                return HeartbeatResponse(throttle_time_ms=0, error_code=code)
            case 13:
                known = [one.member_id for one in request.members] == [self.member_id]
                code = code or (0 if known else _UNKNOWN_MEMBER)
                return LeaveGroupResponse(throttle_time_ms=0, error_code=code, members=[])
            case _:
                own = [one.assignment for one in request.assignments]
                return SyncGroupResponse(
                    throttle_time_ms=0,
                    error_code=code,
                    protocol_type=request.protocol_type,
                    protocol_name=request.protocol_name,
                    assignment=own[0] if own else b"",
                )

    def _join(self, request: Any, code: int) -> Any:
        if not request.member_id:
            self.member_id, code = "member-1", _MEMBER_ID_REQUIRED
        elif not code:
            self.generation += 1
        member = JoinGroupResponse.JoinGroupResponseMember
        return JoinGroupResponse(
            throttle_time_ms=0,
            error_code=code,
            generation_id=self.generation,
            protocol_type=request.protocol_type,
            protocol_name=request.protocols[0].name,
            leader=self.member_id,
            skip_assignment=False,
            member_id=self.member_id,
            members=[
                member(
                    member_id=self.member_id,
                    group_instance_id=None,
                    metadata=request.protocols[0].metadata,
                )
            ],
        )
