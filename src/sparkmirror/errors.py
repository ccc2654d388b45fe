# SPDX-License-Identifier: Apache-2.0
"""Every error the package raises, drawn as one tree.

SparkmirrorError
├── ConfigError            the file, a key or a value is wrong; fixing it needs a person
├── SetupError             the machine lacks something (Java, a port, a directory, a registry)
├── ClusterError           a Kafka cluster did not do what was asked; names the cluster
│   ├── UnreachableError       no broker answers (retriable)
│   │   └── ConnectionLostError    one connection could not be opened, was refused or broke
│   ├── AuthenticationError    who we are was not believed, or could not be said
│   ├── BrokerError            a broker answered with an error code (retriable if the code is)
│   ├── OpenTransactionError   a transaction of somebody holds up what is to be read (retriable)
│   ├── LeadershipLostError    another worker leads: what this one wanted to write was refused
│   └── ReplicationFactorError a replication factor that the cluster cannot hold
├── WorkerError            a Connect worker refused what was asked, or is none; names its address
│   └── WorkerUnreachableError  nobody answers at that address (retriable)
├── ArgumentError          a call with an argument that is missing or wrong (a ValueError as well)
├── GroupMigrationError    a consumer group cannot be moved; says what to do
├── ApiError               a request that a worker refuses, with its HTTP status (connect/api.py)
├── PlanError              a plan file that cannot be read, written or carried out
├── StaleOffsetError       what was to be read has been written anew meanwhile (retriable)
├── WireError              bytes that are not what the protocol says
│   ├── UnknownVersionError        a record of a newer format: read by nobody, skipped by nobody
│   ├── UndecodableResponseError   an answer of a broker that is none: as if it had not come
│   ├── UnsupportedVersionError    the broker supports no version of an API that is needed
│   └── CorruptRecordBatchError    a record batch that is damaged (retriable: fetch again)
├── LeaseLostError         a task has not heard from its driver in time (retriable)
└── FencedError            a task may not write any more: another one took over (retriable)

`retriable` on the class (or the instance) is the only thing retry code may ask.

`join_sentences` makes one text of several messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

_ENDS = (".", "!", "?")


class SparkmirrorError(Exception):
    """Root of the tree; the message is a sentence a user can act on."""

    retriable: bool = False


class ConfigError(SparkmirrorError):
    """A configuration that cannot be run; `key` and `where` say which line is to blame."""

    def __init__(self, message: str, *, key: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.where = where


class SetupError(SparkmirrorError):
    """The machine is missing something; `remedy` says what to do about it."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.remedy = remedy


class ClusterError(SparkmirrorError):
    """Something a cluster refused or failed to do; `cluster` is its alias."""

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
    """A client could not prove who it is; `cluster` is empty as long as nobody has named it."""

    def __init__(self, message: str, *, cluster: str = "", retriable: bool = False) -> None:
        super().__init__(message, cluster=cluster)
        self.retriable = retriable

    def at(self, cluster: str) -> AuthenticationError:
        """The same with the cluster's name, for whoever knows it."""
        return AuthenticationError(
            f"Cluster '{cluster}': {self}", cluster=cluster, retriable=self.retriable
        )


class BrokerError(ClusterError):
    """A broker's own error code, with the topic it was about where there is one."""

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
    """What is behind an open transaction cannot be read before it ends."""

    retriable = True


class LeadershipLostError(ClusterError):
    """Another worker has taken over; asking again helps only whoever leads again."""


class ReplicationFactorError(ClusterError):
    """A replication factor was set in the file and the cluster has too few brokers for it."""

    def __init__(self, message: str, *, cluster: str, key: str) -> None:
        super().__init__(message, cluster=cluster)
        self.key = key


class WorkerError(SparkmirrorError):
    """A Connect worker did not do what was asked; `status` is that of HTTP, if any."""

    def __init__(self, message: str, *, url: str, status: int | None = None) -> None:
        super().__init__(message)
        self.url = url
        self.status = status


class WorkerUnreachableError(WorkerError):
    """No answer from the address of a Connect worker."""

    retriable = True


class ArgumentError(SparkmirrorError, ValueError):
    """A program of the user's calls us with an argument that is missing or makes no sense."""


class GroupMigrationError(SparkmirrorError):
    """A consumer group cannot be parked; the sentence says what to do."""


class PlanError(SparkmirrorError):
    """A plan that is damaged, foreign, newer than this program, or cannot be stored."""


class StaleOffsetError(SparkmirrorError):
    """A record is not where it was: read the topic again, and ask again."""

    retriable = True


class WireError(SparkmirrorError):
    """Bytes that do not follow Kafka's protocol."""


class UnknownVersionError(WireError):
    """A record in a version of its format that only a newer program knows."""


class UndecodableResponseError(WireError):
    """An answer that cannot be decoded; whoever waits for it is told that the connection broke."""


class UnsupportedVersionError(WireError):
    """The broker supports no version of an API that is needed; nothing was sent."""

    def __init__(self, message: str, *, api_key: int) -> None:
        super().__init__(message)
        self.api_key = api_key


class CorruptRecordBatchError(WireError):
    """A record batch that is damaged; never forwarded."""

    retriable = True


class LeaseLostError(SparkmirrorError):
    """The driver has gone silent; the task ended itself rather than write on as a zombie."""

    retriable = True


class FencedError(SparkmirrorError):
    """Another task holds the transactional id, or a transaction timed out; the driver goes on."""

    retriable = True


def join_sentences(sentences: Iterable[str]) -> str:
    """What ends like a sentence is followed by a space, anything else by a semicolon."""
    text = ""
    for one in filter(None, sentences):
        between = " " if text.endswith(_ENDS) else "; "
        text = f"{text}{between}{one}" if text else one
    return text
