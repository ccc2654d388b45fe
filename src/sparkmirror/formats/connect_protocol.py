# SPDX-License-Identifier: Apache-2.0
"""What Connect's workers tell each other through their Kafka group, byte for byte as Java's do.

A worker that joins says who it is, once for each protocol that it offers (`Metadata`):

    INT16   version            0 default, 1 compatible, 2 sessioned
    STRING  url                where its REST API is
    INT64   config offset      how far it has read the config topic
    from version 1 on:
    INT32   length, -1 for null, then an assignment: what it runs already

The leader answers each member with an `Assignment`:

    INT16   version
    INT16   error              0 none, 1 the leader does not know the newest configs
    STRING  leader             its member id
    STRING  leader url
    INT64   config offset      the configs that the assignment is about
    ARRAY   work               what to run; from version 1 on, what to run in addition
    from version 1 on:
    ARRAY   revoked            what to stop
    INT32   delay              milliseconds until everybody joins again; 0 for never

    ARRAY   INT32 count (-1 for none), then per connector: STRING name, ARRAY of INT32 tasks, where
            -1 is the connector itself
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from sparkmirror.errors import WireError
from sparkmirror.formats.primitives import (
    FieldReader,
    pack_int16,
    pack_int32,
    pack_int64,
    pack_string,
)

PROTOCOL_TYPE = "connect"
NO_ERROR = 0
CONFIG_MISMATCH = 1

_CONNECTOR_ITSELF = -1


class Version(IntEnum):
    """The versions of the protocol; a group speaks the newest one that all of its members know."""

    EAGER = 0
    COMPATIBLE = 1
    SESSIONED = 2

    @property
    def protocol(self) -> str:
        """Its name in the group."""
        return _NAMES[self]

    @classmethod
    def of(cls, protocol: str) -> Version:
        """The version that a group's protocol names."""
        for version, name in _NAMES.items():
            if name == protocol:
                return version
        raise WireError(f"The group speaks '{protocol}', which no version of Connect does.")


_NAMES = {
    Version.EAGER: "default",
    Version.COMPATIBLE: "compatible",
    Version.SESSIONED: "sessioned",
}


class TaskId(NamedTuple):
    """A task of a connector."""

    connector: str
    task: int


@dataclass(frozen=True, slots=True)
class Work:
    """Connectors and tasks, in the order in which they are written."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def plus(self, other: Work) -> Work:
        """This and the other; what is in both, once."""
        return Work(
            tuple(dict.fromkeys(self.connectors + other.connectors)),
            tuple(dict.fromkeys(self.tasks + other.tasks)),
        )

    def minus(self, other: Work) -> Work:
        """This without the other."""
        connectors, tasks = frozenset(other.connectors), frozenset(other.tasks)
        return Work(
            tuple(one for one in self.connectors if one not in connectors),
            tuple(one for one in self.tasks if one not in tasks),
        )


NOTHING = Work()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader of a group tells a member."""

    leader: str
    leader_url: str
    config_offset: int
    work: Work = NOTHING
    revoked: Work = NOTHING
    delay_ms: int = 0
    error: int = NO_ERROR
    version: int = Version.SESSIONED

    def encode(self, version: int | None = None) -> bytes:
        """The bytes, in another version than its own if one is given."""
        version = self.version if version is None else version
        written = (
            pack_int16(version)
            + pack_int16(self.error)
            + pack_string(self.leader)
            + pack_string(self.leader_url)
            + pack_int64(self.config_offset)
            + _packed(self.work)
        )
        if version == Version.EAGER:
            return written
        return written + _packed(self.revoked) + pack_int32(self.delay_ms)

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """What a leader has written; newer versions are read as far as we know them."""
        reader = FieldReader(data, "The assignment of a Connect worker")
        version = _version(reader, "assignment")
        error = reader.int16()
        assignment = cls(
            leader=reader.string(),
            leader_url=reader.string(),
            config_offset=reader.int64(),
            work=_work(reader),
            error=error,
            version=version,
        )
        if version == Version.EAGER:
            return assignment
        return replace(assignment, revoked=_work(reader), delay_ms=reader.int32())


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a worker says when it joins; `current` is its last assignment with all that it runs."""

    url: str
    config_offset: int
    current: Assignment | None = None
    version: int = Version.SESSIONED

    @property
    def work(self) -> Work:
        """What it runs."""
        return NOTHING if self.current is None else self.current.work

    def encode(self, version: int | None = None) -> bytes:
        """The bytes, in another version than its own if one is given."""
        version = self.version if version is None else version
        written = pack_int16(version) + pack_string(self.url) + pack_int64(self.config_offset)
        if version == Version.EAGER:
            return written
        if self.current is None:
            return written + pack_int32(-1)
        current = self.current.encode(version)
        return written + pack_int32(len(current)) + current

    @classmethod
    def decode(cls, data: bytes) -> Metadata:
        """What a worker has written; newer versions are read as far as we know them."""
        reader = FieldReader(data, "The metadata of a Connect worker")
        version = _version(reader, "metadata")
        url, offset = reader.string(), reader.int64()
        length = -1 if version == Version.EAGER else reader.int32()
        current = None if length < 0 else Assignment.decode(reader.raw(length))
        return cls(url, offset, current, version)


def _version(reader: FieldReader, what: str) -> int:
    version = reader.int16()
    if version < Version.EAGER:
        raise WireError(f"The {what} of a Connect worker has version {version}, which cannot be.")
    return version


def _packed(work: Work) -> bytes:
    """Connectors first, each with its tasks, then tasks without their connectors."""
    by_connector: dict[str, list[int]] = {name: [_CONNECTOR_ITSELF] for name in work.connectors}
    for connector, task in work.tasks:
        by_connector.setdefault(connector, []).append(task)
    return pack_int32(len(by_connector)) + b"".join(
        pack_string(connector) + _numbers(tasks) for connector, tasks in by_connector.items()
    )


def _numbers(numbers: Iterable[int]) -> bytes:
    packed = [pack_int32(number) for number in numbers]
    return pack_int32(len(packed)) + b"".join(packed)


def _work(reader: FieldReader) -> Work:
    connectors: list[str] = []
    tasks: list[TaskId] = []
    for _ in range(reader.int32()):
        connector = reader.string()
        for _ in range(reader.int32()):
            task = reader.int32()
            if task == _CONNECTOR_ITSELF:
                connectors.append(connector)
            else:
                tasks.append(TaskId(connector, task))
    return Work(tuple(connectors), tuple(tasks))
