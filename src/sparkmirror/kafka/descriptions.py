# SPDX-License-Identifier: Apache-2.0
"""Descriptions of topics, groups and brokers, as plain values without client library types."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from sparkmirror.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from sparkmirror.errors import BrokerError

K = TypeVar("K")
V = TypeVar("V")


class ConfigSource(IntEnum):
    """The source of a config value, numbered as in DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT_CONFIG = 5

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:  # noqa: ARG003 - the name is enum's
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of one topic."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


TopicConfigs: TypeAlias = tuple[ConfigEntry, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic of the cluster's metadata."""

    name: str
    topic_id: UUID | None  # None from brokers before Kafka 2.8
    partitions: int
    replication_factor: int
    is_internal: bool = False  # Kafka's own, such as __consumer_offsets


@dataclass(frozen=True, slots=True)
class Broker:
    """One live broker and its advertised address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster's id and its live brokers."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; a replication factor of -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def shape(self) -> str:
        """The parameters for users who create the topic manually."""
        partitions = counted(self.partitions, "partition")
        known = self.replication_factor > 0
        factor = f"replication factor {self.replication_factor}" if known else ""
        configs = (f"{name}={value}" for name, value in sorted(self.configs.items()))
        return ", ".join(part for part in (partitions, factor, *configs) if part)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group of a ListGroups response."""

    id: str
    state: str  # such as Empty or Stable; "" from old brokers
    type: str  # classic, consumer (KIP-848), share, streams
    protocol_type: str  # consumer, connect, ...; "" for a group that only holds offsets

    @property
    def is_active(self) -> bool:
        """Whether the group has members; false if an old broker does not report it."""
        return self.state not in ("", "Empty", "Dead")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's committed offset in one partition."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1  # -1: unknown


class LogEnd(NamedTuple):
    """A partition's end offset, and its leader epoch."""

    offset: int
    leader_epoch: int  # -1: unknown


@dataclass(frozen=True, slots=True)
class PartialResults(Generic[K, V]):
    """The results of a request about many items, some of which may fail."""

    found: dict[K, V]
    failed: dict[K, BrokerError]
