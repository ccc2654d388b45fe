# SPDX-License-Identifier: Apache-2.0
"""The API versions that sparkmirror uses, and the consequence of each missing one.

Requests use the newest version that both sides support. Most missing versions only cost performance
or a feature; the sentences say which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """The side of a flow."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Capability:
    """An API version, the side that uses it, and the consequence if it is missing."""

    api_key: int
    version: int  # the lowest that suffices
    role: Role
    consequence: str
    is_required: bool = False  # without it no record flows

    def is_offered(self, versions: Mapping[int, tuple[int, int]]) -> bool:
        """Whether a broker with these versions has it."""
        return versions.get(self.api_key, (0, -1))[1] >= self.version


_PRODUCE, _FETCH, _METADATA, _JOIN_GROUP = 0, 1, 3, 11
_CREATE_TOPICS, _DELETE_TOPICS, _INIT_PRODUCER_ID, _OFFSET_FOR_LEADER_EPOCH = 19, 20, 22, 23
_ADD_PARTITIONS_TO_TXN, _DESCRIBE_ACLS, _DESCRIBE_CONFIGS, _DESCRIBE_LOG_DIRS = 24, 29, 32, 35
_CREATE_PARTITIONS, _INCREMENTAL_ALTER_CONFIGS, _DESCRIBE_PRODUCERS = 37, 44, 61
_LIST_TRANSACTIONS = 66

CAPABILITIES = (
    Capability(
        _FETCH, 4, Role.SOURCE,
        "no Fetch 4: brokers before Kafka 0.11 cannot be a source",
        is_required=True,
    ),
    Capability(
        _PRODUCE, 3, Role.TARGET,
        "no Produce 3: brokers before Kafka 0.11 cannot be a target",
        is_required=True,
    ),
    Capability(
        _INIT_PRODUCER_ID, 0, Role.TARGET,
        "no InitProducerId: tasks cannot write, because they are idempotent producers",
        is_required=True,
    ),
    Capability(
        _JOIN_GROUP, 4, Role.TARGET,
        "no JoinGroup 4: processes cannot form a group on brokers before Kafka 2.2",
        is_required=True,
    ),
    Capability(
        _FETCH, 7, Role.SOURCE,
        "no fetch sessions: every fetch names all partitions, so idle partitions cost traffic",
    ),
    Capability(
        _FETCH, 10, Role.SOURCE,
        "no zstd in Fetch: topics that hold zstd batches cannot be read",
    ),
    Capability(
        _PRODUCE, 7, Role.TARGET,
        "no zstd in Produce: zstd batches are refused",
    ),
    Capability(
        _FETCH, 12, Role.SOURCE,
        "no leader epochs in Fetch: log truncation is detected only when a partition gets a new "
        "leader",
    ),
    Capability(
        _OFFSET_FOR_LEADER_EPOCH, 0, Role.SOURCE,
        "no OffsetForLeaderEpoch: a log that was truncated and has grown again is not detected",
    ),
    Capability(
        _METADATA, 10, Role.SOURCE,
        "no topic ids: a topic recreated while sparkmirror is down is not detected",
    ),
    Capability(
        _METADATA, 10, Role.TARGET,
        "no topic ids: a recreated remote topic is not detected",
    ),
    Capability(
        _DELETE_TOPICS, 6, Role.TARGET,
        "no deletion by topic id: remote topics are not deleted (sync.topic.deletions.enabled)",
    ),
    Capability(
        _DESCRIBE_PRODUCERS, 0, Role.SOURCE,
        "no DescribeProducers: the producer of a blocking open transaction is not reported",
    ),
    Capability(
        _DESCRIBE_PRODUCERS, 0, Role.TARGET,
        "no DescribeProducers: after a crash, tasks read the end of the target's log to find the "
        "last written record",
    ),
    Capability(
        _ADD_PARTITIONS_TO_TXN, 0, Role.TARGET,
        "no transactions: exactly.once.source.support must stay off",
    ),
    Capability(
        _INIT_PRODUCER_ID, 3, Role.TARGET,
        "no producer epochs in InitProducerId: a Connect worker writes its topics without fencing",
    ),
    Capability(
        _LIST_TRANSACTIONS, 0, Role.TARGET,
        "no ListTransactions: with exactly-once, open transactions of an earlier run with more "
        "tasks end only by their timeout",
    ),
    Capability(
        _CREATE_TOPICS, 4, Role.TARGET,
        "no default replication factor in CreateTopics: replication.factor must not be -1",
    ),
    Capability(
        _CREATE_PARTITIONS, 0, Role.TARGET,
        "no CreatePartitions: remote topics do not grow with their source topics",
    ),
    Capability(
        _DESCRIBE_CONFIGS, 1, Role.SOURCE,
        "no DescribeConfigs with the origin of values: topic configs are not copied",
    ),
    Capability(
        _INCREMENTAL_ALTER_CONFIGS, 0, Role.TARGET,
        "no incremental config changes: configs are set when a topic is created, not later",
    ),
    Capability(
        _DESCRIBE_ACLS, 0, Role.SOURCE,
        "no ACL requests: ACLs are not synced from here",
    ),
    Capability(
        _DESCRIBE_ACLS, 0, Role.TARGET,
        "no ACL requests: ACLs are not synced to here",
    ),
    Capability(
        _DESCRIBE_LOG_DIRS, 1, Role.SOURCE,
        "no DescribeLogDirs: `plan` does not report how many bytes it will copy",
    ),
)  # fmt: skip


def missing_capabilities(
    versions: Mapping[int, tuple[int, int]], roles: Collection[Role]
) -> tuple[Capability, ...]:
    """Return what a broker with these API versions lacks in these roles, the worst first."""
    return tuple(one for one in CAPABILITIES if one.role in roles and not one.is_offered(versions))
