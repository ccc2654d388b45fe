# SPDX-License-Identifier: Apache-2.0
"""Kafka's error codes and sparkmirror's own: how tasks react, and advice for users."""

from __future__ import annotations

from enum import Enum

from sparkmirror.wire.error_names import error_name


class Remedy(Enum):
    """How a task reacts to an error of one partition."""

    RETRY = "retry"  # send the same request again, after a pause
    REFRESH = "refresh"  # refresh the metadata, then retry
    COMPARE = "compare"  # compare with the target's log, and continue after its last record
    REFUSED = "refused"  # the target never accepts this record batch as it is
    OUT_OF_RANGE = "out of range"  # request the log start and end offsets
    QUARANTINE = "quarantine"  # not recoverable by retrying: report, and retry much later


NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
OPERATION_NOT_ATTEMPTED = 55  # another partition of the request failed, not this one
DUPLICATE_SEQUENCE_NUMBER = 46
SASL_AUTHENTICATION_FAILED = 58
# sparkmirror's own codes.
CORRUPT_SOURCE_BATCH = -1001  # the source's record batch does not match its CRC
CONNECTION_LOST = -1002  # the connection was closed or timed out
SOURCE_TRUNCATED = -1003  # the position is beyond the end of the source's log
NO_LEADER = -1004  # the partition has no leader now
TOPIC_RECREATED = -1005  # the topic's id differs from the planned one
GAP = -1006  # retention deleted records before they were copied, and gap.policy is stop
TARGET_TRUNCATED = -1007  # the target lost records that it had acknowledged
COMPARING = -1008  # comparing both sides takes longer than a few seconds
OPEN_TRANSACTION = -1009  # a transaction on the source has been open for too long
REGISTRY_UNREADABLE = -1010  # the registry of producers on the source, without which records loop

_REMEDIES = {
    OFFSET_OUT_OF_RANGE: Remedy.OUT_OF_RANGE,
    2: Remedy.RETRY,  # CORRUPT_MESSAGE: corrupted in transit
    3: Remedy.REFRESH,  # UNKNOWN_TOPIC_OR_PARTITION: being created or deleted
    5: Remedy.REFRESH,  # LEADER_NOT_AVAILABLE
    6: Remedy.REFRESH,  # NOT_LEADER_OR_FOLLOWER
    7: Remedy.RETRY,  # REQUEST_TIMED_OUT: the batch may be in the log; same sequence
    8: Remedy.REFRESH,  # BROKER_NOT_AVAILABLE
    9: Remedy.REFRESH,  # REPLICA_NOT_AVAILABLE
    10: Remedy.REFUSED,  # MESSAGE_TOO_LARGE
    13: Remedy.RETRY,  # NETWORK_EXCEPTION
    14: Remedy.RETRY,  # COORDINATOR_LOAD_IN_PROGRESS
    15: Remedy.RETRY,  # COORDINATOR_NOT_AVAILABLE
    16: Remedy.REFRESH,  # NOT_COORDINATOR
    18: Remedy.REFUSED,  # RECORD_LIST_TOO_LARGE
    19: Remedy.RETRY,  # NOT_ENOUGH_REPLICAS
    20: Remedy.RETRY,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND: the batch is in the log; same sequence
    32: Remedy.REFUSED,  # INVALID_TIMESTAMP
    45: Remedy.COMPARE,  # OUT_OF_ORDER_SEQUENCE_NUMBER
    47: Remedy.COMPARE,  # INVALID_PRODUCER_EPOCH
    51: Remedy.RETRY,  # CONCURRENT_TRANSACTIONS: the previous one is still completing
    56: Remedy.REFRESH,  # KAFKA_STORAGE_ERROR
    59: Remedy.COMPARE,  # UNKNOWN_PRODUCER_ID
    74: Remedy.REFRESH,  # FENCED_LEADER_EPOCH
    75: Remedy.REFRESH,  # UNKNOWN_LEADER_EPOCH
    78: Remedy.RETRY,  # OFFSET_NOT_AVAILABLE
    87: Remedy.REFUSED,  # INVALID_RECORD
    89: Remedy.RETRY,  # THROTTLING_QUOTA_EXCEEDED
    100: Remedy.REFRESH,  # UNKNOWN_TOPIC_ID
    103: Remedy.REFRESH,  # INCONSISTENT_TOPIC_ID
    CORRUPT_SOURCE_BATCH: Remedy.RETRY,
    OPEN_TRANSACTION: Remedy.RETRY,
    COMPARING: Remedy.RETRY,
    CONNECTION_LOST: Remedy.REFRESH,
    NO_LEADER: Remedy.REFRESH,
}

