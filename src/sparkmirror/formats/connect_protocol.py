# SPDX-License-Identifier: Apache-2.0
"""What workers tell each other through their Kafka group, in the bytes of Connect's newest version.

The group's protocol has a name of its own (`PROTOCOL`), so that workers of Java's Connect and ours
are never in one group: ours run a connector as a whole, Java's leader spreads its tasks. Whatever
reads Connect's metadata and assignments (version 2, "sessioned") reads these. Processes of
`sparkmirror run` are never in one group with workers either (`PAIR_PROTOCOL`): a worker runs what
the config topic names, such a process one pair of its file, and says which.

A worker that joins says who it is (`WorkerMetadata`):

    INT16   version            2
    STRING  url                where its REST API is
    INT64   config offset      how far it has read the config topic
    INT32   length, -1 for null, then an assignment: what it runs already
    STRING  piece              of a pair's process only: the pair, `A->B`

The leader answers each member with an `Assignment`:

    INT16   version            2
    INT16   error              0 none, 1 the leader does not know the newest configs
    STRING  leader             its member id
    STRING  leader url
    INT64   config offset      the configs that the assignment is about
    ARRAY   connectors         what to run in addition
    ARRAY   revoked            what to stop
    INT32   delay              milliseconds until everybody joins again; 0 for never

    ARRAY   INT32 count (-1 for none), then per connector: STRING name, ARRAY of INT32 tasks, which
            is always one -1, the connector itself
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.errors import WireError
from sparkmirror.formats.primitives import (
    FieldReader,
    pack_int16,
    pack_int32,
    pack_int64,
    pack_string,
)

PROTOCOL_TYPE = "connect"
PROTOCOL = "sparkmirror"
FLOW_PROTOCOL = "sparkmirror-pair"
NO_ERROR = 0
CONFIG_MISMATCH = 1

_VERSION = 2
_CONNECTOR_ITSELF = -1


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader of a group tells a member."""

    leader: str
    leader_url: str
    config_offset: int
    connectors: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()
    delay_ms: int = 0
    error: int = NO_ERROR

    def encode(self) -> bytes:
        """The bytes."""
        return (
            pack_int16(_VERSION)
            + pack_int16(self.error)
            + pack_string(self.leader)
            + pack_string(self.leader_url)
            + pack_int64(self.config_offset)
            + _packed(self.connectors)
            + _packed(self.revoked)
            + pack_int32(self.delay_ms)
        )

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """What a leader has written; newer versions are read as far as we know them."""
        reader = FieldReader(data, "The assignment of a worker")
        _check_version(reader, "assignment")
        error = reader.int16()
        return cls(
            leader=reader.string(),
            leader_url=reader.string(),
            config_offset=reader.int64(),
            connectors=_connectors(reader),
            revoked=_connectors(reader),
            delay_ms=reader.int32(),
            error=error,
        )


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """What a worker says when it joins; `current` is its last assignment with all that it runs.

    One with a `piece` runs this and nothing else; the others run whatever is configured.
    """

    url: str
    config_offset: int
    current: Assignment | None = None
    flow: str | None = None

    @property
    def connectors(self) -> tuple[str, ...]:
        """What it runs."""
        return () if self.current is None else self.current.connectors

    def encode(self) -> bytes:
        """The bytes."""
        written = pack_int16(_VERSION) + pack_string(self.url) + pack_int64(self.config_offset)
        if self.current is None:
            written += pack_int32(-1)
        else:
            current = self.current.encode()
            written += pack_int32(len(current)) + current
        return written if self.flow is None else written + pack_string(self.flow)

    @classmethod
    def decode(cls, data: bytes) -> WorkerMetadata:
        """What a worker has written; newer versions are read as far as we know them."""
        reader = FieldReader(data, "The metadata of a worker")
        version = _check_version(reader, "metadata")
        url, offset = reader.string(), reader.int64()
        length = reader.int32()
        current = None if length < 0 else Assignment.decode(reader.raw(length))
        has_piece = version == _VERSION and not reader.is_at_end
        return cls(url, offset, current, reader.string() if has_piece else None)


def _check_version(reader: FieldReader, what: str) -> int:
    version = reader.int16()
    if version < _VERSION:
        raise WireError(
            f"The {what} of a worker has version {version}; its group speaks {_VERSION} or newer."
        )
    return version


def _packed(connectors: Sequence[str]) -> bytes:
    itself = pack_int32(1) + pack_int32(_CONNECTOR_ITSELF)
    return pack_int32(len(connectors)) + b"".join(pack_string(name) + itself for name in connectors)


def _connectors(reader: FieldReader) -> tuple[str, ...]:
    found = []
    for _ in range(reader.int32()):
        name = reader.string()
        parts = [reader.int32() for _ in range(reader.int32())]
        if parts != [_CONNECTOR_ITSELF]:
            raise WireError(
                f"A worker names parts {parts} of connector '{name}'; in this group connectors run "
                f"as a whole."
            )
        found.append(name)
    return tuple(found)
