# SPDX-License-Identifier: Apache-2.0
"""Every request of the control plane can be encoded for the oldest and the newest brokers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from sparkmirror.kafka import acls, log_dirs, transactions
from sparkmirror.kafka.descriptions import CommittedOffset, NewTopic, TopicDescription
from sparkmirror.kafka.group_requests import (
    find_coordinator_request,
    find_coordinators_request,
    heartbeat_request,
    join_request,
    leave_request,
    list_groups_request,
    offset_commit_request,
    offset_fetch_many_request,
    offset_fetch_request,
    sync_request,
)
from sparkmirror.kafka.request import Request
from sparkmirror.kafka.topic_requests import (
    LATEST,
    alter_configs_request,
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    describe_configs_request,
    describe_producers_request,
    init_producer_id_request,
    list_offsets_request,
    log_fetch_request,
    metadata_request,
    produce_request,
)
from sparkmirror.model import TopicPartition
from sparkmirror.wire.transaction import ProducerIdAndEpoch
from support.clusters.event_hubs import EVENT_HUBS

TP = TopicPartition("t", 0)
ID = uuid.UUID(int=1)
ACL = acls.AclBinding(
    acls.ResourceType.TOPIC,
    "t",
    acls.PatternType.LITERAL,
    "User:me",
    "*",
    acls.Operation.READ,
    acls.Permission.ALLOW,
)
OLD, NEW = BROKER_API_VERSIONS[2, 4], BROKER_API_VERSIONS[max(BROKER_API_VERSIONS)]


def version(request: Request, known: Mapping[int, tuple[int, int]]) -> int | None:
    """As a connection chooses it."""
    low, high = known.get(request.message.API_KEY, (0, -1))
    found = min(high, request.newest)
    return found if found >= max(low, request.oldest) else None


REQUESTS = {
    "metadata": metadata_request(["t"]),
    "all metadata": metadata_request(None),
    "describe configs": describe_configs_request(["t"]),
    "alter configs": alter_configs_request([("t", {"a": "b", "c": None})], validate_only=True),
    "create topics": create_topics_request([NewTopic("t", 1, -1)], 1000, validate_only=True),
    "create partitions": create_partitions_request([("t", 2)], 1000),
    "list offsets": list_offsets_request([TP], LATEST, "read_uncommitted"),
    "list stable offsets": list_offsets_request([TP], LATEST, "read_committed"),
    "init producer id": init_producer_id_request(),
    "produce": produce_request("t", {0: b"records"}, 1000),
    "fetch": log_fetch_request({TP: 0}, "read_committed"),
    "fetch by id": log_fetch_request({TP: 0}, "read_committed", topic_id=ID),
    "list groups": list_groups_request(),
    "find coordinator": find_coordinator_request("g"),
    "offset fetch": offset_fetch_request("g"),
    "offset commit": offset_commit_request("g", {TP: CommittedOffset(1)}),
    "join": join_request(
        "g", "m", "connect", {"p": b"x"}, session_timeout_ms=1, rebalance_timeout_ms=1
    ),
    "sync": sync_request("g", "m", 1, ("connect", "p"), {"m": b"x"}),
    "heartbeat": heartbeat_request("g", "m", 1),
    "leave": leave_request("g", "m"),
    "transactional id": transactions._init("x", ProducerIdAndEpoch(-1, -1), 1000, 0),
    "log dirs": log_dirs._request([TP]),
    "describe ACLs": acls._describe_acls_request(acls.ResourceType.ANY),
    "create ACLs": acls._create_acls_request([ACL]),
    "delete ACLs": acls._delete_acls_request([ACL]),
}
# Kafka 2.4 does not have these; what uses them has another way, or says so.
NEWER = {
    "delete topics": delete_topics_request([TopicDescription("t", ID, 1, 1, False)], 1000),
    "find coordinators": find_coordinators_request(["g"]),
    "offset fetch many": offset_fetch_many_request(["g"]),
    "describe producers": describe_producers_request([TP]),
    "renewed transactional id": transactions._init(
        "x", ProducerIdAndEpoch(1, 1), 1000, transactions.BUMP_VERSION
    ),
}
NOT_ON_EVENT_HUBS = {"describe ACLs", "create ACLs", "delete ACLs", "log dirs", "alter configs"}


def encode(request: Request, known: Mapping[int, tuple[int, int]]) -> int | None:
    """Encode as a connection does; the version, None if there is none."""
    found = version(request, known)
    if found is not None:
        request.message.API_VERSION = found
        request.message.with_header(correlation_id=1, client_id="test")
        assert request.message.encode(framed=True, header=True)
        assert request.version == found
    return found


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_suits_old_and_new_brokers(name: str) -> None:
    """The same object, in one version after the other."""
    request = REQUESTS[name]
    oldest, newest = encode(request, OLD), encode(request, NEW)
    assert oldest is not None
    assert newest is not None
    assert request.oldest <= oldest <= newest <= request.newest
    assert newest == request.newest


@pytest.mark.parametrize("name", NEWER)
def test_what_old_brokers_do_not_know_suits_new_ones(name: str) -> None:
    assert encode(NEWER[name], OLD) is None
    assert encode(NEWER[name], NEW) == NEWER[name].newest


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_suit_event_hubs(name: str) -> None:
    assert (encode(REQUESTS[name], EVENT_HUBS) is None) == (name in NOT_ON_EVENT_HUBS)