# A leader detects these before it appends anything.
NOT_APPENDED = frozenset({2, 10, 18, 19, 29, 32, 45, 51, 87})
NOT_AUTHORIZED = frozenset({29, 31})  # on a topic, on the cluster
SESSION_ERRORS = frozenset({70, 71, 106})  # not found, wrong epoch, topic id error: full fetch

# Error codes of a transaction coordinator. All others are fatal.
COORDINATOR_BUSY = frozenset({14, 51})  # loading, or completing the previous transaction
COORDINATOR_MOVED = frozenset({7, 13, 15, 16, CONNECTION_LOST})  # find the coordinator again
PARTITION_REFUSED = frozenset({3, 29})  # the partition does not exist, or is not authorized
FENCED = frozenset({47, 90})  # another producer holds the transactional id, or it timed out
TRANSACTION_FATAL = FENCED | {48, 49, 53, 72}  # from a leader: the transaction is not valid

_OUR_NAMES = {
    CORRUPT_SOURCE_BATCH: "CORRUPT_SOURCE_BATCH",
    CONNECTION_LOST: "CONNECTION_LOST",
    SOURCE_TRUNCATED: "SOURCE_TRUNCATED",
    NO_LEADER: "NO_LEADER",
    TOPIC_RECREATED: "TOPIC_RECREATED",
    GAP: "GAP",
    TARGET_TRUNCATED: "TARGET_TRUNCATED",
    OPEN_TRANSACTION: "OPEN_TRANSACTION",
    COMPARING: "COMPARING",
    REGISTRY_UNREADABLE: "REGISTRY_UNREADABLE",
}


def remedy(code: int) -> Remedy:
    """The reaction to an error code; QUARANTINE for unknown codes."""
    return _REMEDIES.get(code, Remedy.QUARANTINE)


def is_retriable(code: int) -> bool:
    """Whether a retry of the same request may succeed."""
    return remedy(code) in (Remedy.RETRY, Remedy.REFRESH)


def name(code: int) -> str:
    """The name of an error code, as in Kafka's documentation."""
    if code in _OUR_NAMES:
        return _OUR_NAMES[code]
    return error_name(code).name


_ADVICE = {
    OFFSET_OUT_OF_RANGE: "the position is outside the log",
    3: "the topic or partition does not exist; create it, or take it out of topics",
    7: "the brokers did not replicate the records in time; check that its replicas are in sync",
    10: (
        "a record batch is larger than the topic's max.message.bytes, or than "
        "producer.max.request.size; raise the limit if the target accepts larger batches"
    ),
    19: "fewer replicas are in sync than min.insync.replicas requires; start the missing brokers",
    29: "the principal may not use this topic; grant READ on the source, WRITE on the target",
    31: "the principal lacks a permission on the cluster; `sparkmirror check --connect` names it",
    32: "a timestamp is outside the target topic's message.timestamp.*.max.ms; raise that limit",
    35: "the broker does not support the required version of the request; upgrade it",
    47: "another task has taken over the transactional id, or the transaction timed out",
    48: "the coordinator does not expect this request in the current transaction state",
    49: "the transactional id now belongs to another producer id",
    50: "transaction.timeout.ms is larger than the target's transaction.max.timeout.ms",
    51: "the coordinator is still completing the previous transaction",
    53: "the principal may not use the transactional id; grant WRITE and DESCRIBE on it",
    87: "the broker rejected the record batch as invalid; its log has the reason",
    90: "another task has taken over the transactional id, or the transaction timed out",
    120: "the broker could not add to the transaction, which must be aborted",
    CORRUPT_SOURCE_BATCH: "a record batch on the source does not match its checksum; it is not "
    "copied. Repair the replica, or set corrupt.batch.policy to skip",
    CONNECTION_LOST: "the broker does not respond; check that it is up and not overloaded",
    SOURCE_TRUNCATED: (
        "the source lost records that were already copied, and source.truncated.policy is stop; "
        "set it to continue"
    ),
    GAP: (
        "records were deleted on the source before they were copied, and gap.policy is stop; set "
        "it to continue"
    ),
    TARGET_TRUNCATED: (
        "the target lost records that it had acknowledged; target.truncated.policy=recopy copies "
        "them again, stop leaves the partition stopped"
    ),
    COMPARING: "comparing source and target after a crash; copying continues afterwards",
    NO_LEADER: "the partition has no leader; start the brokers that hold its replicas",
    OPEN_TRANSACTION: "an open transaction on the source blocks all later records; end or abort it",
    REGISTRY_UNREADABLE: (
        "the registry of producers on the source cannot be read; grant READ and DESCRIBE on it, "
        "or set loop.policy=ignore"
    ),
    TOPIC_RECREATED: (
        "the topic was deleted and created again, so the stored position is not valid; "
        "set source.recreated.policy to restart"
    ),
}


def advice(code: int) -> str:
    """The cause and remedy of an error code, for users."""
    return _ADVICE.get(code, "see Kafka's documentation of this error")
