# SPDX-License-Identifier: Apache-2.0
"""Every error the package raises, drawn as one tree.

SparkmirrorError
├── ConfigError            the file, a key or a value is wrong; fixing it needs a person
├── SetupError             the machine lacks something (Java, a port, a directory, a registry)
├── ClusterError           a request to a Kafka cluster failed; names the cluster
│   ├── UnreachableError       no broker answers (retriable)
│   │   └── ConnectionLostError    one connection could not be opened, was refused or broke
│   ├── AuthenticationError    TLS or SASL authentication failed, or credentials are unavailable
│   ├── BrokerError            a broker answered with an error code (retriable if the code is)
│   ├── OpenTransactionError   an open transaction blocks reading (retriable)
│   ├── LeadershipLostError    another worker is the leader; a write was refused
│   └── ReplicationFactorError the cluster has too few brokers for a replication factor
├── WorkerError            a Connect worker refused a request, or is not one; names its address
│   └── WorkerUnreachableError  no answer from that address (retriable)
├── ArgumentError          a call with an argument that is missing or wrong (a ValueError as well)
├── GroupMigrationError    a consumer group cannot be moved; says what to do
├── ApiError               a request that a worker refuses, with its HTTP status (connect/api.py)
├── PlanError              a plan file that cannot be read, written or carried out
├── StaleOffsetError       the record to read has been rewritten meanwhile (retriable)
├── WireError              bytes that violate the protocol
│   ├── UnknownVersionError        a record of a newer format; it cannot be read or skipped
│   ├── UndecodableResponseError   a broker's response that cannot be decoded
│   ├── UnsupportedVersionError    the broker supports no version of a required API
│   └── CorruptRecordBatchError    a damaged record batch (retriable: fetch again)
├── ControlUnreachableError  an executor cannot connect to the driver's control channel
├── LeaseLostError         a task's lease expired without a renewal by its driver (retriable)
└── FencedError            another task took over; this one may not write (retriable)

Retry code decides by `retriable` of the class or the instance, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

_ENDS = (".", "!", "?")


class SparkmirrorError(Exception):
    """Root of the tree. The message is a sentence that a user can act on."""

    retriable: bool = False


class ConfigError(SparkmirrorError):
    """An invalid configuration; `key` and `where` identify the line."""

    def __init__(self, message: str, *, key: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.where = where


class SetupError(SparkmirrorError):
    """The machine lacks something; `remedy` says how to provide it."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.remedy = remedy


class ClusterError(SparkmirrorError):
    """A request that a cluster refused or failed; `cluster` is its alias."""

    def __init__(self, message: str, *, cluster: str) -> None:
        super().__init__(message)
        self.cluster = cluster


class UnreachableError(ClusterError):
    """No broker of the cluster answers."""

    retriable = True


class LossKind(Enum):
    """Why there is no connection."""

    UNREACHABLE = "unreachable"  # no TCP connection: name resolution, connection refused, timeout
    SILENT = "silent"  # TCP connected, but the peer did not answer
    REFUSED = "refused"  # TLS or SASL failed at either side
    NOT_READY = "not ready"  # there are no credentials to authenticate with
    LOST = "lost"  # the connection broke in use, or was closed by this side


class ConnectionLostError(UnreachableError):
    """A connection to a broker could not be opened, was refused or broke.

    `reason` is the message without cluster, broker and hint.
    """

    def __init__(
        self,
        reason: str,
        *,
        cluster: str,
        address: str,
        kind: LossKind,
        hint: str = "",
        retriable: bool = True,
    ) -> None:
        ending = f". {hint}" if hint else ""
        super().__init__(
            f"cluster {cluster!r}: broker {address}: {reason}{ending}", cluster=cluster
        )
        self.address = address
        self.kind = kind
        self.reason = reason
        self.retriable = retriable


class AuthenticationError(ClusterError):
    """A client could not authenticate; `cluster` is empty until `at` sets it."""

    def __init__(self, message: str, *, cluster: str = "", retriable: bool = False) -> None:
        super().__init__(message, cluster=cluster)
        self.retriable = retriable

    def at(self, cluster: str) -> AuthenticationError:
        """Return a copy with the cluster's name."""
        return AuthenticationError(
            f"Cluster '{cluster}': {self}", cluster=cluster, retriable=self.retriable
        )


class BrokerError(ClusterError):
    """A broker's error code, with the topic if the error concerns one."""

    def __init__(
        self,
        message: str,
        *,
        cluster: str,
        code: int,
        retriable: bool,
        topic: str | None = None,
    ) -> None:
        super().__init__(message, cluster=cluster)
        self.code = code
        self.retriable = retriable
        self.topic = topic


class OpenTransactionError(ClusterError):
    """Records after an open transaction cannot be read before it ends."""

    retriable = True


class LeadershipLostError(ClusterError):
    """Another worker is the leader; retrying fails unless this worker becomes leader again."""


class ReplicationFactorError(ClusterError):
    """The cluster has too few brokers for a replication factor that the file sets."""

    def __init__(self, message: str, *, cluster: str, key: str) -> None:
        super().__init__(message, cluster=cluster)
        self.key = key


class WorkerError(SparkmirrorError):
    """A Connect worker refused a request; `status` is the HTTP status, if any."""

    def __init__(self, message: str, *, url: str, status: int | None = None) -> None:
        super().__init__(message)
        self.url = url
        self.status = status


class WorkerUnreachableError(WorkerError):
    """A Connect worker's address does not answer."""

    retriable = True


class ArgumentError(SparkmirrorError, ValueError):
    """A user's program passes a missing or invalid argument."""


class GroupMigrationError(SparkmirrorError):
    """A consumer group cannot be parked; the message says what to do."""


class PlanError(SparkmirrorError):
    """A plan is damaged, is for another file, is too new, or cannot be stored."""


class StaleOffsetError(SparkmirrorError):
    """A record is no longer at its offset: read the topic again, then retry."""

    retriable = True


class WireError(SparkmirrorError):
    """Bytes that violate Kafka's protocol."""


class UnknownVersionError(WireError):
    """A record whose format version this program does not know."""


class UndecodableResponseError(WireError):
    """A response that cannot be decoded; callers see it as a lost connection."""


class UnsupportedVersionError(WireError):
    """The broker supports no version of a required API; nothing was sent."""

    def __init__(self, message: str, *, api_key: int) -> None:
        super().__init__(message)
        self.api_key = api_key


class CorruptRecordBatchError(WireError):
    """A damaged record batch; it is never forwarded."""

    retriable = True


class ControlUnreachableError(SparkmirrorError):
    """An executor cannot connect to the control channel; the message names the address."""


class LeaseLostError(SparkmirrorError):
    """The driver did not renew the lease; the task stopped, so that it is no zombie."""

    retriable = True


class FencedError(SparkmirrorError):
    """Another task holds the transactional id, or a transaction timed out; the driver replans."""

    retriable = True


def join_sentences(sentences: Iterable[str]) -> str:
    """Join messages into one text: a space follows a full sentence, a semicolon a fragment."""
    text = ""
    for one in filter(None, sentences):
        between = " " if text.endswith(_ENDS) else "; "
        text = f"{text}{between}{one}" if text else one
    return text
