# SPDX-License-Identifier: Apache-2.0
"""Request builders for consumer groups.

Some requests have two functions: for many groups, and for one group with brokers before Kafka 3.0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from sparkmirror.kafka.descriptions import CommittedOffset
from sparkmirror.kafka.request import Request
from sparkmirror.model import TopicPartition

_GROUP_KEY = 0  # FindCoordinator's key type
_NO_GENERATION = -1  # the client is not a member
_NAMES_TOPICS = 9  # later versions of both offset requests use topic ids


def list_groups_request() -> Request:
    """List all groups of one coordinator, of any type and in any state."""
    message = ListGroupsRequest(states_filter=[], types_filter=[])
    return Request(message, 0, 5)


def find_coordinators_request(groups: Sequence[str]) -> Request:
    """Find the coordinators of these groups (KIP-699)."""
    message = FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=list(groups))
    return Request(message, 4, 4)


def find_coordinator_request(group: str) -> Request:
    message = FindCoordinatorRequest(key=group, key_type=_GROUP_KEY)
    return Request(message, 0, 3)


def offset_fetch_many_request(groups: Sequence[str]) -> Request:
    """Fetch all offsets of groups with one coordinator (KIP-709); see `offset_fetch_request`."""
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    message = OffsetFetchRequest(
        groups=[one(group_id=group, topics=None) for group in groups],
        require_stable=False,
    )
    return Request(message, 8, _NAMES_TOPICS)


def offset_fetch_request(group: str) -> Request:
    """Fetch all committed offsets of one group.

    Without `require_stable`, which returns errors while a transaction with offsets is open: the
    previous offsets are valid, and a hanging producer must not stop the checkpoints.
    """
    message = OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
    return Request(message, 2, 7)


def offset_commit_request(group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> Request:
    """Commit offsets as a non-member; accepted only while the group has no members."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[object]] = defaultdict(list)
    for tp, committed in offsets.items():
        by_topic[tp.topic].append(
            topic.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=[topic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
    )
    return Request(message, 2, _NAMES_TOPICS)


def join_request(
    group: str,
    member_id: str,
    protocol_type: str,
    protocols: Mapping[str, bytes],
    *,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
) -> Request:
    """Join a group; `protocols` maps names to metadata, in order of preference."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    message = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=None,
        protocol_type=protocol_type,
        protocols=[protocol(name=name, metadata=data) for name, data in protocols.items()],
    )
    return Request(message, 4, 9)  # 4: the first that returns a member id before the rebalance


def sync_request(
    group: str,
    member_id: str,
    generation: int,
    protocol: tuple[str, str],
    assignments: Mapping[str, bytes],
) -> Request:
    """Get a member's assignment; the leader sends all assignments. `protocol`: type and name."""
    assignment = SyncGroupRequest.SyncGroupRequestAssignment
    message = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
        protocol_type=protocol[0],
        protocol_name=protocol[1],
        assignments=[
            assignment(member_id=member, assignment=data) for member, data in assignments.items()
        ],
    )
    return Request(message, 0, 5)


def heartbeat_request(group: str, member_id: str, generation: int) -> Request:
    message = HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=None
    )
    return Request(message, 0, 4)


def leave_request(group: str, member_id: str) -> Request:
    member = LeaveGroupRequest.MemberIdentity
    message = LeaveGroupRequest(
        group_id=group,
        member_id=member_id,  # up to version 2
        members=[member(member_id=member_id, group_instance_id=None)],
    )
    return Request(message, 0, 5)
