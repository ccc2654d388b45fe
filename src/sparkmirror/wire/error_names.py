# SPDX-License-Identifier: Apache-2.0
"""Names and descriptions of Kafka's error codes, up to Kafka 4.3."""

from __future__ import annotations

from typing import NamedTuple


class ErrorName(NamedTuple):
    """The name and description of an error code, from Kafka's documentation."""

    name: str
    description: str


_UNKNOWN = ErrorName("UNKNOWN", "An unexpected server error.")
_NAMES: dict[int, tuple[str, str]] = {
    -1: ("UNKNOWN", "An unexpected server error."),
    0: ("NO_ERROR", "There is no error."),
    1: ("OFFSET_OUT_OF_RANGE", "The requested offset is outside of the log."),
    2: ("CORRUPT_MESSAGE", "The message failed its CRC check or is too large."),
    3: ("UNKNOWN_TOPIC_OR_PARTITION", "The topic or partition does not exist."),
    4: ("INVALID_FETCH_SIZE", "The message has a negative size."),
    5: ("LEADER_NOT_AVAILABLE", "A leader election is under way."),
    6: ("NOT_LEADER_OR_FOLLOWER", "The broker is not the leader or a follower of the partition."),
    7: ("REQUEST_TIMED_OUT", "The request took longer than its time limit."),
    8: ("BROKER_NOT_AVAILABLE", "The broker is not alive."),
    9: ("REPLICA_NOT_AVAILABLE", "The replica is not available."),
    10: ("MESSAGE_TOO_LARGE", "The message is larger than the broker accepts."),
    11: ("STALE_CONTROLLER_EPOCH", "Internal error code for broker-to-broker communication."),
    12: ("OFFSET_METADATA_TOO_LARGE", "The metadata of the offset is too long."),
    13: ("NETWORK_EXCEPTION", "A network error."),
    14: ("COORDINATOR_LOAD_IN_PROGRESS", "The coordinator is loading."),
    15: ("COORDINATOR_NOT_AVAILABLE", "The coordinator is not available."),
    16: ("NOT_COORDINATOR", "The broker is not the coordinator."),
    17: ("INVALID_TOPIC", "The topic name is not valid."),
    18: ("RECORD_LIST_TOO_LARGE", "The record batch is larger than a segment."),
    19: ("NOT_ENOUGH_REPLICAS", "Fewer replicas are in sync than required."),
    20: (
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "The message was written, but to fewer in-sync replicas than required.",
    ),
    21: ("INVALID_REQUIRED_ACKS", "The value of acks is not valid."),
    22: ("ILLEGAL_GENERATION", "The generation is not the current one."),
    23: ("INCONSISTENT_GROUP_PROTOCOL", "The protocols of the member do not suit the group."),
    24: ("INVALID_GROUP_ID", "Returned in join group when the groupId is empty or null."),
    25: ("UNKNOWN_MEMBER_ID", "The coordinator does not know the member."),
    26: ("INVALID_SESSION_TIMEOUT", "The session timeout is outside of the allowed range."),
    27: ("REBALANCE_IN_PROGRESS", "The group is rebalancing."),
    28: ("INVALID_COMMIT_OFFSET_SIZE", "The metadata of the offset is too long."),
    29: ("TOPIC_AUTHORIZATION_FAILED", "The client may not use the topic."),
    30: ("GROUP_AUTHORIZATION_FAILED", "The client may not use the group."),
    31: (
        "CLUSTER_AUTHORIZATION_FAILED",
        "The client may not perform this operation on the cluster.",
    ),
    32: ("INVALID_TIMESTAMP", "The timestamp of the message is out of acceptable range."),
    33: ("UNSUPPORTED_SASL_MECHANISM", "The broker does not support the requested SASL mechanism."),
    34: ("ILLEGAL_SASL_STATE", "Request is not valid given the current SASL state."),
    35: ("UNSUPPORTED_VERSION", "The version of API is not supported."),
    36: ("TOPIC_ALREADY_EXISTS", "Topic with this name already exists."),
    37: ("INVALID_PARTITIONS", "Number of partitions is invalid."),
    38: ("INVALID_REPLICATION_FACTOR", "Replication-factor is invalid."),
    39: ("INVALID_REPLICATION_ASSIGNMENT", "Replication assignment is invalid."),
    40: ("INVALID_CONFIG", "Configuration is invalid."),
    41: ("NOT_CONTROLLER", "This is not the correct controller for this cluster."),
    42: ("INVALID_REQUEST", "The request is malformed."),
    43: (
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "The message format version on the broker does not support this request.",
    ),
    44: ("POLICY_VIOLATION", "Request parameters do not satisfy the configured policy."),
    45: ("OUT_OF_ORDER_SEQUENCE_NUMBER", "The broker received an out of order sequence number."),
    46: ("DUPLICATE_SEQUENCE_NUMBER", "The broker received a duplicate sequence number."),
    47: ("INVALID_PRODUCER_EPOCH", "Producer attempted to produce with an old epoch."),
    48: (
        "INVALID_TXN_STATE",
        "The producer attempted a transactional operation in an invalid state.",
    ),
    49: ("INVALID_PRODUCER_ID_MAPPING", "The producer id is not assigned to the transactional id."),
    50: (
        "INVALID_TRANSACTION_TIMEOUT",
        "The transaction timeout is larger than the broker allows.",
    ),
    51: ("CONCURRENT_TRANSACTIONS", "Another operation on the transaction is under way."),
    52: ("TRANSACTION_COORDINATOR_FENCED", "Another coordinator has taken over the transaction."),
    53: ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "Transactional Id authorization failed."),
    54: ("SECURITY_DISABLED", "Security features are disabled."),
    55: ("OPERATION_NOT_ATTEMPTED", "The broker did not attempt this operation."),
    56: ("KAFKA_STORAGE_ERROR", "Disk error when trying to access log file on the disk."),
    57: (
        "LOG_DIR_NOT_FOUND",
        "The user-specified log directory is not found in the broker config.",
    ),
    58: ("SASL_AUTHENTICATION_FAILED", "SASL Authentication failed."),
    59: ("UNKNOWN_PRODUCER_ID", "The broker does not know the producer id."),
    60: ("REASSIGNMENT_IN_PROGRESS", "A partition reassignment is in progress."),
    61: ("DELEGATION_TOKEN_AUTH_DISABLED", "Delegation Token feature is not enabled."),
    62: ("DELEGATION_TOKEN_NOT_FOUND", "Delegation Token is not found on server."),
    63: ("DELEGATION_TOKEN_OWNER_MISMATCH", "Specified Principal is not valid Owner/Renewer."),
    64: (
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        "Delegation tokens cannot be requested on this channel.",
    ),
    65: ("DELEGATION_TOKEN_AUTHORIZATION_FAILED", "Delegation Token authorization failed."),
    66: ("DELEGATION_TOKEN_EXPIRED", "Delegation Token is expired."),
    67: ("INVALID_PRINCIPAL_TYPE", "The principal type is not supported."),
    68: ("NON_EMPTY_GROUP", "The group is not empty."),
    69: ("GROUP_ID_NOT_FOUND", "The group id does not exist."),
    70: ("FETCH_SESSION_ID_NOT_FOUND", "The fetch session ID was not found."),
    71: ("INVALID_FETCH_SESSION_EPOCH", "The fetch session epoch is invalid."),
    72: ("LISTENER_NOT_FOUND", "The leader has no matching listener."),
    73: ("TOPIC_DELETION_DISABLED", "Topic deletion is disabled."),
    74: (
        "FENCED_LEADER_EPOCH",
        "The leader epoch in the request is older than the epoch on the broker.",
    ),
    75: (
        "UNKNOWN_LEADER_EPOCH",
        "The leader epoch in the request is newer than the epoch on the broker.",
    ),
    76: (
        "UNSUPPORTED_COMPRESSION_TYPE",
        "The client does not support the compression type of the partition.",
    ),
    77: ("STALE_BROKER_EPOCH", "Broker epoch has changed."),
    78: ("OFFSET_NOT_AVAILABLE", "The high watermark of the new leader has not caught up yet."),
    79: ("MEMBER_ID_REQUIRED", "The member needs a member id first."),
    80: ("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available."),
    81: ("GROUP_MAX_SIZE_REACHED", "The consumer group has reached its max size."),
    82: ("FENCED_INSTANCE_ID", "Another consumer has registered with the same group.instance.id."),
    83: ("ELIGIBLE_LEADERS_NOT_AVAILABLE", "Eligible topic partition leaders are not available."),
    84: ("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."),
    85: ("NO_REASSIGNMENT_IN_PROGRESS", "No partition reassignment is in progress."),
    86: ("GROUP_SUBSCRIBED_TO_TOPIC", "The group is subscribed to the topic."),
    87: ("INVALID_RECORD", "The broker considers the record invalid."),
    88: ("UNSTABLE_OFFSET_COMMIT", "There are unstable offsets that need to be cleared."),
    89: ("THROTTLING_QUOTA_EXCEEDED", "The throttling quota has been exceeded."),
    90: ("PRODUCER_FENCED", "A newer producer has the same transactional id."),
    91: ("RESOURCE_NOT_FOUND", "A request illegally referred to a resource that does not exist."),
    92: ("DUPLICATE_RESOURCE", "A request illegally referred to the same resource twice."),
    93: (
        "UNACCEPTABLE_CREDENTIAL",
        "Requested credential would not meet criteria for acceptability.",
    ),
    94: ("INCONSISTENT_VOTER_SET", "The sender or the recipient is not a voter."),
    95: ("INVALID_UPDATE_VERSION", "The given update version was invalid."),
    96: (
        "FEATURE_UPDATE_FAILED",
        "Unable to update finalized features due to an unexpected server error.",
    ),
    97: (
        "PRINCIPAL_DESERIALIZATION_FAILURE",
        "The principal of a forwarded request is not readable.",
    ),
    98: ("SNAPSHOT_NOT_FOUND", "Requested snapshot was not found."),
    99: ("POSITION_OUT_OF_RANGE", "The position is outside of the snapshot."),
    100: ("UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
    101: ("DUPLICATE_BROKER_REGISTRATION", "This broker ID is already in use."),
    102: ("BROKER_ID_NOT_REGISTERED", "The given broker ID was not registered."),
    103: ("INCONSISTENT_TOPIC_ID", "The log's topic ID did not match the topic ID in the request."),
    104: (
        "INCONSISTENT_CLUSTER_ID",
        "The clusterId in the request does not match that found on the server.",
    ),
    105: ("TRANSACTIONAL_ID_NOT_FOUND", "The transactionalId could not be found."),
    106: (
        "FETCH_SESSION_TOPIC_ID_ERROR",
        "The fetch session encountered inconsistent topic ID usage.",
    ),
    107: ("INELIGIBLE_REPLICA", "The new ISR contains at least one ineligible replica."),
    108: ("NEW_LEADER_ELECTED", "The partition has another leader now."),
    109: ("OFFSET_MOVED_TO_TIERED_STORAGE", "The offset has moved to tiered storage."),
    110: ("FENCED_MEMBER_EPOCH", "The member epoch is fenced."),
    111: ("UNRELEASED_INSTANCE_ID", "Another member uses the instance id."),
    112: (
        "UNSUPPORTED_ASSIGNOR",
        "The assignor or its version range is not supported by the consumer group.",
    ),
    113: ("STALE_MEMBER_EPOCH", "The member epoch is stale."),
    114: ("MISMATCHED_ENDPOINT_TYPE", "The request was sent to an endpoint of the wrong type."),
    115: ("UNSUPPORTED_ENDPOINT_TYPE", "This endpoint type is not supported yet."),
    116: ("UNKNOWN_CONTROLLER_ID", "This controller ID is not known."),
    117: ("UNKNOWN_SUBSCRIPTION_ID", "The subscription id of the telemetry is not valid."),
    118: ("TELEMETRY_TOO_LARGE", "The telemetry is larger than the broker accepts."),
    119: ("INVALID_REGISTRATION", "The controller considers the broker registration invalid."),
    120: ("TRANSACTION_ABORTABLE", "The transaction must be aborted."),
    121: ("INVALID_RECORD_STATE", "The record state is invalid."),
    122: ("SHARE_SESSION_NOT_FOUND", "The share session was not found."),
    123: ("INVALID_SHARE_SESSION_EPOCH", "The share session epoch is invalid."),
    124: ("FENCED_STATE_EPOCH", "The state epoch of the share group does not match."),
    125: ("INVALID_VOTER_KEY", "The voter key doesn't match the receiving replica's key."),
    126: ("DUPLICATE_VOTER", "The voter is already part of the set of voters."),
    127: ("VOTER_NOT_FOUND", "The voter is not part of the set of voters."),
    128: ("INVALID_REGULAR_EXPRESSION", "The regular expression is not valid."),
    129: ("REBOOTSTRAP_REQUIRED", "Client metadata is stale, the client should rebootstrap."),
    130: ("STREAMS_INVALID_TOPOLOGY", "The supplied topology is invalid."),
    131: ("STREAMS_INVALID_TOPOLOGY_EPOCH", "The supplied topology epoch is invalid."),
    132: ("STREAMS_TOPOLOGY_FENCED", "The supplied topology epoch is outdated."),
    133: ("SHARE_SESSION_LIMIT_REACHED", "The limit of share sessions has been reached."),
}
# fmt: off
_RETRIABLE = frozenset({
    3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84,
    88, 89, 100, 103, 106, 122, 123, 133
})
# fmt: on


def error_name(code: int) -> ErrorName:
    """The name and description of a code; UNKNOWN if only a newer broker knows it."""
    return ErrorName(*_NAMES.get(code, _UNKNOWN))


def is_retriable_for_clients(code: int) -> bool:
    """Whether Kafka's own clients retry after this code.

    `error_codes.is_retriable` is about copying records and differs in some codes.
    """
    return code in _RETRIABLE
