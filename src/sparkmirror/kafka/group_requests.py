# SPDX-License-Identifier: Apache-2.0
"""Requests about consumer groups.

Where a newer version takes many groups at once and an older one takes one, there are two functions:
brokers before 3.0 know the older versions only.
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

_GROUP_KEY = 0  # as opposed to a transactional id
_NO_GENERATION = -1  # we are no member
_NAMES_TOPICS = 9  # later versions of both offset requests give the topics' ids


def list_groups_request() -> Request:
    """All groups that one broker coordinates, of any type and in any state."""
    message = ListGroupsRequest(states_filter=[], types_filter=[])
    return Request(message, 0, 5)


def find_coordinators_request(groups: Sequence[str]) -> Request:
    """Which brokers coordinate these groups (KIP-699)."""
    message = FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=list(groups))
    return Request(message, 4, 4)


def find_coordinator_request(group: str) -> Request:
    """Which broker coordinates one group."""
    message = FindCoordinatorRequest(key=group, key_type=_GROUP_KEY)
    return Request(message, 0, 3)


def offset_fetch_many_request(groups: Sequence[str]) -> Request:
    """All offsets of groups with one coordinator (KIP-709); see `offset_fetch_request`."""
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    message = OffsetFetchRequest(
        groups=[one(group_id=group, topics=None) for group in groups],
        require_stable=False,
    )
    return Request(message, 8, _NAMES_TOPICS)


def offset_fetch_request(group: str) -> Request:
    """All offsets of one group, as they are decided now.

    Not `require_stable`: that turns offsets that an open transaction is about to replace into
    errors. The ones before are good, and a producer that hangs must not stop the checkpoints.
    """
    message = OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
    return Request(message, 2, 7)


def offset_commit_request(group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> Request:
    """Offsets of a group from outside: accepted only while the group has no members."""
    asked = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[object]] = defaultdict(list)
    for tp, committed in offsets.items():
        by_topic[tp.topic].append(
            asked.OffsetCommitRequestPartition(
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
        topics=[asked(name=name, partitions=partitions) for name, partitions in by_topic.items()],
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
    """Wants to be a member; protocols by name, the preferred one first, with their metadata."""
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
    return Request(message, 4, 9)  # 4: the first that names a member before it waits for others


def sync_request(
    group: str,
    member_id: str,
    generation: int,
    protocol: tuple[str, str],
    assignments: Mapping[str, bytes],
) -> Request:
    """Asks for a member's assignment; the leader brings everybody's. `protocol`: type and name."""
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
    """Says that a member lives."""
    message = HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=None
    )
    return Request(message, 0, 4)


def leave_request(group: str, member_id: str) -> Request:
    """Says that a member goes."""
    member = LeaveGroupRequest.MemberIdentity
    message = LeaveGroupRequest(
        group_id=group,
        member_id=member_id,  # up to version 2
        members=[member(member_id=member_id, group_instance_id=None)],
    )
    return Request(message, 0, 5)
