# SPDX-License-Identifier: Apache-2.0
"""Group metadata and assignments of workers, in the format of Connect's newest version.

The group protocol has its own name (`PROTOCOL`), so Java's workers and ours are never in one
group: ours run a connector as a whole, Java's leader distributes its tasks. The format is
Connect's version 2 ("sessioned"). Processes of `sparkmirror run` have another name
(`FLOW_PROTOCOL`): a worker runs what the config topic contains, such a process one flow of its
file.

Metadata of a member that joins (`WorkerMetadata`):

    INT16   version            2
    STRING  url                URL of its REST API
    INT64   config offset      how far it has read the config topic
    INT32   length, -1 for null, then an assignment: what it runs already
    STRING  flow               only in `FLOW_PROTOCOL`: the flow, `A->B`

The leader sends each member an `Assignment`:

    INT16   version            2
    INT16   error              0 none, 1 the leader has not read the newest configs
    STRING  leader             its member id
    STRING  leader url
    INT64   config offset      the configs that the assignment is based on
    ARRAY   connectors         to start
    ARRAY   revoked            to stop
    INT32   delay              milliseconds until the next rebalance; 0 for none

    ARRAY   INT32 count (-1 for null), then per connector: STRING name, ARRAY of INT32 tasks,
            always one -1, the connector itself
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
    """The leader's message to one member."""

    leader: str
    leader_url: str
    config_offset: int
    connectors: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()
    delay_ms: int = 0
    error: int = NO_ERROR

    def encode(self) -> bytes:
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
        """Decode; unknown fields of newer versions are ignored."""
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
    """A member's metadata; `current` is its last assignment with everything that it runs.

    A member with a `flow` runs only this flow; others run what is configured.
    """

    url: str
    config_offset: int
    current: Assignment | None = None
    flow: str | None = None

    @property
    def connectors(self) -> tuple[str, ...]:
        return () if self.current is None else self.current.connectors

    def encode(self) -> bytes:
        written = pack_int16(_VERSION) + pack_string(self.url) + pack_int64(self.config_offset)
        if self.current is None:
            written += pack_int32(-1)
        else:
            current = self.current.encode()
            written += pack_int32(len(current)) + current
        return written if self.flow is None else written + pack_string(self.flow)

    @classmethod
    def decode(cls, data: bytes) -> WorkerMetadata:
        """Decode; unknown fields of newer versions are ignored."""
        reader = FieldReader(data, "The metadata of a worker")
        version = _check_version(reader, "metadata")
        url, offset = reader.string(), reader.int64()
        length = reader.int32()
        current = None if length < 0 else Assignment.decode(reader.raw(length))
        has_flow = version == _VERSION and not reader.is_at_end
        return cls(url, offset, current, reader.string() if has_flow else None)


def _check_version(reader: FieldReader, what: str) -> int:
    version = reader.int16()
    if version < _VERSION:
        raise WireError(
            f"The {what} of a worker has version {version}; the group needs {_VERSION} or newer."
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
                f"A worker names tasks {parts} of connector '{name}'; in this group connectors run "
                f"as a whole."
            )
        found.append(name)
    return tuple(found)
